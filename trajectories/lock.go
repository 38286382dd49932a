package trajectories

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories/filelock"
)

// lock is the ownership of a run directory. The kernel gives it back when the
// owner dies, however it dies; the content of the file only names the owner.
type lock struct{ file *os.File }

func acquireLock(dir string, who identity, now time.Time) (*lock, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock run %s: %w (the run directory must be writable)", dir, err)
	}
	if err := filelock.Try(f); err != nil {
		closeErr := f.Close()
		if errors.Is(err, filelock.ErrHeld) {
			return nil, firstOf(lockedError(dir, path), closeErr)
		}
		if errors.Is(err, filelock.ErrUnsupported) {
			// Without a lock that dies with its owner two processes could write one run.
			err = fmt.Errorf("%w (choose a --run-dir on a local disk)", err)
		}
		return nil, firstOf(fmt.Errorf("lock run %s: %w", dir, err), closeErr)
	}
	content := []byte(`{"pid":`)
	content = fmt.Appendf(content, "%d", who.pid)
	content = append(content, `,"host":`...)
	content = chat.AppendString(content, who.host)
	content = append(content, `,"started":"`...)
	content = now.UTC().AppendFormat(content, timeLayout)
	content = append(content, "\"}\n"...)
	l := &lock{file: f}
	if err := f.Truncate(0); err != nil {
		return nil, firstOf(fmt.Errorf("lock run %s: %w", dir, err), l.release())
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return nil, firstOf(fmt.Errorf("lock run %s: %w", dir, err), l.release())
	}
	return l, nil
}

func lockedError(dir, path string) error {
	e := &LockedError{Dir: dir}
	content, err := os.ReadFile(path)
	if err != nil || !gjson.ValidBytes(content) {
		return e // the owner is just writing its name
	}
	owner := gjson.ParseBytes(content)
	e.PID = int(owner.Get("pid").Int())
	e.Host = owner.Get("host").String()
	e.Started = owner.Get("started").Time()
	return e
}

// release empties the file and gives the lock back. The file itself stays: were
// it removed, two processes could come to hold locks on two files of that name.
func (l *lock) release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// identity names this process in the files of a run.
type identity struct {
	pid  int
	host string
}

func thisProcess() identity {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return identity{pid: os.Getpid(), host: host}
}

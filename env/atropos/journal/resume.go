package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/hermes-env/hermes-env/internal/atomicfile"
)

// Reload returns what the log holds durably after it has failed. What was appended
// besides is given up: its Wait fails. Append must not be called meanwhile.
func (l *Log) Reload() (*Recovered, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		return nil, errors.New("reload the log: it has not failed")
	}
	for l.busy || len(l.queue) > 0 {
		l.done.Wait()
	}
	if l.synced < l.next {
		l.lost = append(l.lost, numbers{l.synced, l.next})
		l.synced = l.next
	}
	l.tail, l.offset = l.tailFile().number, l.fileSynced
	recovered, err := l.reload()
	if err != nil {
		return nil, fmt.Errorf("reload the log: %w", err)
	}
	return recovered, nil
}

// reload reads the newest snapshot and what follows it. mu is held.
func (l *Log) reload() (*Recovered, error) {
	var list []uint64
	for n := range l.files {
		list = append(list, n)
	}
	slices.Sort(list)
	var recovered Recovered
	for i, number := range slices.Backward(list) {
		snapshot, ok, err := readSnapshot(l.files[number])
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		recovered.Snapshot = snapshot
		for _, n := range list[i:] {
			if err := l.reread(l.files[n], &recovered); err != nil {
				return nil, err
			}
		}
		return &recovered, nil
	}
	return nil, errors.New("no file begins with a whole snapshot")
}

// reread reads the durable records of a file after its snapshot.
func (l *Log) reread(f *file, recovered *Recovered) error {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	if f.number == l.tail {
		content = content[:min(int64(len(content)), l.fileSynced)]
	}
	for at := int64(0); at < int64(len(content)); {
		r, err := parse(content, at)
		if err != nil {
			return &DamagedError{f.path, at}
		}
		if r.kind == kindEvent {
			recovered.Records = append(recovered.Records, Record{Meta: slices.Clone(r.meta), File: f.number, DataAt: r.dataAt})
		}
		at = r.end
	}
	return nil
}

// probeSize is how many bytes must be writable before a failed log is used again.
const probeSize = 64 << 10

// Resume makes a log writable that has failed and was reloaded. It fails while the
// disk does.
func (l *Log) Resume() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.failed == nil:
		return nil
	case l.closed:
		return ErrClosed
	case l.busy || len(l.queue) > 0 || l.synced < l.next:
		return errors.New("resume the log: it was not reloaded since it failed")
	}
	if err := l.resume(); err != nil {
		return fmt.Errorf("resume the log: %w", err)
	}
	l.failed = nil
	return nil
}

func (l *Log) resume() error {
	// A file that was being begun holds nothing that was reported as durable.
	next := filepath.Join(l.dir, fileName(l.tail+1))
	for _, path := range []string{next, next + ".tmp"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := l.probe(); err != nil {
		return err
	}
	handle := l.files[l.tail].handle
	if err := handle.Truncate(l.fileSynced); err != nil {
		return err
	}
	if _, err := handle.Seek(l.fileSynced, io.SeekStart); err != nil {
		return err
	}
	if !l.sync {
		return nil
	}
	return errors.Join(handle.Sync(), atomicfile.SyncDir(l.dir))
}

// probe writes a file and removes it.
func (l *Log) probe() (err error) {
	path := filepath.Join(l.dir, "probe")
	handle, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, handle.Close(), os.Remove(path)) }()
	if _, err := l.output(handle, make([]byte, probeSize)); err != nil {
		return err
	}
	return handle.Sync()
}

package trajectories

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hermes-env/hermes-env/internal/atomicfile"
)

// appendFile is what the writer needs of an open file; tests put a failing one in its place.
type appendFile interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
	Close() error
}

// openAppend opens a file for appending, creating it when missing.
func openAppend(path string) (appendFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
}

// makeDirs creates dir and the missing directories above it, durably.
func makeDirs(dir string) error { return atomicfile.MakeDirs(dir, 0o755) }

// makeDir creates one directory, durably, unless it is there.
func makeDir(dir string) error { return atomicfile.MakeDir(dir, 0o755) }

// writeAtomic replaces path with what write produces: at any instant a reader,
// or a machine that lost power, finds the old content or the new one, whole. The
// temporary name is fixed, so that a killed writer leaves at most one behind;
// writers of one path must exclude each other.
func writeAtomic(path string, write func(io.Writer) error) error {
	if err := stage(path, write); err != nil {
		return err
	}
	return publish(path)
}

// stage writes the new content of path, durably, under the temporary name.
func stage(path string, write func(io.Writer) error) (err error) {
	temporary := path + temporarySuffix
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = firstOf(err, ignoreMissing(os.Remove(temporary)))
		}
	}()
	if err := write(f); err != nil {
		return firstOf(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return firstOf(fmt.Errorf("sync %s: %w", temporary, err), f.Close())
	}
	return f.Close()
}

// publish puts staged content in the place of the old.
func publish(path string) error {
	if err := os.Rename(path+temporarySuffix, path); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// temporarySuffix ends the names of files that are being written and then renamed.
const temporarySuffix = ".tmp"

// closeInto closes c and reports a failure to do so, unless there is an error already.
func closeInto(err *error, c io.Closer) {
	if closeErr := c.Close(); *err == nil {
		*err = closeErr
	}
}

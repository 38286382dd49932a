package trajectories

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// makeDirs creates dir and the missing directories above it, durably.
func makeDirs(dir string) error {
	err := os.Mkdir(dir, 0o755)
	switch {
	case err == nil:
		return syncDir(filepath.Dir(dir))
	case errors.Is(err, fs.ErrExist):
		info, statErr := os.Stat(dir)
		if statErr != nil {
			return statErr
		}
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("a file of that name exists")}
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := makeDirs(filepath.Dir(dir)); err != nil {
			return err
		}
		return makeDirs(dir)
	}
	return err
}

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
	return syncDir(filepath.Dir(path))
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

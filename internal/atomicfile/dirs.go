package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeDirs creates dir and the missing directories above it, durably.
func MakeDirs(dir string, perm fs.FileMode) error {
	err := MakeDir(dir, perm)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := MakeDirs(parent, perm); err != nil {
			return err
		}
		if err = MakeDir(dir, perm); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// The parent is there and takes no directory: /proc, or a working directory that
	// was deleted. Making the parent again would not end.
	if _, gone := os.Getwd(); gone != nil && !filepath.IsAbs(dir) {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("the working directory was deleted: change to one that exists")}
	}
	return &fs.PathError{Op: "mkdir", Path: dir, Err: fmt.Errorf("%s takes no new directories", filepath.Dir(dir))}
}

// MakeDir creates one directory, durably, unless it is there.
func MakeDir(dir string, perm fs.FileMode) error {
	err := os.Mkdir(dir, perm)
	switch {
	case err == nil:
		return SyncDir(filepath.Dir(dir))
	case errors.Is(err, fs.ErrExist):
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("a symbolic link of that name leads nowhere")}
		case err == nil && !info.IsDir():
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("a file of that name exists")}
		}
		return err
	}
	return err
}

package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// removeTree removes dir and everything below, also directories without write or
// search permission.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	// Make every directory writable on the way down; WalkDir opens a directory only
	// after its function ran for it.
	walk := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	if again := os.RemoveAll(dir); again != nil {
		return errors.Join(again, walk)
	}
	return nil
}

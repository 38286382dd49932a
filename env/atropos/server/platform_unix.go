//go:build unix && !aix && !solaris

package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// inUse says whether an address could not be listened on since another does.
func inUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// freeSpace returns how many bytes can be written to the disk of a directory.
func freeSpace(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil
}

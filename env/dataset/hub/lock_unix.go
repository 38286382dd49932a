//go:build unix && !aix && !solaris

package hub

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes an exclusive lock that lives as long as the open file, or returns
// errWouldBlock or errNoLocks.
func tryLock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errWouldBlock
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK):
			return errNoLocks
		default:
			return err
		}
	}
}

// diskFull reports whether a write failed for want of room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

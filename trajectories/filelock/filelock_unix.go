//go:build unix && !aix && !solaris

package filelock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Try takes the exclusive lock of an open file, which lasts until the file is closed.
// The error is ErrHeld or ErrUnsupported, or another one of the file system.
func Try(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrHeld
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK):
			return fmt.Errorf("%w: this file system has none: %w", ErrUnsupported, err)
		default:
			return fmt.Errorf("flock: %w", err)
		}
	}
}

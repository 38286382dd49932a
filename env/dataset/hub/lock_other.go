//go:build !unix || aix || solaris

package hub

import (
	"errors"
	"os"
	"syscall"
)

// tryLock has nothing to offer here; the goroutines of this process are kept apart
// without it.
func tryLock(*os.File) error { return errNoLocks }

// diskFull reports whether a write failed for want of room.
func diskFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }

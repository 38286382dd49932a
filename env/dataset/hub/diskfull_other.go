//go:build !unix || aix || solaris

package hub

import (
	"errors"
	"syscall"
)

// diskFull reports whether a write failed for want of room.
func diskFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }

//go:build !unix || aix || solaris

package journal

import (
	"errors"
	"os"
)

// tryLock refuses: without a lock that dies with its owner two processes could
// write one log.
func tryLock(*os.File) error {
	return errors.New("state directories are not supported on this operating system: it has no flock")
}

//go:build !unix || aix || solaris

package trajectories

import (
	"errors"
	"os"
)

// tryLock refuses: without a lock that dies with its owner two processes could
// write one run.
func tryLock(*os.File) error {
	return errors.New("run directories are not supported on this operating system: it has no flock")
}

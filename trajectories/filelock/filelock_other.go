//go:build !unix || aix || solaris

package filelock

import (
	"fmt"
	"os"
)

// Try returns ErrUnsupported: this operating system has no lock that dies with its owner.
func Try(*os.File) error {
	return fmt.Errorf("%w: this operating system has no flock", ErrUnsupported)
}

//go:build !linux

package local

import (
	"fmt"
	"os"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// openTerminal is not possible here.
func openTerminal(sandbox.Terminal) (master, slave *os.File, err error) {
	return nil, nil, fmt.Errorf("make a pseudo terminal: %w on this system", sandbox.ErrUnsupported)
}

// another is only needed for terminals.
func another(*os.File) (*os.File, error) { return nil, sandbox.ErrUnsupported }

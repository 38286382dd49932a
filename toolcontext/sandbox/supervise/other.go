//go:build !linux || !(amd64 || arm64)

package supervise

import (
	"fmt"
	"io"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Word is the hidden first argument that makes a program the launcher.
const Word = "sandbox-launch"

// Launch reports that launching is not supported on this system.
func Launch(_ []string, stderr io.Writer) int {
	fmt.Fprintf(stderr, "%s: %v\n", Word, sandbox.ErrUnsupported)
	return 2
}

// Session supervises one command.
type Session struct{}

// Start fails: there are no supervisors on this system.
func Start(sandbox.Policy) (*Session, error) {
	return nil, fmt.Errorf("supervise a command: %w", sandbox.ErrUnsupported)
}

// Args returns the arguments of the launcher for a command.
func (s *Session) Args(_ string, argv []string) []string { return argv }

// End ends the supervision.
func (s *Session) End() (sandbox.Supervision, error) {
	return sandbox.Supervision{}, sandbox.ErrUnsupported
}

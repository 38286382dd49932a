//go:build !linux

package inside

import (
	"fmt"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// pathWatch needs Linux.
type pathWatch struct{}

func (*pathWatch) begin([]string) error {
	return fmt.Errorf("watch directories: %w on this system", sandbox.ErrUnsupported)
}

func (*pathWatch) take(bool) ([]sandbox.WatchEvents, bool, error) {
	return nil, false, fmt.Errorf("watch directories: %w on this system", sandbox.ErrUnsupported)
}

func (*pathWatch) end() {}

//go:build !linux

package local

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// keepServices needs Linux's /proc.
func keepServices(context.Context, scope, time.Duration) ([]sandbox.Service, error) {
	return nil, fmt.Errorf("find out which processes listen: %w on this system", sandbox.ErrUnsupported)
}

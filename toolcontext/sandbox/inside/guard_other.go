//go:build !linux

package inside

import (
	"context"
	"errors"
)

// guard guards nothing: there is nothing of the kind here.
type guard struct{}

func (*guard) starting() func() { return func() {} }
func (*guard) check() bool      { return false }
func (*guard) said() []string   { return nil }

// reserve and becomeApart are for containers, which are Linux's.
func reserve(names []string) error { return nil }

func passedOn() []uintptr { return nil }

func (id identity) becomeApart() error { return errors.ErrUnsupported }

func (s *server) watchPlace(ctx context.Context) {}

func noWatches(error) bool { return false }

func (s *server) endWatchHolders() bool { return false }

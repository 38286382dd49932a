//go:build !linux

package docker

import (
	"context"
	"errors"
)

// diskImages are for programs on the engine's own machine, which runs Linux.
type diskImages struct{}

func (d *diskImages) missing() error { return errors.New("this machine is not the engine's") }

func (d *diskImages) cover(context.Context, string, int64) error { return d.missing() }

func uncover(string) error { return nil }

func releaseSpare(string) {}

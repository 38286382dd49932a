//go:build !linux

package local

import "github.com/hermes-env/hermes-env/internal/owner"

// cgroups exist on Linux only.
type cgroups struct{}

func findCgroups(owner.Owner, string) *cgroups { return nil }

func (*cgroups) disable() {}
func (*cgroups) reap()    {}

// cgroup is always nil here.
type cgroup struct{}

func (s *Sandbox) commandGroup() *cgroup { return nil }

func (*cgroup) release() {}
func (*cgroup) remove()  {}

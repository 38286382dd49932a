package sandbox

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Network says what a sandbox can reach.
type Network string

// The networks a Spec can ask for.
const (
	NetworkNone   Network = "none"   // nothing but itself
	NetworkBridge Network = "bridge" // what the machine reaches, behind its address
	// NetworkAllowlist is nothing but itself and a proxy, named by the usual variables
	// (http_proxy, …), which connects to Spec.AllowedHosts and refuses all else.
	NetworkAllowlist Network = "allowlist"
)

// Validate checks that the network is one of the known ones; "" is the default.
func (n Network) Validate() error {
	switch n {
	case "", NetworkNone, NetworkBridge, NetworkAllowlist:
		return nil
	}
	return fmt.Errorf("there is no network %q; there are none, bridge and allowlist", string(n))
}

// Healthcheck is a script that says when a sandbox is ready. Zero fields mean the
// defaults of Docker's HEALTHCHECK: every 30 s, 30 s each, 3 failures.
type Healthcheck struct {
	Script   string
	Interval time.Duration // from the end of one try to the start of the next
	Timeout  time.Duration // of one try
	Retries  int           // failures in a row, after StartPeriod, that end the waiting
	// StartPeriod is how long failures do not count; tries then come every StartInterval.
	StartPeriod   time.Duration
	StartInterval time.Duration // 0 means 5 s
}

// Validate checks what no backend could honour.
func (s Spec) Validate() error {
	if s.Image != "" && s.Build != "" {
		return fmt.Errorf("the spec names both the image %s and the folder %s to build; name one", s.Image, s.Build)
	}
	if math.IsNaN(s.CPUs) || s.CPUs < 0 || s.CPUs > 1<<20 {
		return fmt.Errorf("a sandbox can't have %g processors", s.CPUs)
	}
	if s.MemoryBytes < 0 || s.PIDs < 0 || s.DiskBytes < 0 {
		return fmt.Errorf("a limit of the spec is negative: memory %d, processes %d, disk %d", s.MemoryBytes, s.PIDs, s.DiskBytes)
	}
	for name, value := range map[string]string{"image": s.Image, "folder to build": s.Build, "directory": s.Dir, "user": s.User} {
		if strings.ContainsAny(value, "\x00\n") {
			return fmt.Errorf("the %s %q contains a NUL byte or a line break", name, value)
		}
	}
	if err := s.Network.Validate(); err != nil {
		return err
	}
	if len(s.AllowedHosts) > 0 && s.Network != NetworkAllowlist {
		return fmt.Errorf("the spec allows hosts (%s) but not the network allowlist, which alone looks at them", s.AllowedHosts[0])
	}
	if _, err := ParseHosts(s.AllowedHosts); err != nil {
		return err
	}
	if h := s.Healthcheck; h != nil {
		if err := (Command{Script: h.Script}).Validate(); err != nil {
			return fmt.Errorf("the health check: %w", err)
		}
		if h.Script == "" || h.Interval < 0 || h.Timeout < 0 || h.Retries < 0 || h.StartPeriod < 0 || h.StartInterval < 0 {
			return fmt.Errorf("the health check has no script or a negative length of time")
		}
	}
	return errors.Join(s.BuildOptions.validate(s.Build), s.Compose.validate(), ValidateEnv(s.Env))
}

// ForContainers names the first field that only a backend with containers can
// honour, for those that have none; "" where the spec has no such field.
func (s Spec) ForContainers() string {
	switch {
	case s.Image != "":
		return "the image " + s.Image
	case s.Build != "":
		return "an image built from " + s.Build
	case s.Compose != nil:
		return "the compose project " + s.Compose.File
	case s.User != "":
		return "the user " + s.User
	case s.CPUs != 0:
		return fmt.Sprintf("a limit of %g processors", s.CPUs)
	case s.MemoryBytes != 0:
		return fmt.Sprintf("a limit of %d bytes of memory", s.MemoryBytes)
	case s.PIDs != 0:
		return fmt.Sprintf("a limit of %d processes", s.PIDs)
	case s.DiskBytes != 0:
		return fmt.Sprintf("a limit of %d bytes on disk", s.DiskBytes)
	case s.Network != "":
		return "the network " + string(s.Network)
	case s.Healthcheck != nil:
		return "a health check"
	}
	return ""
}

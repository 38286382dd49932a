package sandbox

import (
	"context"
	"strings"
)

// Service is a process that was kept because it, or one it belongs with, listens.
type Service struct {
	PID     int    `json:"pid"`
	Command string `json:"command"` // its command line, cut to 400 bytes
	// Listens says on what: "tcp 0.0.0.0:8080", "udp …", "unix /run/x.sock" (with @ in
	// front of abstract names). Empty for one that was kept for another's sake.
	Listens []string `json:"listens,omitempty"`
	Because string   `json:"because,omitempty"` // why then: of the parents, children or session of a listener
}

// String describes a service in one line.
func (s Service) String() string {
	if len(s.Listens) == 0 {
		return s.Command
	}
	return s.Command + " (" + strings.Join(s.Listens, ", ") + ")"
}

// ServiceKeeper ends everything in a sandbox but its services.
type ServiceKeeper interface {
	// KillOthers stops every process started in the sandbox, ends those that are no
	// services and lets the services go on. A service listens for connections or
	// datagrams, or is a parent, a child or of the session of one that does. It returns
	// the services when all else is gone.
	KillOthers(ctx context.Context) ([]Service, error)
}

// WatchEvents counts what happened to one path.
type WatchEvents struct {
	Path    string
	Created int // made, as a file, link or directory
	Written int // closed by somebody who might have written
	Arrived int // renamed to this name
	Left    int // renamed away, or deleted
	// Elsewhere counts writes under another name of the same file, and whether it came
	// with one; only of files that are new.
	Elsewhere int
}

// Watcher notes what is done to directories from outside of them, without a program of
// the sandbox.
type Watcher interface {
	// Watch begins to note changes in directories with all below them, and of their own
	// names. One watch is there at a time; a new one takes the place of the old.
	Watch(ctx context.Context, dirs []string) error
	// Watched returns what was noted since the last call, by path; lost says that there
	// was more than could be noted. end ends the watch.
	Watched(ctx context.Context, end bool) (events []WatchEvents, lost bool, err error)
}

package sandbox

import (
	"context"
	"strings"
)

// Service is a process that the agent left running.
type Service struct {
	PID     int    `json:"pid"`
	Command string `json:"command"` // its command line, cut to 400 bytes
	// Listens says on what: "tcp 0.0.0.0:8080", "udp …", "unix /run/x.sock" (with @ in
	// front of abstract names). Empty for one that doesn't listen.
	Listens []string `json:"listens,omitempty"`
	Because string   `json:"because,omitempty"` // parent, child or session: how it belongs to a listener
}

// String describes a service in one line.
func (s Service) String() string {
	if len(s.Listens) == 0 {
		return s.Command
	}
	return s.Command + " (" + strings.Join(s.Listens, ", ") + ")"
}

// Keep says which processes KillOthers keeps.
type Keep int

// What can be kept. A service listens for connections or datagrams, or is a parent, a
// child or of the session of a process that does.
const (
	KeepServices Keep = iota
	KeepAll
	KeepNone
)

// ServiceKeeper lists the processes of a sandbox and ends some of them.
type ServiceKeeper interface {
	// KillOthers stops every process started in the sandbox, ends those that are not to
	// be kept and resumes the others. It returns both when the ended ones are gone.
	KillOthers(ctx context.Context, keep Keep) (kept, ended []Service, err error)
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

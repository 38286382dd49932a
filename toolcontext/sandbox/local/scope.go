package local

import "sync/atomic"

// scope says which processes belong together: all of a sandbox, or those of one
// command when marker is set.
type scope struct {
	sandbox string // the sandbox's id
	marker  string // the command's marker, "" for the whole sandbox
	root    string // processes with a working directory below belong to it
	since   uint64 // nothing older belongs to it, in the unit of start times
	leader  int    // the command's own process, not yet reaped; 0 without
	// children are the processes that this one has started for the scope. No other
	// child of this process is ever touched: between fork and exec it shares this
	// process's memory and holds all its pipes, and stopping it would stop us.
	children []int
	// sessions are ids of sessions that had processes when their command ended, and
	// when that was: an id can have been given to a stranger since.
	sessions map[int]uint64
	pipes    []uint64 // inodes of pipes only its processes write to
	group    *cgroup
	orphans  *orphans
	// claimOrphans takes adopted processes without any other trace as its own.
	claimOrphans bool
	// everything makes all other processes there are part of it.
	everything bool
	// lastResort, when set, allows to end all other processes there are where the
	// scope's can't be told from them in time, and is true once that was done.
	lastResort *atomic.Bool
}

// placement is where and how a process starts.
type placement struct {
	dir      string
	terminal bool // its standard input is to be its controlling terminal
	group    *cgroup
	ambient  []uintptr // capabilities it gets whatever its user is
}

// resorted reports whether all processes were ended for want of time.
func (sc scope) resorted() bool { return sc.lastResort != nil && sc.lastResort.Load() }

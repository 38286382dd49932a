package server

import (
	"log/slog"
	"os"
	"time"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// Config says how a server behaves.
type Config struct {
	// Dir holds the state; "" means a temporary directory that goes away with the server.
	Dir string
	// NoSync acknowledges data before it is on disk: it then survives the death of the
	// process but not of the machine.
	NoSync bool
	// Repair passes over damaged parts of the state, which are otherwise an error.
	Repair bool
	Rules  atropos.Rules
	Token  string // asked of every request but /healthz; "" for none
	NoCORS bool   // leaves out the headers that let pages in browsers make requests

	MaxSequences int64         // held at once, before posts wait and are refused; 0 means 1,048,576
	MaxBytes     int64         // held at once on disk; 0 means 64 GiB
	MaxBody      int64         // bytes of one request, unpacked; 0 means 512 MiB
	MaxMemory    int64         // for requests that are being read, in bytes, at least 4 times MaxBody if none is to take more; 0 means 2 GiB
	MinFree      int64         // bytes to leave free on the disk; 0 means 256 MiB, negative that it isn't looked at
	Patience     time.Duration // how long a post waits for room before it is refused; 0 means 15 s, negative not at all
	Stall        time.Duration // a connection on which nothing moves for so long, or next to nothing, is given up; 0 means 30 s
	FileSize     int64         // of one file of the journal, in bytes; 0 means 64 MiB

	Version string
	clock   func() time.Time // nil means time.Now, whose times jumps of the clock don't reach
	Log     *slog.Logger     // nil: nothing is logged

	write    func(*os.File, []byte) (int, error) // to the journal; nil means (*os.File).Write
	free     func(dir string) (int64, error)     // bytes of its disk; nil means those of the system
	diskPoll time.Duration                       // between looks at the disk; 0 means 1 s
}

// now is the time; only differences of it are used, none of them over a restart.
func (c *Config) now() time.Time {
	if c.clock == nil {
		return time.Now()
	}
	return c.clock()
}

func (c Config) withDefaults() Config {
	fill(&c.MaxSequences, 1<<20)
	fill(&c.MaxBytes, 64<<30)
	fill(&c.MaxBody, 512<<20)
	fill(&c.MaxMemory, 2<<30)
	fill(&c.MinFree, 256<<20)
	fill(&c.Patience, 15*time.Second)
	fill(&c.Stall, 30*time.Second)
	fill(&c.FileSize, 64<<20)
	fill(&c.diskPoll, time.Second)
	if c.free == nil {
		c.free = freeSpace
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func fill[T int64 | time.Duration](value *T, byDefault T) {
	if *value == 0 {
		*value = byDefault
	}
}

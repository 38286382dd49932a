// Package owner says which process a sandbox belongs to, across restarts of the
// process and of the machine, so that what a dead owner left can be removed and
// nothing a live one holds.
//
// It looks at processes and never signals or changes one. When in doubt an owner lives.
package owner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"sync"
)

// Owner identifies a process, also after its id was used again.
type Owner struct {
	PID   int
	Start uint64 // start time in the system's own unit; 0 where unknown
	Boot  string // short id of the machine's boot; "x" where unknown
	Place string // short id of the host and of the space its process ids count in
}

// This returns the owner of what this process makes.
func This() Owner {
	pid := os.Getpid()
	start, _ := startTime(pid)
	return Owner{PID: pid, Start: start, Boot: bootID(), Place: place()}
}

// place tells hosts, and containers of one host, apart: they may share an engine
// but can't see each other's processes.
var place = sync.OnceValue(func() string {
	host, _ := os.Hostname() // without a name all hosts are alike
	sum := sha256.Sum256([]byte(host + "\x00" + machineID() + "\x00" + pidSpace()))
	return hex.EncodeToString(sum[:6])
})

// Parse reads an owner back from the four values it was noted with.
func Parse(pid, start, boot, place string) (Owner, error) {
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 {
		return Owner{}, fmt.Errorf("%q is not a process id", pid)
	}
	began, err := strconv.ParseUint(start, 10, 64)
	if err != nil {
		return Owner{}, fmt.Errorf("%q is not the start time of a process", start)
	}
	if boot == "" || place == "" {
		return Owner{}, fmt.Errorf("process %d is noted without its machine", n)
	}
	return Owner{PID: n, Start: began, Boot: boot, Place: place}, nil
}

// Here reports whether the owner ran where this process can tell if it still does.
func (o Owner) Here() bool { return o.Place == place() }

// Alive reports whether the owner still runs; one that can't be seen from here does.
func (o Owner) Alive() bool {
	if !o.Here() {
		return true
	}
	if o.Boot != bootID() {
		return false
	}
	if !exists(o.PID) {
		return false
	}
	start, ok := startTime(o.PID)
	return !ok || o.Start == 0 || start == o.Start
}

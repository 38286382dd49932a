package local

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// owner identifies the process a sandbox belongs to, across restarts of the
// process and of the machine.
type owner struct {
	pid   int
	start uint64 // the process's start time in the system's own unit; 0 where unknown
	boot  string // short id of the machine's current boot; "x" where unknown
	place string // short id of the host and of the space its process ids count in
}

// thisProcess returns the owner of what this process makes.
func thisProcess() owner {
	pid := os.Getpid()
	start, _ := processStart(pid)
	return owner{pid: pid, start: start, boot: bootID(), place: place()}
}

// place tells hosts, and containers of one host, apart: they may share the base
// directory but can't see each other's processes.
func place() string {
	host, _ := os.Hostname() // without a name all hosts are alike
	sum := sha256.Sum256([]byte(host + "\x00" + pidSpace()))
	return hex.EncodeToString(sum[:3])
}

// newID returns a name that is unique on this machine and carries the owner. A
// directory of that name therefore never exists without saying whose it is.
func (o owner) newID() string {
	return fmt.Sprintf("%d.%d.%s.%s.%s", o.pid, o.start, o.boot, o.place, strings.ToLower(rand.Text()[:8]))
}

// parseID reads the owner out of a name made by newID.
func parseID(id string) (owner, bool) {
	parts := strings.Split(id, ".")
	if len(parts) != 5 || parts[2] == "" || parts[3] == "" || parts[4] == "" {
		return owner{}, false
	}
	pid, err := strconv.Atoi(parts[0])
	if err != nil || pid <= 0 {
		return owner{}, false
	}
	start, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return owner{}, false
	}
	return owner{pid: pid, start: start, boot: parts[2], place: parts[3]}, true
}

// alive reports whether the owner still runs. When in doubt it does.
func (o owner) alive() bool {
	if o.place != place() {
		return true
	}
	if o.boot != bootID() {
		return false
	}
	if !processExists(o.pid) {
		return false
	}
	start, ok := processStart(o.pid)
	return !ok || o.start == 0 || start == o.start
}

// ownerFile is the content of owner.json, for people who look into a sandbox's
// directory; Reap goes by the directory's name, which a command can't forge.
type ownerFile struct {
	PID       int       `json:"pid"`
	StartTime uint64    `json:"start_time"`
	BootID    string    `json:"boot_id"`
	Run       string    `json:"run,omitempty"`
	Rollout   string    `json:"rollout,omitempty"`
	Created   time.Time `json:"created"`
}

func (o owner) write(dir, run, rollout string) error {
	data, err := json.Marshal(ownerFile{
		PID: o.pid, StartTime: o.start, BootID: o.boot, Run: run, Rollout: rollout, Created: time.Now().UTC(),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "owner.json"), append(data, '\n'), 0o600)
}

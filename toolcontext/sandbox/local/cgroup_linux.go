package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-env/hermes-env/internal/owner"
	"golang.org/x/sys/unix"
)

// cgroupPrefix starts the names of our control groups; the owner's id follows.
const cgroupPrefix = "hermes-env-"

// cgroups makes one control group per sandbox and one below it per running
// command. No controller is enabled in them: they limit nothing, they only tell
// who belongs together, and killing one is a single atomic step.
type cgroups struct {
	parent string // the harness's own group
	owner  owner.Owner
	off    atomic.Bool
}

// findCgroups returns nil where groups can't be made or can't be killed.
func findCgroups(o owner.Owner, shell string) *cgroups {
	mount := findMount()
	data, err := os.ReadFile("/proc/self/cgroup")
	if mount == "" || err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		path, ok := strings.CutPrefix(line, "0::")
		if !ok {
			continue
		}
		g := &cgroups{parent: filepath.Join(mount, strings.TrimSpace(path)), owner: o}
		if !g.work(shell) {
			return nil
		}
		return g
	}
	return nil
}

// work reports whether a process can be started in a group of our own and lives.
func (g *cgroups) work(shell string) bool {
	probe := &cgroup{path: filepath.Join(g.parent, cgroupPrefix+g.owner.NewName())}
	if err := os.Mkdir(probe.path, 0o700); err != nil {
		return false
	}
	defer probe.remove()
	if _, err := os.Stat(filepath.Join(probe.path, "cgroup.kill")); err != nil { // Linux 5.14
		return false
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer null.Close()
	p, err := startProcess(shell, []string{"sh", "-c", "exit 0"}, nil, [3]*os.File{null, null, null}, placement{dir: "/", group: probe})
	if err != nil {
		return false
	}
	<-p.exited
	code, ok := p.reap()
	return ok && code == 0
}

// disable turns groups off for good: starting a process in one failed.
func (g *cgroups) disable() { g.off.Store(true) }

// reap kills and removes the groups of owners that no longer live.
func (g *cgroups) reap() {
	entries, err := os.ReadDir(g.parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		id, ok := strings.CutPrefix(e.Name(), cgroupPrefix)
		if o, err := owner.ParseName(id); !ok || err != nil || o.Alive() {
			continue
		}
		c := &cgroup{path: filepath.Join(g.parent, e.Name())}
		c.kill()
		c.remove()
	}
}

// cgroup is a control group. All methods do nothing on nil.
type cgroup struct {
	path string

	// Of a sandbox's group.
	mu    sync.Mutex
	idle  []string // groups of ended commands, empty or not
	next  int      // name of the next one
	kills int      // how often the group was killed

	// Of a command's group.
	parent *cgroup
	born   int // kills of the parent when it was taken
}

// commandGroup returns the group the next command runs in, nil without groups.
func (s *Sandbox) commandGroup() *cgroup {
	g := s.provider.groups
	if g == nil || g.off.Load() {
		return nil
	}
	s.mu.Lock()
	if s.group == nil {
		c := &cgroup{path: filepath.Join(g.parent, cgroupPrefix+s.info.ID)}
		if err := os.Mkdir(c.path, 0o700); err != nil {
			s.mu.Unlock()
			return nil
		}
		s.group = c
	}
	group := s.group
	s.mu.Unlock()
	return group.child()
}

// child returns a group below for one command: one that an earlier command left
// empty, else a new one.
func (c *cgroup) child() *cgroup {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.idle) - 1; i >= 0; i-- {
		k := &cgroup{path: c.idle[i], parent: c, born: c.kills}
		if !k.populated() {
			c.idle = append(c.idle[:i], c.idle[i+1:]...)
			return k
		}
	}
	path := filepath.Join(c.path, strconv.Itoa(c.next))
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil
	}
	c.next++
	return &cgroup{path: path, parent: c, born: c.kills}
}

// release gives a command's group back; background processes stay in it. A group
// that was killed is not used again: kernels since 6.14 kill what is later started in
// one from outside (they compare its count of kills with that of the starter's group).
func (c *cgroup) release() {
	if c == nil || c.parent == nil {
		return
	}
	c.parent.mu.Lock()
	defer c.parent.mu.Unlock()
	if c.kills > 0 || c.born != c.parent.kills {
		_ = unix.Rmdir(c.path) // what is busy goes with the sandbox
		return
	}
	c.parent.idle = append(c.parent.idle, c.path)
}

// open returns a descriptor of the group for starting a process in it.
func (c *cgroup) open() (int, error) {
	return unix.Open(c.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// kill sends SIGKILL to every process in the group and below, forks included.
func (c *cgroup) kill() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.kills++
	for _, path := range c.idle {
		_ = unix.Rmdir(path) // what is busy goes with the sandbox
	}
	c.idle = nil
	c.mu.Unlock()
	// A group that can't be killed is empty or gone; what is left is found otherwise.
	_ = os.WriteFile(filepath.Join(c.path, "cgroup.kill"), []byte("1"), 0)
}

// populated reports whether a process lives in the group or below.
func (c *cgroup) populated() bool {
	if c == nil {
		return false
	}
	var buf [256]byte
	data, err := readSmall(filepath.Join(c.path, "cgroup.events"), buf[:])
	return err == nil && bytes.Contains(data, []byte("populated 1"))
}

// remove removes the group and those below, also ones that its processes made. The
// kernel lets go of a group a moment after its last process has ended.
func (c *cgroup) remove() {
	if c == nil {
		return
	}
	for pause := time.Millisecond; pause < 200*time.Millisecond; pause *= 2 {
		if removeGroups(c.path) {
			return
		}
		time.Sleep(pause)
	}
}

func removeGroups(path string) bool {
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() {
			removeGroups(filepath.Join(path, e.Name()))
		}
	}
	err := unix.Rmdir(path)
	return err == nil || err == unix.ENOENT
}

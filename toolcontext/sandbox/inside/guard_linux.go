package inside

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The place of the server among the processes of its sandbox.
const (
	serverNice   = -20   // ahead of every command, however many there are
	serverAdjust = -1000 // never ended when memory runs out
	schedFlags   = unix.SCHED_FLAG_RESET_ON_FORK
)

// guard keeps the place of the server: its scheduling class, its limits and its rank when
// memory runs out. Commands of its user can lower some of that, and a server that gets no
// processor looks like a machine that fails. The zero value guards nothing.
type guard struct {
	mu      sync.Mutex
	nice    bool // the server is ahead of commands, and may put itself there again
	adjust  int  // its rank when memory runs out
	limits  map[int]unix.Rlimit
	cpus    unix.CPUSet
	forking int // processes being started, which inherit the rank
	slack   int // timer slack that commands get, in nanoseconds
	notes   []string
}

// limitNames are the limits that can be lowered from outside a process.
var limitNames = map[int]string{
	unix.RLIMIT_AS: "address space", unix.RLIMIT_CORE: "core", unix.RLIMIT_CPU: "processor time", unix.RLIMIT_DATA: "data",
	unix.RLIMIT_FSIZE: "file size", unix.RLIMIT_LOCKS: "locks", unix.RLIMIT_MEMLOCK: "locked memory", unix.RLIMIT_MSGQUEUE: "message queues",
	unix.RLIMIT_NICE: "nice", unix.RLIMIT_NOFILE: "open files", unix.RLIMIT_NPROC: "processes", unix.RLIMIT_RSS: "resident memory",
	unix.RLIMIT_RTPRIO: "real-time priority", unix.RLIMIT_RTTIME: "real-time processor time", unix.RLIMIT_SIGPENDING: "pending signals", unix.RLIMIT_STACK: "stack",
}

// newGuard takes the server's place, as far as the engine lets it, and notes what it is.
func newGuard() *guard {
	g := &guard{limits: map[int]unix.Rlimit{}}
	for resource := range limitNames {
		var limit unix.Rlimit
		if unix.Getrlimit(resource, &limit) == nil {
			g.limits[resource] = limit
		}
	}
	g.takeSlack()
	_ = unix.SchedGetaffinity(0, &g.cpus) // all zero where it fails, and then not looked at
	for _, tid := range threads() {
		g.nice = place(tid) == nil
	}
	if setAdjust(serverAdjust) == nil {
		g.adjust = serverAdjust
	} else if now, err := readAdjust(); err == nil {
		g.adjust = now
	}
	return g
}

// place gives a thread its place among others.
func place(tid int) error {
	return unix.SchedSetAttr(tid, &unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: serverNice, Flags: schedFlags}, 0)
}

const adjustFile = "/proc/self/oom_score_adj"

// setAdjust sets the rank when memory runs out.
func setAdjust(value int) error {
	fd, err := unix.Open(adjustFile, unix.O_WRONLY|unix.O_CLOEXEC, 0) // an os.File would ask the poller first
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, strconv.AppendInt(nil, int64(value), 10))
	return err
}

func readAdjust() (int, error) {
	text, err := os.ReadFile(adjustFile)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// starting is called before a process is started; what it returns is called once the
// process runs, by the same goroutine. Between the two, the server has the rank and the
// thread the timer slack that commands are to have: processes inherit both.
func (g *guard) starting() (started func()) {
	if g == nil {
		return func() {}
	}
	runtime.LockOSThread()
	setSlack(g.slack)
	g.rank(1)
	return func() {
		g.rank(-1)
		setSlack(serverSlack)
		runtime.UnlockOSThread()
	}
}

// rank counts the processes being started, and sets the server's rank for them.
func (g *guard) rank(starting int) {
	if g.adjust >= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.forking
	g.forking += starting
	switch {
	case before == 0:
		_ = setAdjust(0)
	case g.forking == 0:
		_ = setAdjust(g.adjust)
	}
}

// serverSlack is how late timers of the server may be, in nanoseconds. The runtime's monitor
// sleeps for 20 µs again and again while anything runs; with the usual slack of 50 µs that
// takes an eighth of the processor time of a short command.
const serverSlack = 500_000

// takeSlack gives all threads the server's timer slack.
func (g *guard) takeSlack() {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		slack = 0 // the default
	}
	g.slack = slack
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, serverSlack, 0)
}

// setSlack sets the timer slack of this thread; 0 is the default.
func setSlack(nanoseconds int) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(nanoseconds), 0, 0, 0)
}

// maxGuardNotes bounds what is said of changes.
const maxGuardNotes = 20

// check restores what was changed of the server's place, and notes what that was. It
// reports whether anything was.
func (g *guard) check() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var changed []string
	for resource, want := range g.limits {
		var now unix.Rlimit
		if unix.Getrlimit(resource, &now) == nil && now != want {
			changed = append(changed, "its limit on "+limitNames[resource])
			_ = unix.Setrlimit(resource, &want)
		}
	}
	changed = append(changed, g.checkThreads()...)
	if now, err := readAdjust(); err == nil && g.forking == 0 && now != g.adjust {
		changed = append(changed, fmt.Sprintf("its rank when memory runs out (oom_score_adj %d)", now))
		_ = setAdjust(g.adjust)
	}
	slices.Sort(changed)
	for _, what := range slices.Compact(changed) {
		g.note("a process of the sandbox changed the sandbox's server: " + what)
	}
	return len(changed) > 0
}

// checkThreads restores the place of every thread. New ones, which the runtime has made,
// begin with nice 0.
func (g *guard) checkThreads() (changed []string) {
	for _, tid := range threads() {
		attr, err := unix.SchedGetAttr(tid, 0)
		if err != nil {
			continue // it has ended
		}
		lowered := attr.Policy != unix.SCHED_NORMAL || attr.Nice > 0
		if lowered {
			changed = append(changed, "its scheduling class or priority")
		}
		if lowered || g.nice && attr.Nice != serverNice {
			_ = place(tid)
		}
		var cpus unix.CPUSet
		if g.cpus.Count() > 0 && unix.SchedGetaffinity(tid, &cpus) == nil && cpus != g.cpus {
			_ = unix.SchedSetaffinity(tid, &g.cpus)
			var now unix.CPUSet
			if unix.SchedGetaffinity(tid, &now) == nil && now == g.cpus {
				changed = append(changed, "the processors it may use")
			} else { // the engine or the machine has taken some away
				g.cpus = now
			}
		}
		if class := ioClass(tid); class != 0 {
			changed = append(changed, "its priority for the disk")
			_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioWhoProcess, uintptr(tid), 0)
		}
	}
	return changed
}

const (
	ioWhoProcess = 1
	ioClassShift = 13
)

// ioClass returns the class of a thread for the disk; 0 is what it has by itself.
func ioClass(tid int) int {
	prio, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioWhoProcess, uintptr(tid), 0)
	if errno != 0 {
		return 0
	}
	if class := int(prio) >> ioClassShift; class == 3 || class == 1 { // idle or real time, which no thread begins with
		return class
	}
	return 0
}

// note keeps a sentence once.
func (g *guard) note(text string) {
	if len(g.notes) < maxGuardNotes && !slices.Contains(g.notes, text) {
		g.notes = append(g.notes, text)
	}
}

// said returns what was noted so far.
func (g *guard) said() []string {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.notes)
}

// How often the server's place is looked at while commands run, and how many changes are
// put right before the sandbox's processes are ended for them.
const (
	placeLook    = time.Second
	placeChanges = 3
)

// watchPlace keeps the server's place until ctx ends.
func (s *server) watchPlace(ctx context.Context) {
	tick := time.NewTicker(placeLook)
	defer tick.Stop()
	for changes := 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if len(processIDs()) < 2 || !s.config.guard.check() {
			continue
		}
		if changes++; changes >= placeChanges {
			changes = 0
			s.config.guard.remark("every process was ended, because the server was changed again and again")
			_ = s.box.KillAll(ctx) // those that survive are found again
		}
	}
}

// remark notes a sentence.
func (g *guard) remark(text string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.note(text)
}

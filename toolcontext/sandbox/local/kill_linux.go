package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Which processes belong to a scope is found in layers, because each can be shed: by
// control group (where the harness may make one; killing it is one atomic step, but a
// process of root can leave it), by session and process group, by descent, by the
// marker variable in the environment, by the pipes a process holds and by its working
// directory. What sheds all of them at once is found only by Config.Subreaper, as an
// orphan. Groups are used for nothing else, so that doing without them loses speed
// against fork loops and little more.

// freezePasses bounds how often new processes are frozen before what is found is
// killed: a tree that forks quicker than it is found is thinned out first.
const freezePasses = 6

// eradicate ends every process of a scope and returns when none is left, at most
// after bound. Processes are frozen as they are found, so that none forks while the
// others are looked for, and killed when a pass finds no new one.
func eradicate(ctx context.Context, sc scope, bound time.Duration) error {
	k := killer{scope: sc, known: map[int]stat{}, self: os.Getpid()}
	if own, err := unix.Getpgid(0); err == nil {
		k.ownGroup = own
	}
	stop := sc.watchTime(&bound)
	defer stop()
	deadline := time.Now().Add(bound)
	pause := 250 * time.Microsecond
	found, calm := false, 0
	for {
		if sc.everything && k.self == 1 || sc.resorted() {
			endAll() // the rest checks
		}
		if sc.leader != 0 {
			_ = unix.Kill(-sc.leader, unix.SIGSTOP) // ended already is as good
		}
		quiet := false
		for range freezePasses {
			fresh, err := k.freeze()
			if err != nil {
				return err
			}
			found = found || fresh > 0
			if quiet = fresh == 0; quiet {
				break
			}
		}
		sc.group.kill()
		live := k.kill()
		if quiet && live == 0 && !sc.group.populated() {
			// A process that was between two programs can have been overlooked. Where
			// there were any, one look without a find is not enough.
			if calm++; calm > 1 || !found {
				k.forgetDead()
				return nil
			}
		} else {
			calm = 0
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes survived SIGKILL for %v (%s); they hang in the kernel, often on a dead network mount", live, bound, k.names())
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
		k.forgetDead()
	}
}

// endAll ends all processes but this one in one step, if this is the first of its
// container. It looks at none of them, so it works also where they have used up all
// memory, and reading /proc would wait for that.
func endAll() {
	if os.Getpid() == 1 {
		_ = unix.Kill(-1, unix.SIGKILL) // without any process it fails
	}
}

// watchTime ends all processes there are when bound is over, where the scope allows that,
// and doubles bound, so that there is time to see that they are gone.
func (sc scope) watchTime(bound *time.Duration) (stop func()) {
	if sc.lastResort == nil || os.Getpid() != 1 {
		return func() {}
	}
	timer := time.AfterFunc(*bound, func() {
		sc.lastResort.Store(true)
		endAll()
	})
	*bound *= 2
	return func() { timer.Stop() }
}

// killer is one attempt to end a scope.
type killer struct {
	scope
	self, ownGroup int
	known          map[int]stat // attributed and alive when last seen
	groups         []int        // process groups that hold nothing but the scope's processes
	buf            []byte
}

// freeze looks at every process once, stops those of the scope not known yet, and
// returns how many they were.
func (k *killer) freeze() (int, error) {
	var (
		fresh int
		young []stat
		seen  = map[int]bool{}
	)
	// Again until a list has nothing new: what was running may have had children.
	for news := true; news; {
		pids, err := listProcesses()
		if err != nil {
			return fresh, err
		}
		news = false
		for _, pid := range pids {
			if seen[pid] {
				continue
			}
			seen[pid], news = true, true
			st, ok := readStat(pid)
			if !ok || pid == k.self || st.start < k.since {
				continue
			}
			young = append(young, st)
			if k.isKnown(st) || st.dead() || k.strangeChild(st) {
				continue
			}
			if k.belongs(st) {
				k.stop(st)
				fresh++
			}
		}
	}
	for _, st := range k.inLeftSessions(young) {
		k.stop(st)
		fresh++
	}
	for _, st := range k.orphans.filter(young) {
		if !k.isKnown(st) && (k.belongs(st) || k.claimOrphans && !k.ofAnother(st)) {
			k.stop(st)
			fresh++
		}
	}
	// Descendants of any of these, to the last generation.
	for more := true; more; {
		more = false
		for _, st := range young {
			if _, ok := k.known[st.parent]; ok && !k.isKnown(st) && !st.dead() {
				k.stop(st)
				fresh++
				more = true
			}
		}
	}
	return fresh, nil
}

// strangeChild reports whether a process is a child of this one that was not
// started for the scope; adopted ones are looked at apart.
func (k *killer) strangeChild(st stat) bool {
	return st.parent == k.self && !slices.Contains(k.children, st.pid)
}

func (k *killer) isKnown(st stat) bool {
	old, ok := k.known[st.pid]
	return ok && old.start == st.start
}

func (k *killer) stop(st stat) {
	k.known[st.pid] = st
	signalProcess(st, unix.SIGSTOP)
}

// belongs reports whether a process shows by itself that it is of the scope.
func (k *killer) belongs(st stat) bool {
	if k.everything {
		return true
	}
	if k.leader != 0 && (st.pid == k.leader || st.session == k.leader || st.group == k.leader) {
		k.addGroup(st.group)
		return true
	}
	mark := k.markerOf(st.pid)
	mine := strings.HasPrefix(mark, k.sandbox+"/")
	if mine && (k.marker == "" || mark == k.marker) {
		k.addGroup(st.group)
		return true
	}
	if mine {
		return false // of another command, which goes on
	}
	// One with a marker of another sandbox can only be nested in this one.
	if mark == "" && len(k.pipes) > 0 && k.holdsPipe(st.pid) {
		return true
	}
	// Somebody who looks around in the directory from a terminal is no part of it.
	return st.terminal == 0 && k.insideRoot(st.pid)
}

// ofAnother reports whether a process shows that another command of the sandbox,
// which goes on, has started it.
func (k *killer) ofAnother(st stat) bool {
	if k.marker == "" {
		return false
	}
	mark := k.markerOf(st.pid)
	return mark != k.marker && strings.HasPrefix(mark, k.sandbox+"/")
}

func (k *killer) addGroup(group int) {
	if group > 1 && group != k.ownGroup && !slices.Contains(k.groups, group) {
		k.groups = append(k.groups, group)
	}
}

// markerOf returns the value of the marker variable a process was started with.
func (k *killer) markerOf(pid int) string {
	if k.buf == nil {
		k.buf = make([]byte, 64<<10)
	}
	path := "/proc/" + strconv.Itoa(pid) + "/environ"
	data, err := readSmall(path, k.buf)
	if err != nil {
		return ""
	}
	if len(data) == len(k.buf) {
		if data, err = readBounded(path, 4<<20); err != nil {
			return ""
		}
	}
	const prefix = MarkerVariable + "="
	for len(data) > 0 {
		entry, rest, _ := bytes.Cut(data, []byte{0})
		if bytes.HasPrefix(entry, []byte(prefix)) {
			return string(entry[len(prefix):])
		}
		data = rest
	}
	return ""
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

func (k *killer) holdsPipe(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	names, err := f.Readdirnames(-1)
	_ = f.Close()
	if err != nil {
		return false
	}
	for _, name := range names {
		link, err := os.Readlink(dir + name)
		if err != nil || !strings.HasPrefix(link, "pipe:[") {
			continue
		}
		inode, err := strconv.ParseUint(strings.Trim(link[5:], "[]"), 10, 64)
		if err == nil && slices.Contains(k.pipes, inode) {
			return true
		}
	}
	return false
}

func (k *killer) insideRoot(pid int) bool {
	if k.root == "" {
		return false
	}
	dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return false
	}
	return dir == k.root || strings.HasPrefix(dir, k.root+"/")
}

// inLeftSessions returns the unknown members of sessions that earlier commands
// left. A session id is in use as long as the session has members: one member from
// before its command's end shows that it was not given to a stranger since.
func (k *killer) inLeftSessions(procs []stat) []stat {
	if len(k.sessions) == 0 {
		return nil
	}
	genuine := map[int]bool{}
	for _, st := range procs {
		if ended, ok := k.sessions[st.session]; ok && st.start <= ended {
			genuine[st.session] = true
		}
	}
	var found []stat
	for _, st := range procs {
		if genuine[st.session] && !k.isKnown(st) && !st.dead() && !k.strangeChild(st) {
			found = append(found, st)
		}
	}
	return found
}

// kill sends SIGKILL to all that is known, and returns how many are alive.
func (k *killer) kill() int {
	for _, group := range k.groups {
		_ = unix.Kill(-group, unix.SIGKILL) // gone already is as good
	}
	live := 0
	for _, st := range k.known {
		if signalProcess(st, unix.SIGKILL) {
			live++
		}
	}
	return live
}

// forgetDead drops what is gone, and groups with it: their ids may be given to others.
func (k *killer) forgetDead() {
	k.groups = nil
	var ended []stat
	for pid, st := range k.known {
		now, ok := readStat(pid)
		if !ok || now.start != st.start || now.dead() {
			if ok {
				ended = append(ended, now)
			}
			delete(k.known, pid)
			continue
		}
		if now.group == k.leader || now.group == now.pid {
			k.addGroup(now.group)
		}
	}
	k.orphans.filter(ended)
}

// names lists what is left for an error message.
func (k *killer) names() string {
	var list []string
	for pid := range k.known {
		name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		list = append(list, strconv.Itoa(pid)+" "+strings.TrimSpace(string(name)))
		if len(list) == 5 {
			break
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// signalProcess sends a signal to the very process that st describes, never to
// another that got its id meanwhile. It reports whether the process was alive.
func signalProcess(st stat, sig unix.Signal) bool {
	fd, err := unix.PidfdOpen(st.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false
	}
	if err == nil {
		defer unix.Close(fd)
	}
	now, ok := readStat(st.pid)
	if !ok || now.start != st.start || now.dead() {
		return false
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if err != nil { // a kernel without pidfds
		err = unix.Kill(st.pid, sig)
	}
	return !errors.Is(err, unix.ESRCH)
}

// listProcesses returns the ids of all processes, in order.
func listProcesses() ([]int, error) {
	f, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w; /proc has to be mounted", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// killAll ends what was adopted and claimed by no sandbox.
func (o *orphans) killAll(ctx context.Context, bound time.Duration) error {
	if !o.adopting {
		return nil
	}
	return eradicate(ctx, scope{sandbox: "-", since: o.since, orphans: o, claimOrphans: true}, bound)
}

// findMount returns where the unified control group hierarchy is mounted.
func findMount() string {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if ok && strings.HasPrefix(after, "cgroup2 ") && len(fields) >= 5 && fields[3] == "/" {
			return filepath.Clean(fields[4])
		}
	}
	return ""
}

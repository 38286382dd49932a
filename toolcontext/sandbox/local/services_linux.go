package local

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// maxServiceCommand bounds the bytes kept of a service's command line.
const maxServiceCommand = 400

// maxServices is how many processes are kept at most; where there are more, none is: they
// would leave no processes to those who come next.
const maxServices = 512

// stopPasses bounds how often processes are looked for until a pass finds no new one:
// more than that many generations are a fork loop, which a stop ends as well.
const stopPasses = 200

// tooMany stands for the processes of a sandbox that were ended without a list of them.
var tooMany = []sandbox.Service{{Command: "all processes: there were too many to list"}}

// keepProcesses stops every process of a scope, kills those that are not to be kept,
// resumes the others and returns both. Where that takes longer than
// bound, or the sandbox has hardly any process left, nothing is kept.
func keepProcesses(ctx context.Context, sc scope, which sandbox.Keep, bound time.Duration) (keptList, ended []sandbox.Service, err error) {
	k := killer{scope: sc, known: map[int]stat{}, self: os.Getpid()}
	if own, err := unix.Getpgid(0); err == nil {
		k.ownGroup = own
	}
	atOnce := sc.everything && k.self == 1
	if atOnce && crowded() {
		return nil, tooMany, eradicate(ctx, sc, bound)
	}
	whole := bound
	stop := sc.watchTime(&whole)
	defer stop()
	deadline := time.Now().Add(whole)
	stopped := k.stoppedNow()
	for pass, calm := 0, 0; calm < 2; pass++ {
		if atOnce {
			k.stopEverything()
		}
		fresh, err := k.freeze()
		if sc.resorted() {
			return nil, tooMany, eradicate(ctx, sc, bound)
		}
		if err == nil && pass == stopPasses {
			err = fmt.Errorf("new processes came up after %d passes", pass)
		}
		if err == nil && time.Now().After(deadline) {
			err = fmt.Errorf("new processes came up for %v", whole)
		}
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			k.resume(func(stat) bool { return true })
			return nil, nil, err
		}
		// A process can have been between two programs: one look without a find is not
		// enough.
		if calm++; fresh > 0 {
			calm = 0
		}
	}
	sockets := listening()
	kept := k.services(sockets)
	others := map[int]sandbox.Service{}
	for pid := range k.known {
		if _, ok := kept[pid]; !ok {
			others[pid] = sandbox.Service{PID: pid, Command: commandLine(pid)}
		}
	}
	switch which {
	case sandbox.KeepAll:
		maps.Copy(kept, others)
		clear(others)
	case sandbox.KeepNone:
		maps.Copy(others, kept)
		clear(kept)
	}
	if len(kept) > maxServices { // a fork loop, or one beside a listener
		maps.Copy(others, kept)
		clear(kept)
	}
	for {
		live := 0
		for pid, st := range k.known {
			if _, keep := kept[pid]; !keep && signalProcess(st, unix.SIGKILL) {
				live++
			}
		}
		k.reapKilled()
		if live == 0 {
			break
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			k.resume(func(st stat) bool { _, keep := kept[st.pid]; return keep })
			return nil, nil, fmt.Errorf("%d processes survived SIGKILL; they hang in the kernel, often on a dead network mount", live)
		}
		time.Sleep(time.Millisecond)
	}
	// What the agent had stopped itself stays so.
	k.resume(func(st stat) bool { _, keep := kept[st.pid]; return keep && !stopped[st.pid] })
	return byPID(kept), byPID(others), nil
}

func byPID(services map[int]sandbox.Service) []sandbox.Service {
	return slices.SortedFunc(maps.Values(services), func(a, b sandbox.Service) int { return a.PID - b.PID })
}

// crowded reports whether the processes there are have used up most of those that the
// container may have: a fork loop is among them, and looking at all would take too long.
func crowded() bool {
	for _, dir := range [...]string{"/sys/fs/cgroup/", "/sys/fs/cgroup/pids/"} { // version 2, version 1
		now, err := readNumber(dir + "pids.current")
		if err != nil {
			continue
		}
		most, err := readNumber(dir + "pids.max") // without a limit it is no number
		return err == nil && now > most/4*3
	}
	return false
}

func readNumber(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}

// stopEverything stops all processes but this one in one step, so that not even a fork
// loop has a process that goes on. None is being started meanwhile: a process between
// fork and exec shares this one's memory, and stopping it would stop this one.
func (k *killer) stopEverything() {
	k.orphans.starting.Lock()
	defer k.orphans.starting.Unlock()
	_ = unix.Kill(-1, unix.SIGSTOP) // without any process it fails
}

// freezeAll stops all processes but this one, and returns what lets them go on.
func freezeAll(sc scope) (goOn func()) {
	k := killer{scope: sc, self: os.Getpid()}
	stopped := k.stoppedNow()
	k.stopEverything()
	return func() {
		for pid := range k.stoppedNow() {
			if !stopped[pid] {
				_ = unix.Kill(pid, unix.SIGCONT) // ended already is as good
			}
		}
	}
}

// stoppedNow returns the processes that are stopped.
func (k *killer) stoppedNow() map[int]bool {
	found := map[int]bool{}
	pids, err := listProcesses()
	if err != nil {
		return found // freeze says so
	}
	for _, pid := range pids {
		if st, ok := readStat(pid); ok && st.state == 'T' {
			found[pid] = true
		}
	}
	return found
}

// resume lets stopped processes go on.
func (k *killer) resume(which func(stat) bool) {
	for _, st := range k.known {
		if which(st) {
			signalProcess(st, unix.SIGCONT)
		}
	}
}

// reapKilled takes the exit status of killed processes that this one has adopted.
func (k *killer) reapKilled() {
	var ended []stat
	for pid := range k.known {
		if now, ok := readStat(pid); ok && now.dead() {
			ended = append(ended, now)
		}
	}
	k.orphans.filter(ended)
}

// services chooses among the known processes.
func (k *killer) services(sockets map[uint64]socket) map[int]sandbox.Service {
	kept := map[int]sandbox.Service{}
	keep := func(st stat, listens []string, because string) {
		kept[st.pid] = sandbox.Service{PID: st.pid, Command: commandLine(st.pid), Listens: listens, Because: because}
	}
	var closed []stat // whose descriptors can't be seen
	for _, pid := range k.order() {
		st := k.known[pid]
		inodes, err := socketsOf(pid)
		if err != nil {
			closed = append(closed, st)
			continue
		}
		var listens []string
		for _, inode := range inodes {
			if s, ok := sockets[inode]; ok {
				s.found = true
				sockets[inode] = s
				listens = append(listens, s.name)
			}
		}
		if len(listens) > 0 {
			slices.Sort(listens)
			keep(st, slices.Compact(listens), "")
		}
	}
	// Sockets that nobody whose descriptors can be seen has belong to one of the others:
	// of the socket's user, where that is known.
	for _, st := range closed {
		uid := userOf(st.pid)
		var listens []string
		for _, s := range sockets {
			if !s.found && (s.uid < 0 || s.uid == uid) {
				listens = append(listens, s.name)
			}
		}
		if len(listens) > 0 {
			slices.Sort(listens)
			keep(st, slices.Compact(listens), "")
		}
	}
	// What is above a listener, of its session, and below any of these.
	sessions := map[int]bool{}
	for _, pid := range k.order() {
		s, ok := kept[pid]
		if !ok || len(s.Listens) == 0 {
			continue
		}
		sessions[k.known[pid].session] = true
		for at := k.known[k.known[pid].parent]; at.pid != 0; at = k.known[at.parent] {
			if _, ok := kept[at.pid]; ok {
				break
			}
			keep(at, nil, "parent")
		}
	}
	for _, pid := range k.order() {
		st := k.known[pid]
		if _, ok := kept[pid]; !ok && sessions[st.session] {
			keep(st, nil, "session")
		}
	}
	for more := true; more; {
		more = false
		for _, pid := range k.order() {
			st := k.known[pid]
			_, have := kept[pid]
			if _, ok := kept[st.parent]; ok && !have {
				keep(st, nil, "child")
				more = true
			}
		}
	}
	return kept
}

func (k *killer) order() []int {
	pids := make([]int, 0, len(k.known))
	for pid := range k.known {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

// socket is one that somebody listens on.
type socket struct {
	name  string
	uid   int // whose it is, -1 where that is not known
	found bool
}

// listening returns the sockets that wait for others, by inode.
func listening() map[uint64]socket {
	found := map[uint64]socket{}
	for _, name := range [...]string{"tcp", "tcp6", "udp", "udp6"} {
		data, err := os.ReadFile("/proc/self/net/" + name)
		if err != nil {
			continue // a kernel without that family
		}
		inetSockets(found, name, data)
	}
	if data, err := os.ReadFile("/proc/self/net/unix"); err == nil {
		unixSockets(found, data)
	}
	return found
}

// States of sockets in /proc/net.
const (
	stateListen  = "0A" // TCP
	stateUnbound = "07" // UDP that is connected to nobody
)

// inetSockets reads a table such as /proc/net/tcp.
func inetSockets(found map[uint64]socket, name string, table []byte) {
	protocol := strings.TrimSuffix(name, "6")
	for line := range bytes.Lines(table) {
		f := strings.Fields(string(line))
		if len(f) < 10 {
			continue
		}
		inode, err := strconv.ParseUint(f[9], 10, 64)
		if err != nil || inode == 0 {
			continue // the heading
		}
		if protocol == "tcp" && f[3] != stateListen || protocol == "udp" && f[3] != stateUnbound {
			continue
		}
		uid, err := strconv.Atoi(f[7])
		if err != nil {
			uid = -1
		}
		found[inode] = socket{name: protocol + " " + inetAddress(f[1]), uid: uid}
	}
}

// inetAddress writes an address of /proc/net as people do: its words are in the
// machine's byte order.
func inetAddress(s string) string {
	host, port, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || len(host)%8 != 0 {
		return s
	}
	raw := make([]byte, 0, 16)
	for i := 0; i < len(host); i += 8 {
		word, err := strconv.ParseUint(host[i:i+8], 16, 32)
		if err != nil {
			return s
		}
		raw = nativeAppend(raw, uint32(word))
	}
	return addressString(raw, int(n))
}

// unixSockets reads /proc/net/unix.
func unixSockets(found map[uint64]socket, table []byte) {
	const (
		accepts  = 1 << 16
		stream   = "0001"
		datagram = "0002"
		packets  = "0005"
	)
	for line := range bytes.Lines(table) {
		f := strings.Fields(string(line))
		if len(f) < 7 {
			continue
		}
		flags, err := strconv.ParseUint(f[3], 16, 32)
		if err != nil {
			continue // the heading
		}
		inode, err := strconv.ParseUint(f[6], 10, 64)
		if err != nil || inode == 0 {
			continue
		}
		name := ""
		if len(f) > 7 {
			name = f[7]
		}
		listens := (f[4] == stream || f[4] == packets) && flags&accepts != 0 || f[4] == datagram && name != ""
		if listens {
			found[inode] = socket{name: strings.TrimSpace("unix " + name), uid: -1}
		}
	}
}

// socketsOf returns the inodes of a process's sockets.
func socketsOf(pid int) ([]uint64, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	_ = f.Close()
	if err != nil {
		return nil, err
	}
	var inodes []uint64
	for _, name := range names {
		link, err := os.Readlink(filepath.Join(dir, name))
		if errors.Is(err, os.ErrPermission) {
			return nil, err
		}
		if text, ok := strings.CutPrefix(link, "socket:["); ok && err == nil {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64); err == nil {
				inodes = append(inodes, inode)
			}
		}
	}
	return inodes, nil
}

// userOf returns the user a process acts as, -1 when it is gone.
func userOf(pid int) int {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(data)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			if f := strings.Fields(ids); len(f) > 1 {
				if uid, err := strconv.Atoi(f[1]); err == nil {
					return uid
				}
			}
		}
	}
	return -1
}

// commandLine returns how a process was started, its name where that is not known.
func commandLine(pid int) string {
	data, err := readBounded("/proc/"+strconv.Itoa(pid)+"/cmdline", maxServiceCommand)
	text := strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(string(data), "\x00", " "), "\uFFFD"))
	if err == nil && text != "" {
		return text
	}
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm") // it is stopped, so it is there
	return "[" + strings.TrimSpace(string(name)) + "]"
}

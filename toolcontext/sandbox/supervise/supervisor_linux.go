//go:build amd64 || arm64

package supervise

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Bounds of what a session keeps.
const (
	maxActs      = 100
	maxLoaded    = 50
	maxMade      = 200_000
	maxSealed    = 100_000
	maxProcesses = 50_000
	maxAdded     = 2_000
	maxReplaced  = 5_000
	maxChanged   = 50
)

// launchLimit bounds the wait for the launcher after the command has ended.
const launchLimit = 5 * time.Second

// Session supervises one command. Its methods are called from one goroutine.
type Session struct {
	policy  sandbox.Policy
	results pathSet
	code    pathSet
	free    pathSet
	foreign foreignSet
	sealed  pathSet // what Sealed held at the start, files and directories
	// sealedFiles are the regular files among them.
	sealedFiles map[fileID]struct{}
	hooked      bool // package managers may run untrusted programs

	name     string // of the socket
	socket   *net.UnixListener
	stop     int // eventfd that ends the loop
	finished sync.WaitGroup

	// Only the loop uses what follows until it has finished.
	arch     map[uint32]*architecture
	procs    map[int]*process
	made     map[string]maker // files made or written while the command ran
	written  pathSet          // files that processes wrote which don't run the agent's code
	changed  pathSet          // those of written that the agent's code changed
	recalled map[int]recalled // by thread
	handed   handed           // to all processes that run the agent's code
	limit    uint64           // the command's markLimit
	recent   []string         // files of the agent's that programs which don't run its code read last
	ranAgent bool             // the agent's code was started
	unmarked bool             // a process that runs it could not be marked
	outputs  pathSet          // files in which the script keeps its results
	added    pathSet          // new files below what is sealed; directories where there are many
	replaced pathSet          // programs and libraries that trusted processes wrote
	startup  []string         // files that Python reads when it starts, made by untrusted processes
	acts     []sandbox.Act
	loaded   map[string]bool
	writes   int  // of results, by trusted processes
	edits    int  // of what is sealed, by trusted processes
	ran      bool // untrusted code was started
	moved    bool // a directory above these, by trusted processes
	lost     bool
	began    bool  // the launcher has been accepted
	started  bool  // the command's own program has been started
	failure  error // why the launcher could not begin
}

// process is what is known of one process.
type process struct {
	start uint64
	level level
	// given is what a trusted process passed to the untrusted program that this process
	// runs, or descends from: its arguments, joined with NUL bytes.
	given string
	// agent says that the process runs the agent's code, or descends from one that does.
	agent    bool
	handed   handed          // what of the tests it may read all the same
	orphan   bool            // its parent had ended when it was first seen
	executed bool            // it has become another program since it was made
	carries  bool            // it runs a plain tool that was given files of the agent's
	mixed    bool            // a compiler or builder that works on files of the tests, or started by one
	copies   []source        // what it copies, if it is a copier such as cp
	sources  map[string]bool // names of the agent's files that it has read
}

// Start makes a session for one command. Its error wraps sandbox.ErrUnsupported if the
// kernel has no supervisors.
func Start(p sandbox.Policy) (*Session, error) {
	if err := supported(); err != nil {
		return nil, fmt.Errorf("supervise a command: %w: %w", sandbox.ErrUnsupported, err)
	}
	s := &Session{
		policy: p, results: newPathSet(p.Results), code: newPathSet(p.Code), free: newPathSet(p.Free), foreign: newForeignSet(p.Foreign), sealed: pathSet{},
		arch: map[uint32]*architecture{}, procs: map[int]*process{}, made: map[string]maker{}, written: pathSet{}, changed: pathSet{}, recalled: map[int]recalled{}, sealedFiles: map[fileID]struct{}{}, outputs: pathSet{}, added: pathSet{}, replaced: pathSet{}, loaded: map[string]bool{},
	}
	for _, a := range architectures() {
		s.arch[a.audit] = &a
	}
	s.hooked = slices.ContainsFunc(installerConfigs, s.foreign.holds)
	for _, dir := range p.Sealed {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && name != dir {
				return nil // another process has removed it meanwhile
			}
			if err != nil {
				return err
			}
			if len(s.sealed) >= maxSealed {
				return fmt.Errorf("more than %d files", maxSealed)
			}
			s.sealed[name] = struct{}{}
			var st unix.Stat_t
			if d.Type().IsRegular() && unix.Lstat(name, &st) == nil {
				s.sealedFiles[idOf(&st)] = struct{}{}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list what is sealed in %s: %w", dir, err)
		}
	}
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	s.name = "hermes-env-" + hex.EncodeToString(random)
	socket, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@" + s.name, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("make a socket for the launcher: %w", err)
	}
	if s.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		_ = socket.Close()
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	s.socket = socket
	s.finished.Go(s.run)
	return s, nil
}

// supported says why the kernel has no supervisors, nil when it has.
func supported() error {
	action := uint32(retNotify)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		return fmt.Errorf("the kernel passes no system calls to a supervisor (seccomp): %w", errno)
	}
	var sizes struct{ notif, resp, data uint16 }
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes))); errno != 0 {
		return fmt.Errorf("the kernel tells no sizes of notifications: %w", errno)
	}
	if int(sizes.notif) != int(unsafe.Sizeof(notification{})) || int(sizes.resp) != int(unsafe.Sizeof(response{})) {
		return fmt.Errorf("the kernel's notifications have %d and %d bytes", sizes.notif, sizes.resp)
	}
	return nil
}

// Args returns the command that starts the launcher, which becomes argv.
func (s *Session) Args(self string, argv []string) []string {
	args := []string{self, Word, s.name}
	if s.policy.Loads || s.policy.HideSealed {
		args = append(args, flagReads)
	}
	return append(append(args, flagEnd, argv[0]), argv...)
}

// End ends the supervision, once the command has ended. What is left of its processes
// can't open files for writing any more. Its error wraps sandbox.ErrUnsupported if the
// launcher could not install the filter; the command has not run then.
func (s *Session) End() (sandbox.Supervision, error) {
	_ = s.socket.SetDeadline(time.Now()) // ends a wait for a launcher that never came
	_, _ = unix.Write(s.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	s.finished.Wait()
	_ = s.socket.Close()
	_ = unix.Close(s.stop)
	seen := sandbox.Supervision{Acts: s.acts, ResultWrites: s.writes, SealedWrites: s.edits, Ran: s.ran, Moved: s.moved, Lost: s.lost}
	for name := range s.loaded {
		seen.Loaded = append(seen.Loaded, name)
	}
	slices.Sort(seen.Loaded)
	for tid := range s.recalled {
		s.forget(tid)
	}
	seen.Changed = slices.Sorted(maps.Keys(s.changed))
	seen.Added = slices.Sorted(maps.Keys(s.added))
	if seen.Replaced = slices.Sorted(maps.Keys(s.replaced)); len(seen.Replaced) >= maxReplaced {
		seen.Replaced, seen.Installed = nil, true
	}
	if s.failure == nil && !s.began {
		return seen, fmt.Errorf("supervise a command: %w", errLauncherEnded)
	}
	return seen, s.failure
}

// run takes the listener from the launcher and answers system calls until End.
func (s *Session) run() {
	for {
		conn, err := s.socket.AcceptUnix()
		if err != nil {
			return // End was called
		}
		listener, err := s.greet(conn)
		if errors.Is(err, errStranger) {
			_ = conn.Close()
			continue
		}
		if err != nil {
			s.failure = fmt.Errorf("supervise a command: %w", err)
			_ = conn.Close()
			return
		}
		s.began = true
		_, _ = conn.Write([]byte{0})
		_ = conn.Close()
		s.answer(listener)
		_ = unix.Close(listener)
		return
	}
}

// errLauncherEnded says that the launcher ended before the command began. It does so for no
// reason of its own: another process of the sandbox has ended it.
var errLauncherEnded = fmt.Errorf("%w: the launcher of the command did not begin", sandbox.ErrEndedInside)

// errStranger says that it was not the launcher which connected.
var errStranger = errors.New("not the launcher")

// greet takes the listener that the launcher sends.
func (s *Session) greet(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Ucred
	var bad error
	if err := raw.Control(func(fd uintptr) { cred, bad = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return -1, err
	}
	if bad != nil {
		return -1, bad
	}
	pid := int(cred.Pid)
	st, ok := readStat(pid)
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline") // without it nothing matches
	if !ok || st.parent != os.Getpid() || !bytes.Contains(line, []byte(s.name)) {
		return -1, errStranger
	}
	_ = conn.SetDeadline(time.Now().Add(launchLimit))
	text := make([]byte, 512)
	rights := make([]byte, unix.CmsgSpace(4))
	n, rn, _, _, err := conn.ReadMsgUnix(text, rights)
	if errors.Is(err, io.EOF) {
		return -1, errLauncherEnded
	}
	if err != nil {
		return -1, err
	}
	switch {
	case n == 0:
		return -1, errLauncherEnded
	case rn == 0:
		return -1, fmt.Errorf("%w: %s", sandbox.ErrUnsupported, text[:n])
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rn])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("read the listener: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("read the listener: %w", err)
	}
	unix.CloseOnExec(fds[0])
	s.procs[pid] = &process{start: st.start, level: script}
	var limit unix.Rlimit
	if unix.Prlimit(pid, markLimit, nil, &limit) == nil {
		s.limit = limit.Max
	}
	return fds[0], nil
}

// notification and response are the kernel's struct seccomp_notif and seccomp_notif_resp.
type notification struct {
	id    uint64
	tid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// Numbers of ioctl(2) that unix lacks.
const (
	notifyIDValid  = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID
	notifySetFlags = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS
)

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// answer answers system calls until the command and all it started have ended, or End
// is called.
func (s *Session) answer(listener int) {
	// Since Linux 6.6: the two sides wake each other up on one processor.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), notifySetFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}, {Fd: int32(s.stop), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			s.lost = true
			return
		}
		if poll[1].Revents != 0 {
			return
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			if poll[0].Revents != 0 {
				return // nothing is left
			}
			continue
		}
		var n notification
		if ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) != nil {
			continue // it was interrupted, or has ended
		}
		r := response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		valid := func() bool { return ioctl(listener, notifyIDValid, unsafe.Pointer(&n.id)) == nil }
		if errno := s.decide(&n, valid); errno != 0 {
			r.flags, r.errno = 0, -int32(errno)
		}
		_ = ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) // it may have ended
	}
}

// stat is what is read of /proc/PID/stat.
type stat struct {
	parent, group int
	start         uint64
}

func readStat(pid int) (stat, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	i := bytes.LastIndexByte(data, ')')
	if err != nil || i < 0 {
		return stat{}, false
	}
	f := bytes.Fields(data[i+1:])
	if len(f) < 20 {
		return stat{}, false
	}
	number := func(i int) uint64 { n, _ := strconv.ParseUint(string(f[i]), 10, 64); return n }
	return stat{parent: int(number(1)), group: int(number(2)), start: number(19)}, true
}

// leader returns the process that a thread belongs to.
func leader(tid int) int {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(data, []byte("\nTgid:"))
	if !ok {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(line)))
	return pid
}

// lookUp returns what is known of a process. One that is seen for the first time has
// the level of its parent; without a parent under supervision it is untrusted.
func (s *Session) lookUp(pid int) *process {
	var chain []int
	var starts []uint64
	found := process{level: untrusted, orphan: true, handed: s.handed}
	for range 1000 {
		st, ok := readStat(pid)
		if !ok {
			break
		}
		if p := s.procs[pid]; p != nil && p.start == st.start {
			if len(chain) == 0 {
				return p
			}
			found = *p
			break
		}
		chain, starts = append(chain, pid), append(starts, st.start)
		if pid = st.parent; pid <= 1 || pid == os.Getpid() {
			break
		}
	}
	if len(s.procs) > maxProcesses {
		s.forgetEnded()
	}
	p := &found
	for i := range slices.Backward(chain) {
		p = &process{start: starts[i], level: found.level, given: found.given, orphan: found.orphan, carries: found.carries, mixed: found.mixed, sources: maps.Clone(found.sources)}
		if p.agent = s.inherits(chain[i], &found); p.agent {
			p.level, p.handed = untrusted, found.handed
		}
		s.procs[chain[i]] = p
	}
	return p
}

// forgetEnded drops processes that have ended.
func (s *Session) forgetEnded() {
	for pid, p := range s.procs {
		if st, ok := readStat(pid); !ok || st.start != p.start {
			delete(s.procs, pid)
		}
	}
}

// trusted says whether a process is under supervision and trusted.
func (s *Session) trusted(pid int) bool {
	if pid <= 0 {
		return false
	}
	if tgid := leader(pid); tgid != 0 {
		pid = tgid
	}
	return s.lookUp(pid).level != untrusted
}

// note keeps an act of a process.
func (s *Session) note(kind, target string, pid int) {
	who := describe(pid)
	for i := range s.acts {
		if a := &s.acts[i]; a.Kind == kind && a.Target == target && a.Process == who {
			a.Count++
			return
		}
	}
	if len(s.acts) == maxActs {
		s.lost = true
		return
	}
	s.acts = append(s.acts, sandbox.Act{Kind: kind, Target: target, Process: who, Count: 1})
}

// describe returns the command line of a process.
func describe(pid int) string {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || len(line) == 0 {
		return "process " + strconv.Itoa(pid)
	}
	text := strings.ToValidUTF8(strings.TrimSpace(string(bytes.ReplaceAll(line[:min(len(line), 200)], []byte{0}, []byte{' '}))), "\uFFFD")
	return text
}

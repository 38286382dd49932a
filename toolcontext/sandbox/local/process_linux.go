package local

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a running direct child. Its process id stays taken until reap.
type process struct {
	pid    int
	exited chan struct{} // closed when it has ended
}

// startProcess starts a program in a session of its own and, where a group is set,
// in that control group from its first instruction on.
func startProcess(path string, argv, env []string, files [3]*os.File, start placement) (*process, error) {
	pidfd := -1
	attr := &syscall.ProcAttr{
		Dir:   start.dir,
		Env:   env,
		Files: []uintptr{fd(files[0]), fd(files[1]), fd(files[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: start.terminal, PidFD: &pidfd, AmbientCaps: start.ambient},
	}
	if start.group != nil {
		dirFD, err := start.group.open()
		if err != nil {
			return nil, err
		}
		defer unix.Close(dirFD)
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, dirFD
	}
	pid, _, err := syscall.StartProcess(path, argv, attr)
	runtime.KeepAlive(files)
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid, exited: make(chan struct{})}
	go p.await(pidfd)
	return p, nil
}

// pipeToRead returns a pipe whose write end is for a child: it blocks and, unlike one of
// os.Pipe, was never given to the runtime's poller.
func pipeToRead() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	_ = unix.SetNonblock(fds[0], true) // can't fail for a pipe
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// preferForKilling has the kernel end the command and its descendants before this
// process when memory runs out: many small processes would make it the biggest.
func preferForKilling(pid int) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // it has ended, or /proc is not what it should be
	}
	_, _ = unix.Write(fd, []byte("1000")) // refused where that is less than it has
	_ = unix.Close(fd)
}

// sealFiles keeps files that this process inherited open from reaching commands;
// those that Go opens are kept back anyway.
func sealFiles() {
	// Needs Linux 5.11; on older kernels they are passed on as every shell does.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}

// await closes exited when the process has ended. With a pidfd that the runtime's
// poller takes, waiting costs a goroutine; without, it costs a thread.
func (p *process) await(pidfd int) {
	defer close(p.exited)
	if pidfd >= 0 {
		_ = unix.SetNonblock(pidfd, true) // without it the file below blocks a thread, no more
		f := os.NewFile(uintptr(pidfd), "pidfd")
		defer f.Close()
		if raw, err := f.SyscallConn(); err == nil {
			ended := false
			_ = raw.Read(func(fd uintptr) bool { // fails where the poller doesn't take the file
				poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
				n, err := unix.Poll(poll, 0)
				ended = n > 0 && poll[0].Revents&unix.POLLIN != 0
				return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
			})
			if ended {
				return
			}
		}
	}
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reap returns the exit code, 128+n after signal n, and gives the process id free.
// It reports false when somebody else in this program took the status.
func (p *process) reap() (int, bool) {
	var ws syscall.WaitStatus
	for {
		pid, err := syscall.Wait4(p.pid, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid != p.pid:
			return 0, false
		case ws.Signaled():
			return 128 + int(ws.Signal()), true
		default:
			return ws.ExitStatus(), true
		}
	}
}

// stat is what /proc/PID/stat says of a process.
type stat struct {
	pid, parent, group, session int
	terminal, threads           int
	start                       uint64 // in clock ticks since boot
	state                       byte
}

// dead reports whether the process has ended, reaped or not. One whose first thread
// has ended looks like a zombie and lives on in its other threads.
func (s stat) dead() bool {
	return s.threads <= 1 && (s.state == 'Z' || s.state == 'X' || s.state == 'x')
}

// readStat reads what the kernel says of a process; false when there is none.
func readStat(pid int) (stat, bool) {
	var buf [1024]byte
	data, err := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return stat{}, false
	}
	return parseStat(pid, data)
}

// parseStat reads a stat line. The command name, in parentheses, may contain
// anything, parentheses and line breaks included.
func parseStat(pid int, data []byte) (stat, bool) {
	i := bytes.LastIndexByte(data, ')')
	if i < 0 {
		return stat{}, false
	}
	st := stat{pid: pid}
	field := 0
	for word := range bytes.FieldsSeq(data[i+1:]) {
		n := uint64(0)
		if field == 0 {
			st.state = word[0]
		} else if field <= 19 {
			var ok bool
			if n, ok = parseDigits(word); !ok {
				return stat{}, false
			}
		}
		switch field {
		case 1:
			st.parent = int(n)
		case 2:
			st.group = int(n)
		case 3:
			st.session = int(n)
		case 4:
			st.terminal = int(n)
		case 17:
			st.threads = int(n)
		case 19:
			st.start = n
			return st, true
		}
		field++
	}
	return stat{}, false
}

// parseDigits reads a decimal number; of a negative one only that it is one counts.
func parseDigits(word []byte) (uint64, bool) {
	if word[0] == '-' && len(word) > 1 {
		_, ok := parseDigits(word[1:])
		return 0, ok
	}
	n := uint64(0)
	for _, c := range word {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// readSmall reads a file of /proc in one go, without the cost of an os.File.
func readSmall(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n := 0
	for n < len(buf) {
		k, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if k == 0 {
			break
		}
		n += k
	}
	return buf[:n], nil
}

// startClock returns now in the unit of start times, never later than the start of a
// process that is started afterwards.
func startClock() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	const ticksPerSecond = 100 // USER_HZ, the same on every platform Go runs on
	return uint64(ts.Sec)*ticksPerSecond + uint64(ts.Nsec)/(1e9/ticksPerSecond)
}

// orphans knows which children of this process were started by this package, so
// that adopted ones can be told from them.
type orphans struct {
	starting sync.RWMutex // held for reading from start until the child is known
	mu       sync.Mutex
	adopting bool // set before the first child
	since    uint64
	children map[int]struct{}
}

func newOrphans() *orphans {
	return &orphans{children: map[int]struct{}{}, since: startClock()}
}

// adopt makes this process the parent of its descendants' orphans.
func (o *orphans) adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	o.adopting = true
	return nil
}

func (o *orphans) expect()   { o.starting.RLock() }
func (o *orphans) expected() { o.starting.RUnlock() }

func (o *orphans) child(pid int) {
	if !o.adopting {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.children[pid] = struct{}{}
}

func (o *orphans) childGone(pid int) {
	if !o.adopting {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.children, pid)
}

// reapEnded takes the exit status of all adopted processes that have ended.
func (o *orphans) reapEnded() {
	if !o.adopting {
		return
	}
	pids, err := listProcesses()
	if err != nil {
		return // without /proc nothing can be told from a command's own process
	}
	self := os.Getpid()
	var ended []stat
	for _, pid := range pids {
		if st, ok := readStat(pid); ok && st.parent == self && st.dead() {
			ended = append(ended, st)
		}
	}
	o.filter(ended)
}

// filter returns which of procs were adopted, and takes the exit status of those
// that have ended: nobody else will.
func (o *orphans) filter(procs []stat) []stat {
	if o == nil || !o.adopting {
		return nil
	}
	self := os.Getpid()
	own, err := unix.Getsid(0)
	if err != nil {
		return nil
	}
	// Children on their way to being known are waited for.
	o.starting.Lock()
	defer o.starting.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	var alive []stat
	for _, p := range procs {
		_, known := o.children[p.pid]
		switch {
		case p.parent != self || p.session == own || p.start < o.since || known:
		case p.dead():
			_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
		default:
			alive = append(alive, p)
		}
	}
	return alive
}

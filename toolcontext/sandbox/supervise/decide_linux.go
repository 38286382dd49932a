//go:build amd64 || arm64

package supervise

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// decide answers one system call: 0 lets it go on, anything else is its error. valid
// says whether the call still waits, so that what was read belongs to it.
func (s *Session) decide(n *notification, valid func() bool) unix.Errno {
	a := s.arch[n.arch]
	if a == nil {
		return unix.ENOSYS
	}
	c, ok := a.calls[int(n.nr)]
	if !ok {
		return 0
	}
	x := request{s: s, n: n, call: c, tid: int(n.tid), word: a.word, valid: valid}
	if c.op == opOpen && x.flags()&writeFlags == 0 && x.recall() {
		x.noteRead()
		return 0
	}
	if x.pid = leader(x.tid); x.pid == 0 {
		return 0
	}
	who := s.lookUp(x.pid)
	x.who = who
	switch c.op {
	case opOpen, opOpenHow, opCreate:
		return x.open()
	case opMake:
		return x.change(c.dir, c.path, false)
	case opRemove:
		return x.change(c.dir, c.path, false)
	case opRename:
		if errno := x.change(c.dir, c.path, false); errno != 0 {
			return errno
		}
		return x.change(c.dir2, c.path2, false)
	case opLink:
		return x.link()
	case opBind, opSocketCall:
		return x.bind()
	case opExec:
		return x.exec()
	case opKill, opKillFD, opTrace, opLimit:
		return x.touch()
	case opOwner:
		return x.own()
	case opRefuse:
		if who.level == untrusted {
			return unix.EPERM
		}
	}
	return 0
}

// request is a system call to decide on.
type request struct {
	s     *Session
	n     *notification
	call  call
	tid   int
	pid   int
	who   *process
	word  int
	valid func() bool
	// unreadable says that an argument could not be read, which an untrusted process can
	// bring about: its call is refused.
	unreadable bool
	text       string // the path of a call that recall recognised
}

// arg returns an argument.
func (x *request) arg(i int) uint64 { return x.n.args[i] }

// flags returns the flags of an opening with opOpen.
func (x *request) flags() uint64 { return x.arg(x.call.flags) }

// place resolves a path among the arguments; ok is false if the call fails by itself.
func (x *request) place(dir, name int, follow bool) (p place, ok bool) {
	mem, err := openMemory(x.tid, x.word)
	if err != nil {
		x.unreadable = true
		return place{}, false
	}
	defer mem.close()
	text, err := mem.text(x.arg(name))
	if err != nil || !x.valid() {
		x.unreadable = !errors.Is(err, unix.ENAMETOOLONG)
		return place{}, false
	}
	at := int32(unix.AT_FDCWD)
	if dir >= 0 {
		at = int32(uint32(x.arg(dir)))
	}
	if text == "" {
		if dir < 0 {
			return place{}, false
		}
		target := atFD(x.tid, at) // AT_EMPTY_PATH
		return place{path: target, exists: true}, target != ""
	}
	base := atFD(x.tid, at)
	p, err = resolve(x.tid, base, text, follow)
	// Too deep for the supervisor to follow, though the call itself may succeed.
	x.unreadable = errors.Is(err, unix.ENAMETOOLONG) || base == "" && !path.IsAbs(text)
	return p, err == nil
}

// open decides on openings.
func (x *request) open() unix.Errno {
	flags := uint64(unix.O_WRONLY)
	switch x.call.op {
	case opOpen:
		flags = x.flags()
	case opOpenHow:
		mem, err := openMemory(x.tid, x.word)
		if err != nil {
			x.unreadable = true
			return x.unread()
		}
		var how [8]byte
		read, err := unix.Pread(mem.fd, how[:], int64(x.arg(x.call.flags)))
		mem.close()
		if err != nil || read != len(how) {
			x.unreadable = true
			return x.unread()
		}
		flags = binary.NativeEndian.Uint64(how[:])
	}
	if flags&writeFlags == 0 && flags&unix.O_TMPFILE != unix.O_TMPFILE {
		return x.read(flags)
	}
	if flags&unix.O_TMPFILE == unix.O_TMPFILE {
		return 0 // it has no name until it is linked
	}
	follow := flags&unix.O_NOFOLLOW == 0 && (flags&unix.O_CREAT == 0 || flags&unix.O_EXCL == 0)
	return x.change(x.call.dir, x.call.path, follow)
}

// change decides on a call that writes, makes, replaces or removes what a path names.
func (x *request) change(dir, name int, follow bool) unix.Errno {
	p, ok := x.place(dir, name, follow)
	if !ok {
		return x.unread()
	}
	if x.who.level == installer {
		if kind := x.s.ofCommand(p.path); kind != "" {
			x.s.note(kind, p.path, x.pid)
			return unix.EACCES
		}
	}
	if x.who.level != untrusted && slices.ContainsFunc(p.links, x.s.isForeign) {
		// The program writes to a file that it knows by another name.
		if kind := x.s.ofCommand(p.path); kind != "" {
			x.s.note(kind, p.path, x.pid)
			return unix.ELOOP
		}
	}
	if x.who.level != untrusted && x.s.copiesForeign(p, x.who) {
		x.s.note(sandbox.ActResult, p.path, x.pid)
		return unix.EACCES
	}
	if x.who.level != untrusted {
		if x.who.level == program && compiled(p.path) {
			x.s.load(p)
		}
		x.s.changedByTrusted(p, x.who)
		return 0
	}
	if p.exists && x.harmless(p) {
		return 0
	}
	if kind := x.s.protected(p, x.who); kind != "" {
		x.s.note(kind, p.path, x.pid)
		return unix.EACCES
	}
	x.s.changedFixture(p, x.who)
	if x.call.op != opRemove {
		x.s.hazard(p, x.pid)
		x.s.remember(p, maker{untrusted, x.s.copied(p, x.who)})
	}
	return 0
}

// copiesForeign says whether a process copies a foreign file onto a result.
func (s *Session) copiesForeign(p place, who *process) bool {
	if _, ok := s.results[p.path]; !ok {
		return false
	}
	base := path.Base(p.path)
	return slices.ContainsFunc(who.copies, func(from source) bool {
		if from.dir {
			inside := path.Join(from.path, base)
			_, err := os.Lstat(inside)
			return err == nil && s.isForeign(inside)
		}
		return from.exists && s.isForeign(from.path) && (path.Base(from.name) == base || len(who.copies) == 1)
	})
}

// changedFixture notes files that the tests wrote and the agent's code then changed, and
// which files the tests wrote.
func (s *Session) changedFixture(p place, who *process) {
	switch _, written := s.written[p.path]; {
	case p.dir || below(p.path, "/dev") || below(p.path, "/proc"):
	case !who.agent:
		if len(s.written) < maxMade && (who.level != untrusted || !who.orphan) {
			s.written[p.path] = struct{}{}
		}
	case written && p.exists && len(s.changed) < maxChanged:
		s.changed[p.path] = struct{}{}
	}
}

// unread answers a call with an argument that was not readable. The kernel fails with the
// same error where the argument is an invalid pointer.
func (x *request) unread() unix.Errno {
	if x.unreadable && x.who.level == untrusted {
		return unix.EFAULT
	}
	return 0
}

// harmless says whether a call fails because of what is there.
func (x *request) harmless(p place) bool {
	switch x.call.op {
	case opMake, opLink:
		return true
	case opOpen, opOpenHow, opCreate:
		return p.dir
	}
	return false
}

// maker is who wrote a file last.
type maker struct {
	by    level
	agent bool // it runs the agent's code, or copied the file from the agent's
}

// remember notes who wrote a file last. A trusted process's file stays trusted until the
// agent's code changes it.
func (s *Session) remember(p place, m maker) {
	name := p.path
	if _, ok := s.sealed[name]; !ok && s.besideTests(name) {
		at := name
		if len(s.added) >= maxAdded {
			at = path.Dir(name)
		}
		s.added[at] = struct{}{}
	}
	if len(s.made) >= maxMade {
		s.lost = s.lost || s.made[name].by != m.by
		return
	}
	if m.by == untrusted && !s.foreign.has(name) && !m.agent {
		if old, ok := s.made[name]; ok && old.by != untrusted {
			return
		}
	}
	m.agent = m.agent || p.exists && s.isAgents(name)
	s.made[name] = m
}

// changedByTrusted notes what a trusted process writes.
func (s *Session) changedByTrusted(p place, who *process) {
	by := who.level
	if _, ok := s.results[p.path]; ok {
		s.writes++
	}
	if _, ok := s.sealed[p.path]; ok && !p.dir {
		s.edits++
	}
	s.moved = s.moved || p.dir && (s.results.holds(p.path) || s.holdsSealed(p.path))
	s.changedFixture(p, who)
	if p.exists && s.foreign.has(p.path) {
		return // the agent's file, whoever changes it
	}
	if by == carrier {
		by = untrusted
	} else if s.isCode(p.path) && len(s.replaced) < maxReplaced {
		s.replaced[p.path] = struct{}{}
	}
	s.remember(p, maker{by, s.copied(p, who)})
	if by == script && outputDir(p.path) {
		s.outputs[p.path] = struct{}{}
	}
}

// outputDir says whether scripts keep files there that later parts of them read.
func outputDir(name string) bool {
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/logs", "/root", "/run"} {
		if below(name, dir) {
			return true
		}
	}
	return false
}

// protected says which rule keeps an untrusted process from changing what is at a place,
// "" for none.
func (s *Session) protected(p place, who *process) string {
	name := p.path
	if kind := s.ofCommand(name); kind != "" {
		return kind
	}
	if m, ok := s.made[name]; ok && m.by != untrusted && s.besideResults(name) {
		return sandbox.ActOutput
	}
	if _, ok := s.outputs[name]; ok && p.owner == 0 && !strings.Contains(who.given, path.Base(name)) { // not through a descriptor it was given
		return sandbox.ActOutput
	}
	if target, ok := memoryOf(name); ok && s.trusted(target) {
		return sandbox.ActTrace
	}
	if p.owner != 0 && s.trusted(p.owner) {
		return sandbox.ActTrace
	}
	if p.exists && s.isCode(name) && !s.isForeign(name) {
		return sandbox.ActCode
	}
	return ""
}

// ofCommand says whether a path is, or holds, a result or something sealed; "" for neither.
func (s *Session) ofCommand(name string) string {
	if _, ok := s.results[name]; ok || s.results.holds(name) {
		return sandbox.ActResult
	}
	if _, ok := s.sealed[name]; ok || s.holdsSealed(name) {
		return sandbox.ActSealed
	}
	return ""
}

// holdsSealed says whether a directory above what is sealed is meant.
func (s *Session) holdsSealed(name string) bool {
	return slices.ContainsFunc(s.policy.Sealed, func(dir string) bool { return below(dir, name) })
}

// besideResults says whether a file is in a directory of results.
func (s *Session) besideResults(name string) bool {
	return slices.ContainsFunc(s.policy.Results, func(r string) bool { return path.Dir(r) == path.Dir(name) })
}

// isCode says whether programs and libraries are there.
func (s *Session) isCode(name string) bool {
	if sandbox.InPackages(name) || strings.Contains(name, "/node_modules/.bin/") {
		return true
	}
	return s.code.has(name) && !s.free.has(name)
}

// memoryOf returns the process whose memory a file of /proc is.
func memoryOf(name string) (pid int, ok bool) {
	rest, ok := strings.CutPrefix(name, "/proc/")
	if !ok || path.Base(name) != "mem" {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, "/")
	pid, err := strconv.Atoi(number)
	return pid, err == nil
}

// hazard notes new files that act on trusted programs by being there.
func (s *Session) hazard(p place, pid int) {
	base := path.Base(p.path)
	archive := base == "pyvenv.cfg" || path.Ext(base) == ".zip" // python311.zip comes before the library itself
	if sandbox.StartsInterpreters(base) || strings.HasSuffix(base, ".pth") || archive && s.isCode(p.path) {
		s.startup = append(s.startup, p.path)
	}
	for _, dir := range s.policy.Sealed {
		at := path.Dir(p.path)
		above := below(dir, at)                                                                                                                        // a directory above the tests, or theirs
		loaded := below(at, dir) && path.Base(at) != "__pycache__" && (path.Ext(base) == ".py" || path.Ext(base) == ".pyc" || path.Ext(base) == ".so") // beside the tests, or in a package there
		if above && slices.Contains(s.policy.TestFiles, base) || loaded {
			s.note(sandbox.ActStartup, p.path, pid)
		}
	}
}

// link decides on new names of a file: through them a protected one could be changed.
func (x *request) link() unix.Errno {
	if x.who.level == untrusted {
		if p, ok := x.place(x.call.dir, x.call.path, false); ok {
			if kind := x.s.protected(p, x.who); kind != "" {
				x.s.note(kind, p.path, x.pid)
				return unix.EACCES
			}
		} else if errno := x.unread(); errno != 0 {
			return errno
		}
	}
	return x.change(x.call.dir2, x.call.path2, false)
}

// bind decides on sockets that get a name in the file system.
func (x *request) bind() unix.Errno {
	if x.who.level != untrusted {
		return 0
	}
	mem, err := openMemory(x.tid, x.word)
	if err != nil {
		return unix.EFAULT
	}
	defer mem.close()
	at := x.arg(1)
	if x.call.op == opSocketCall { // the number of a call, and a pointer to its arguments
		const bind = 2
		if x.arg(0) != bind {
			return 0
		}
		var args [8]byte // of 4 bytes each: the descriptor, the address
		if n, err := unix.Pread(mem.fd, args[:], int64(x.arg(1))); err != nil || n != len(args) {
			return unix.EFAULT
		}
		at = uint64(binary.NativeEndian.Uint32(args[4:]))
	}
	var family [2]byte
	if n, err := unix.Pread(mem.fd, family[:], int64(at)); err != nil || n != len(family) {
		return unix.EFAULT
	}
	if binary.NativeEndian.Uint16(family[:]) != unix.AF_UNIX {
		return 0
	}
	name, err := mem.text(at + 2)
	if err != nil {
		return unix.EFAULT
	}
	if name == "" {
		return 0 // abstract
	}
	p, err := resolve(x.tid, link(x.tid, "cwd"), name, false)
	if err != nil || p.exists || !x.valid() {
		return 0 // the call fails
	}
	if kind := x.s.protected(p, x.who); kind != "" {
		x.s.note(kind, p.path, x.pid)
		return unix.EACCES
	}
	x.s.hazard(p, x.pid)
	x.s.remember(p, maker{untrusted, x.who.agent})
	return 0
}

// exec decides how far a process is trusted from now on.
func (x *request) exec() unix.Errno {
	if x.who.level == untrusted && !x.s.policy.HideSealed {
		return 0
	}
	p, ok := x.place(x.call.dir, x.call.path, true)
	if !ok {
		return x.unread()
	}
	if !p.exists || p.dir {
		return 0 // the call fails
	}
	interpreter := interpreterOf(p.path)
	e := x.execution(p, interpreter)
	if x.who.agent {
		if errno := x.reads(p); errno != 0 || interpreter == "" {
			return errno
		}
		return x.reads(e.resolve(interpreter))
	}
	x.s.forget(x.tid)
	mem, err := openMemory(x.tid, x.word)
	if err != nil {
		return 0
	}
	defer mem.close()
	e.argv = mem.list(x.arg(x.call.argv), maxArgs)
	first := x.s.first(p.path)
	if x.who.level != untrusted {
		x.enter(p, e, first)
	}
	x.who.copies = nil
	if x.who.level != untrusted {
		x.who.copies = e.copies()
	}
	x.who.executed, x.who.carries, x.who.sources = true, x.s.policy.HideSealed && e.carries(), nil
	if first || !x.s.policy.HideSealed {
		return 0
	}
	e.mixed = x.who.mixed
	if x.who.mixed = e.mixed || e.mixes(); e.runsAgent() {
		x.who.agent, x.who.level, x.s.ranAgent = true, untrusted, true
		x.who.handed = x.s.handOver(mem.list(x.arg(x.call.argv), maxHanded), mem.list(x.arg(x.call.argv+1), maxHanded), e)
		x.s.handed = append(x.s.handed, x.who.handed...)
		x.s.mark(x.pid)
	}
	return 0
}

// execution describes the program that the process becomes, without its arguments.
func (x *request) execution(p place, interpreter string) execution {
	workdir := link(x.tid, "cwd")
	return execution{
		file: p.path, workdir: workdir, script: interpreter != "",
		resolve: func(name string) place {
			found, err := resolve(x.tid, workdir, name, true)
			if err != nil {
				return place{}
			}
			return found
		},
		input:   func() string { return atFD(x.tid, 0) },
		foreign: x.s.isForeign,
		agents:  x.s.isAgents,
		tests:   x.s.besideTests,
		code:    x.s.isCode,
		written: func(dir string) bool {
			for name := range x.s.written {
				if below(name, dir) {
					return true
				}
			}
			return false
		},
		read:   x.s.isContent,
		sealed: func(name string) bool { _, ok := x.s.sealed[name]; return ok },
		hooked: x.s.hooked,
	}
}

// enter changes the level of a trusted process that becomes another program.
func (x *request) enter(p place, e execution, first bool) {
	next := e.next(x.who.level)
	if first {
		next = script
	}
	if next == untrusted {
		x.s.ran = x.s.ran || x.who.level != program && x.who.level != carrier || e.namesCode()
		x.who.given = strings.Join(e.argv, "\x00")
	} else if kind, ok := kindOf(path.Base(p.path)); len(x.s.startup) > 0 && (ok && kind != "sh" || e.script) {
		for _, name := range x.s.startup {
			x.s.note(sandbox.ActStartup, name, x.pid)
		}
	}
	x.who.level = next
}

// first says whether it is the command's own program, which the launcher becomes.
func (s *Session) first(string) bool {
	if s.began && !s.started {
		s.started = true
		return true
	}
	return false
}

// interpreterOf returns the interpreter that a file names in its first line, "" for none.
func interpreterOf(name string) string {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe without a writer would block
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256) // as much as the kernel reads
	n, _ := f.Read(head)
	line, _, _ := bytes.Cut(head[:n], []byte{'\n'})
	rest, ok := bytes.CutPrefix(line, []byte("#!"))
	if !ok {
		return ""
	}
	if words := bytes.Fields(rest); len(words) > 0 {
		return string(words[0])
	}
	return "/" // a script all the same
}

// touch decides on signals, tracing and limits.
func (x *request) touch() unix.Errno {
	if x.who.level != untrusted {
		return 0
	}
	target := int(int32(uint32(x.arg(x.call.pid))))
	kind := sandbox.ActSignal
	switch x.call.op {
	case opTrace:
		kind = sandbox.ActTrace
	case opLimit:
		kind = sandbox.ActLimit
	case opKillFD:
		if x.arg(x.call.sig) == 0 {
			return 0
		}
		target = processOf(x.tid, target)
	case opKill:
		if x.arg(x.call.sig) == 0 {
			return 0
		}
		if target <= 0 {
			if !x.s.groupTrusted(target, x.pid) {
				return 0
			}
			x.s.note(kind, "process group", x.pid)
			return unix.EPERM
		}
	}
	if target <= 0 || !x.s.trusted(target) && !(kind == sandbox.ActTrace && x.who.agent && x.s.apart(target)) {
		return 0
	}
	x.s.note(kind, describe(target), x.pid)
	return unix.EPERM
}

// own decides on who gets the signals of a descriptor: SIGIO or, with F_SETSIG, any. An
// untrusted process may only name itself.
func (x *request) own() unix.Errno {
	if x.who.level != untrusted {
		return 0
	}
	const fSetSignal = 10
	if command := x.arg(1); command == unix.F_SETOWN && (x.arg(2) == 0 || int(int32(uint32(x.arg(2)))) == x.pid) || command == fSetSignal && x.arg(2) == 0 {
		return 0
	}
	x.s.note(sandbox.ActSignal, "owner of a descriptor", x.pid)
	return unix.EPERM
}

// processOf returns the process that a pidfd of a thread stands for.
func processOf(tid, fd int) int {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(data, []byte("\nPid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(line)))
	return pid
}

// groupTrusted says whether a signal to a process group, or to all processes, would
// reach a trusted one. target is as in kill(2).
func (s *Session) groupTrusted(target, pid int) bool {
	group := -target
	if target == 0 {
		st, ok := readStat(pid)
		if !ok {
			return false
		}
		group = st.group
	}
	for p, known := range s.procs {
		if known.level == untrusted {
			continue
		}
		if st, ok := readStat(p); ok && st.start == known.start && (target == -1 || st.group == group) {
			return true
		}
	}
	return false
}

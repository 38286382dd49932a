//go:build amd64 || arm64

package supervise

import (
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// maxRecalled bounds the threads whose memory is kept open.
const maxRecalled = 128

// recalled is the first thread of a process that does not run the agent's code, with its
// memory kept open. A read of it fails once the process runs another program or has ended,
// and until then no other thread has its number.
type recalled struct {
	mem memory
	pid int
	who *process
}

// recall reads the path of an opening from the kept memory of its thread. It reports false
// if the thread is not known, or may be another one by now.
func (x *request) recall() bool {
	k, ok := x.s.recalled[x.tid]
	if !ok {
		return false
	}
	text, err := k.mem.text(x.arg(x.call.path))
	if err != nil || k.who.agent || k.mem.word != x.word {
		x.s.forget(x.tid)
		return false
	}
	x.text, x.pid, x.who = text, k.pid, k.who
	return true
}

// keep keeps the memory of a thread open. It has to be that of a process which has run a
// program of its own: until then a process may share the memory of its parent.
func (x *request) keep(mem memory) {
	if len(x.s.recalled) >= maxRecalled {
		for tid := range x.s.recalled {
			x.s.forget(tid)
		}
	}
	x.s.forget(x.tid)
	x.s.recalled[x.tid] = recalled{mem, x.pid, x.who}
}

func (s *Session) forget(tid int) {
	if k, ok := s.recalled[tid]; ok {
		k.mem.close()
		delete(s.recalled, tid)
	}
}

// read decides on openings for reading.
func (x *request) read(flags uint64) unix.Errno {
	mem, err := openMemory(x.tid, x.word)
	if err != nil {
		x.unreadable = true
		return x.unread()
	}
	text, err := mem.text(x.arg(x.call.path))
	if !x.who.agent {
		if x.text = text; err == nil {
			x.noteRead()
		}
		if err == nil && x.who.executed && x.call.op == opOpen && x.tid == x.pid {
			x.keep(mem)
		} else {
			mem.close()
		}
		return 0
	}
	mem.close()
	p, ok := x.place(x.call.dir, x.call.path, flags&unix.O_NOFOLLOW == 0)
	if !ok {
		return x.unread()
	}
	return x.reads(p)
}

// reads decides on what a process that runs the agent's code reads or executes.
func (x *request) reads(p place) unix.Errno {
	kind := ""
	if target, ok := memoryOf(p.path); ok && x.s.apart(target) {
		kind = sandbox.ActTrace
	} else if x.s.hides(p, x.who) {
		kind = sandbox.ActRead
	}
	if kind == "" {
		return 0
	}
	x.s.note(kind, p.path, x.pid)
	return unix.EACCES
}

// hides says whether a process that runs the agent's code may not read what is at a place:
// a file of the tests that was not handed to it.
func (s *Session) hides(p place, who *process) bool {
	if !s.policy.HideSealed || !p.exists || p.dir {
		return false
	}
	_, sealed := s.sealed[p.path]
	_, linked := s.sealedFiles[p.file]
	made, ok := s.made[p.path]
	byTests := ok && !made.agent
	switch {
	case !sealed && !(compiled(p.path) && s.besideTests(p.path)) && (!linked || byTests):
		return false
	case p.owner != 0 && p.descriptor && !s.apart(p.owner): // inherited, or opened when that was allowed
		return false
	case slices.ContainsFunc(p.links, func(name string) bool { m, ok := s.made[name]; return ok && !m.agent }):
		return false // the tests made a link to it for the program
	}
	return !who.handed.has(p.path)
}

// apart says whether a process under supervision does not run the agent's code.
func (s *Session) apart(pid int) bool {
	if tgid := leader(pid); tgid != 0 {
		pid = tgid
	}
	who := s.lookUp(pid)
	return who.level != untrusted || !who.agent && !who.orphan
}

// besideTests says whether something is sealed, or in a directory that is.
func (s *Session) besideTests(name string) bool {
	return slices.ContainsFunc(s.policy.Sealed, func(dir string) bool { return below(name, dir) })
}

// isAgents says whether the agent made or changed a file, before the command or by a
// program that the command runs.
func (s *Session) isAgents(name string) bool {
	if m, ok := s.made[name]; ok {
		return m.agent
	}
	return s.foreign.has(name) && !(s.policy.Packages && packaged(name))
}

// packaged says whether package managers of distributions install files there.
func packaged(name string) bool {
	return !below(name, "/usr/local") && slices.ContainsFunc([]string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"}, func(dir string) bool { return below(name, dir) })
}

// copied says whether a file that a process makes is a copy of one of the agent's.
func (s *Session) copied(p place, who *process) bool {
	return who.agent || who.carries || who.sources[path.Base(p.path)]
}

// handed are files of the tests that a program was given, directories with all below
// them, and patterns of names.
type handed []string

func (h handed) has(name string) bool {
	return slices.ContainsFunc(h, func(given string) bool {
		if below(name, given) {
			return true
		}
		match, err := path.Match(given, name)
		return err == nil && match
	})
}

// unintended are variables that shells and test runners set, and that hand nothing over.
var unintended = []string{"_", "OLDPWD", "PYTEST_CURRENT_TEST", "BASH_SOURCE"}

// delimiters end a path within a longer text.
const delimiters = " \t\r\n'\"`:;,=()<>|&$"

// handOver returns what of the tests stands in arguments and variables.
func (s *Session) handOver(argv, env []string, e execution) handed {
	var list handed
	add := func(name string) {
		p := e.resolve(name)
		if slices.ContainsFunc(p.links, s.isAgents) {
			return // a link of the agent's hands nothing over
		}
		for _, found := range []string{path.Clean(name), p.path} {
			if path.IsAbs(found) && s.besideTests(found) && !slices.Contains(s.policy.Sealed, found) && !slices.Contains(list, found) {
				list = append(list, found)
			}
		}
	}
	within := func(text string) {
		for _, dir := range s.policy.Sealed {
			for rest := text; ; {
				i := strings.Index(rest, dir+"/")
				if i < 0 {
					break
				}
				rest = rest[i:]
				add(rest)
				end := strings.IndexAny(rest, delimiters)
				if end < 0 {
					break
				}
				add(rest[:end])
				rest = rest[end:]
			}
		}
	}
	for _, arg := range argv[min(1, len(argv)):] {
		within(arg)
		_, value, assigned := strings.Cut(arg, "=")
		if arg != "" && len(arg) <= maxPath {
			add(arg)
		}
		if assigned && value != "" && len(arg) <= maxPath {
			add(value)
		}
	}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		if slices.Contains(unintended, name) {
			continue
		}
		within(value)
		if s.besideTests(e.workdir) && value != "" && len(value) <= maxPath {
			add(value)
		}
	}
	return list
}

// markLimit is a limit that hardly any program has a use for. A process that runs the
// agent's code has a hard limit lower than the command's. It can't raise it again, and
// what it starts inherits it, so that it is known when its parent has ended.
const markLimit = unix.RLIMIT_MSGQUEUE

// mark marks a process as one that runs the agent's code.
func (s *Session) mark(pid int) {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, markLimit, nil, &limit); err != nil || limit.Max == 0 {
		s.unmarked = true
		return
	}
	limit.Max--
	limit.Cur = min(limit.Cur, limit.Max)
	if unix.Prlimit(pid, markLimit, &limit, nil) != nil {
		s.unmarked = true
	}
}

// marked says whether a process runs the agent's code, or descends from one that does. known
// is false if the supervisor may not read its limits.
func (s *Session) marked(pid int) (is, known bool) {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, markLimit, nil, &limit)
	return err == nil && limit.Max < s.limit, err == nil && !s.unmarked
}

// inherits says whether a process that is seen for the first time runs the agent's code.
// found is its parent, which may have become another program since.
func (s *Session) inherits(pid int, found *process) bool {
	if !s.policy.HideSealed {
		return false
	}
	is, known := s.marked(pid)
	switch {
	case is || known:
		return is
	case found.orphan:
		return s.ranAgent
	}
	return found.agent
}

// codeEndings are those of files that interpreters load as code.
var codeEndings = []string{".so", ".js", ".mjs", ".cjs", ".node", ".rb", ".pl", ".pm", ".lua", ".php", ".R", ".jl", ".class", ".jar"}

// noteRead notes what of the agent's a process reads that does not run the agent's code: code
// that a trusted program loads, and files that it may copy. Python asks for the compiled
// form of a module before it compiles it.
func (x *request) noteRead() {
	text := x.text
	if x.s.policy.HideSealed {
		name := text
		if !path.IsAbs(name) && x.call.dir < 0 {
			name = path.Join(link(x.tid, "cwd"), name)
		} else if !path.IsAbs(name) {
			name = path.Join(atFD(x.tid, int32(uint32(x.arg(x.call.dir)))), name)
		}
		if base := path.Base(name); x.s.isAgents(path.Clean(name)) && len(x.who.sources) < maxSources {
			x.s.recentRead(path.Clean(name))
			if x.who.sources == nil {
				x.who.sources = map[string]bool{}
			}
			x.who.sources[base] = true
		}
	}
	if !x.s.policy.Loads || x.who.level != program || !compiled(text) && !slices.Contains(codeEndings, path.Ext(text)) && !strings.Contains(path.Base(text), ".so.") {
		return
	}
	if p, ok := x.place(x.call.dir, x.call.path, true); ok {
		x.s.load(p)
	} else if compiled(text) && path.IsAbs(text) {
		x.s.load(place{path: text}) // there is no compiled form yet, nor its directory
	}
}

// Bounds of the files with which code among arguments is compared.
const (
	maxRecent    = 100
	maxCodeBytes = 128 << 10 // the kernel's limit for one argument
	minCodeBytes = 8         // shorter ones are the same by chance
)

// recentRead notes a file of the agent's that was read last.
func (s *Session) recentRead(name string) {
	if i := slices.Index(s.recent, name); i >= 0 {
		s.recent = slices.Delete(s.recent, i, i+1)
	} else if len(s.recent) >= maxRecent {
		s.recent = s.recent[1:]
	}
	s.recent = append(s.recent, name)
}

// isContent says whether a text is the content of a file of the agent's that was read
// lately, as in bash -c "$(cat /app/command)".
func (s *Session) isContent(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) < minCodeBytes {
		return false
	}
	return slices.ContainsFunc(s.recent, func(name string) bool {
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0) // a pipe without a writer would block
		if err != nil {
			return false
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() || info.Size() < int64(len(text)) || info.Size() > maxCodeBytes {
			return false
		}
		content, err := io.ReadAll(io.LimitReader(f, maxCodeBytes))
		return err == nil && strings.TrimSpace(string(content)) == text
	})
}

// maxSources bounds the names of the agent's files that a process has read.
const maxSources = 10_000

// compiled says whether a path is that of a compiled Python module, or of one in the
// making.
func compiled(name string) bool {
	return path.Base(path.Dir(name)) == "__pycache__" && strings.Contains(path.Base(name), ".pyc")
}

// load notes a foreign file that a trusted program loaded.
func (s *Session) load(p place) {
	name, exists := p.path, p.exists
	if compiled(name) {
		base, _, _ := strings.Cut(path.Base(name), ".")
		name = path.Join(path.Dir(path.Dir(name)), base+".py")
		_, err := os.Lstat(name)
		exists = err == nil
	}
	if exists && s.isForeign(name) && len(s.loaded) < maxLoaded {
		s.loaded[name] = true
	}
}

// isForeign says whether a file may hold untrusted code.
func (s *Session) isForeign(name string) bool {
	if m, ok := s.made[name]; ok {
		return m.by == untrusted
	}
	return s.foreign.has(name)
}

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Exit codes of commands that could not be started, as shells have them.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// errNotDir says why a file is no working directory.
var errNotDir = errors.New("not a directory")

// Exec runs a command to its end; see sandbox.Sandbox. On timeout and cancel the
// command's process group gets SIGTERM, after Config.Grace everything it started is
// frozen and killed, and Exec returns when none of it is left.
func (s *Sandbox) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	if err := c.Validate(); err != nil {
		return sandbox.Result{}, err
	}
	if c.Terminal != nil {
		return sandbox.Result{}, fmt.Errorf("%w: Terminal is only for Start", sandbox.ErrInvalidCommand)
	}
	done, err := s.begin()
	if err != nil {
		return sandbox.Result{}, err
	}
	defer done()
	if c.Session {
		select {
		case s.session.lock <- struct{}{}:
			defer func() { <-s.session.lock }()
		case <-s.life.Done():
			return sandbox.Result{}, sandbox.ErrClosed
		case <-ctx.Done():
			return cancelledResult(), nil
		}
	}
	if ctx.Err() != nil {
		return cancelledResult(), nil
	}
	r, err := s.exec(ctx, c, nil)
	if err != nil && !errors.Is(err, sandbox.ErrClosed) {
		err = fmt.Errorf("run a command in sandbox %s: %w", s.info.ID, err)
	}
	return r, err
}

func cancelledResult() sandbox.Result {
	return sandbox.Result{ExitCode: sandbox.ExitCancelled, Cancelled: true}
}

// failed is the result of a command that could not be started, in a shell's words.
func failed(c sandbox.Command, code int, message string) sandbox.Result {
	out := sandbox.Output{Head: []byte(message + "\n"), Total: int64(len(message)) + 1}
	if c.Merge {
		return sandbox.Result{ExitCode: code, Stdout: out}
	}
	return sandbox.Result{ExitCode: code, Stderr: out}
}

// reason is the system's own word for what went wrong.
func reason(err error) string {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		text := errno.Error()
		return strings.ToUpper(text[:1]) + text[1:]
	case errors.Is(err, errNotDir):
		return "Not a directory"
	}
	return err.Error()
}

// invocation is a command made ready for the system.
type invocation struct {
	path   string
	argv   []string
	env    map[string]string
	dir    string
	marker string
	notice string // what the model has to know before the output
	// started, when set, is told of the running process.
	started func(pid int, st *streams)
}

// exec runs a validated command. The caller holds the session where c has one.
// started, when it is not nil, is told of the running process.
func (s *Sandbox) exec(ctx context.Context, c sandbox.Command, started func(int, *streams)) (sandbox.Result, error) {
	inv := invocation{env: maps.Clone(s.base), dir: s.info.Dir, started: started}
	if c.Session {
		inv.env, inv.dir = s.session.environment(s.base), s.session.start(s.info.Dir)
	}
	if c.Dir != "" {
		inv.dir = s.resolve(c.Dir, inv.dir)
	} else if canEnter(inv.dir) != nil {
		// The rollout removed it. Failing from now on would help nobody.
		near := nearestDir(inv.dir, s.lastResort())
		inv.notice = fmt.Sprintf("[the working directory %s is gone; now in %s]", inv.dir, near)
		inv.dir = near
	}
	if err := canEnter(inv.dir); err != nil {
		return failed(c, exitCannotRun, fmt.Sprintf("%s: cd: %s: %s", s.shellName(), inv.dir, reason(err))), nil
	}
	maps.Copy(inv.env, c.Env)
	number := s.commands.Add(1)
	inv.marker = s.info.ID + "/" + strconv.FormatInt(number, 10)
	inv.env[MarkerVariable] = inv.marker
	inv.env["PWD"] = inv.dir

	if c.Args != nil {
		path, err := lookProgram(c.Args[0], inv.dir, inv.env["PATH"])
		if err != nil {
			code := exitCannotRun
			if errors.Is(err, fs.ErrNotExist) {
				code = exitNotFound
			}
			return failed(c, code, c.Args[0]+": "+notRunnable(err)), nil
		}
		inv.path, inv.argv = path, c.Args
		r, err := s.run(ctx, c, inv)
		return r, err
	}

	shell, err := s.shell()
	if err != nil {
		return failed(c, exitNotFound, err.Error()), nil
	}
	sh, err := s.prepareScript(c, shell, number, inv.env)
	if err != nil {
		if r, ok := s.exhausted(c, err); ok {
			return r, nil
		}
		return sandbox.Result{}, err
	}
	defer sh.remove()
	inv.path, inv.argv = shell.path, sh.argv
	before := maps.Clone(inv.env)
	r, err := s.run(ctx, c, inv)
	if err == nil && c.Session && !r.TimedOut && !r.Cancelled {
		s.session.keep(sh.state, c, before, inv.dir)
	}
	return r, err
}

func notRunnable(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "command not found"
	}
	return reason(err)
}

// run starts the process, waits for its end and collects what it wrote.
func (s *Sandbox) run(ctx context.Context, c sandbox.Command, inv invocation) (sandbox.Result, error) {
	st, err := s.openStreams(c)
	if err != nil {
		return sandbox.Result{}, err
	}
	if inv.notice != "" {
		_, _ = io.WriteString(st.err.capture, inv.notice+"\n") // never fails
	}
	group := s.commandGroup()
	begun := startClock()
	start := time.Now()
	p, err := s.start(inv, st, group)
	st.closeChildEnds()
	if err != nil {
		st.abandon()
		group.release()
		return s.startFailed(c, inv, err)
	}
	st.pumpAll(s)
	if inv.started != nil {
		inv.started(p.pid, st)
	}

	var expired <-chan time.Time
	if c.Timeout > 0 {
		timer := time.NewTimer(c.Timeout - time.Since(start))
		defer timer.Stop()
		expired = timer.C
	}
	var r sandbox.Result
	closed := false
	select {
	case <-p.exited:
	case <-expired:
		r.TimedOut = true
	case <-ctx.Done():
		r.Cancelled = true
	case <-s.life.Done():
		closed = true
	}
	select {
	case <-p.exited: // at the same instant: it ended by itself
		r.TimedOut, r.Cancelled, closed = false, false, false
	default:
	}
	var killErr error
	if r.TimedOut || r.Cancelled || closed {
		sc := scope{
			sandbox: s.info.ID, marker: inv.marker, root: s.root, since: begun,
			leader: p.pid, children: []int{p.pid}, pipes: st.inodes(), group: group,
			orphans: s.provider.orphans, claimOrphans: s.provider.only(), lastResort: s.mayEndAll(),
		}
		killErr = s.killCommand(p, st, sc, closed)
		if sc.resorted() {
			_, _ = io.WriteString(st.err.capture, "\n[every process in the sandbox was ended, because those of this command could not be found in time]\n") // never fails
		}
	}
	buf := s.provider.buffers.Get().(*[]byte)
	st.settle(*buf)
	s.provider.buffers.Put(buf)
	s.mu.Lock()
	delete(s.running, p.pid) // before its id can be given to another
	s.mu.Unlock()
	code, reaped := p.reap()
	r.Duration = time.Since(start)
	r.Stdout, r.Stderr = st.close(c.Merge)
	s.remember(p.pid, group)
	switch {
	case closed:
		return r, errors.Join(sandbox.ErrClosed, killErr)
	case r.TimedOut:
		r.ExitCode = sandbox.ExitTimeout
	case r.Cancelled:
		r.ExitCode = sandbox.ExitCancelled
	case !reaped:
		return r, fmt.Errorf("the exit status of process %d is lost: something else in this program waited for it", p.pid)
	default:
		r.ExitCode = code
	}
	return r, killErr
}

// startFailed tells the command's faults from the machine's.
func (s *Sandbox) startFailed(c sandbox.Command, inv invocation, err error) (sandbox.Result, error) {
	if r, ok := s.exhausted(c, err); ok {
		return r, nil
	}
	switch {
	case errors.Is(err, syscall.E2BIG), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EACCES),
		errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP),
		errors.Is(err, syscall.ETXTBSY), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EISDIR):
		return failed(c, exitCannotRun, inv.argv[0]+": "+reason(err)), nil
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return sandbox.Result{}, fmt.Errorf("start a process: %w; the machine is out of processes or memory: lower the concurrency or raise ulimit -u", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return sandbox.Result{}, fmt.Errorf("start a process: %w; lower the concurrency or raise ulimit -n", err)
	}
	return sandbox.Result{}, fmt.Errorf("start %s: %w", inv.path, err)
}

// start starts the process, without a control group when that is what fails.
func (s *Sandbox) start(inv invocation, st *streams, group *cgroup) (p *process, err error) {
	env := environmentList(inv.env)
	s.provider.orphans.expect()
	defer s.provider.orphans.expected()
	defer func() {
		if p != nil {
			s.provider.orphans.child(p.pid)
			s.mu.Lock()
			s.running[p.pid] = struct{}{}
			s.mu.Unlock()
			if s.provider.config.Place != nil {
				preferForKilling(p.pid)
			}
		}
	}()
	if place := s.provider.config.Place; place != nil && place.Starting != nil {
		defer place.Starting()()
	}
	start := placement{dir: inv.dir, terminal: st.terminal, group: group}
	if place := s.provider.config.Place; place != nil {
		start.ambient = place.Ambient
	}
	p, err = startProcess(inv.path, inv.argv, env, st.childEnds(), start)
	if err != nil && group != nil {
		var again error
		start.group = nil
		if p, again = startProcess(inv.path, inv.argv, env, st.childEnds(), start); again == nil {
			s.provider.groups.disable()
			return p, nil
		}
	}
	return p, err
}

// killCommand ends what a command started, and returns when it is gone.
func (s *Sandbox) killCommand(p *process, st *streams, sc scope, atOnce bool) error {
	if grace := s.provider.config.Grace; grace > 0 && !atOnce {
		_ = syscall.Kill(-p.pid, syscall.SIGTERM) // gone already is as good
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.exited:
		case <-timer.C:
		case <-s.life.Done():
		}
	}
	if err := eradicate(context.Background(), sc, s.provider.config.KillWait); err != nil {
		return err
	}
	timer := time.NewTimer(s.provider.config.KillWait)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timer.C:
		return fmt.Errorf("process %d survived SIGKILL for %v; it hangs in the kernel", p.pid, s.provider.config.KillWait)
	}
}

// remember notes that a command which has ended left processes in its session.
func (s *Sandbox) remember(pid int, group *cgroup) {
	s.provider.orphans.childGone(pid)
	group.release()
	if !groupExists(pid) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.leftovers) >= 64 {
		for id := range s.leftovers {
			if !groupExists(id) {
				delete(s.leftovers, id)
			}
		}
	}
	s.leftovers[pid] = startClock()
}

func groupExists(id int) bool { return !errors.Is(syscall.Kill(-id, 0), syscall.ESRCH) }

// lookProgram finds a program the way the shell of the command would.
func lookProgram(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		full := name
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, name)
		}
		return full, runnable(full)
	}
	found := error(fs.ErrNotExist)
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		full := filepath.Join(d, name)
		if _, err := os.Stat(full); err != nil {
			continue // what can't be seen is not there, as for every shell
		}
		err := runnable(full)
		if err == nil {
			return full, nil
		}
		found = err
	}
	return "", found
}

func runnable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	return accessExecute(path)
}

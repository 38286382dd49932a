package reward

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// program asks a program on this machine for scores. Its processes start with the first question, are started again when
// they end or hang, and serve many rollouts at once.
type program struct {
	start   startOptions
	timeout time.Duration
	workers []*worker
	// alone asks again what was under way when a process ended, one question at a time, so that a question that ends every
	// process it is put to takes no other down with it.
	alone *worker
}

func newProgram(p Part, lookup func(string) (string, bool)) (*program, error) {
	if len(p.Program) == 0 || p.Program[0] == "" {
		return nil, errors.New("program: name the program to run")
	}
	g := &program{timeout: p.Timeout.Duration(), start: startOptions{
		args: p.Program, dir: p.Directory, maxInFlight: p.MaxInFlight,
		env: programEnvironment(p, lookup), errors: &errorOutput{}, startTimeout: startTimeout, grace: exitGrace,
	}}
	for range max(1, p.Processes) {
		g.workers = append(g.workers, newWorker(&g.start))
	}
	one := g.start
	one.maxInFlight = 1
	g.alone = newWorker(&one)
	g.alone.expendable = true
	return g, nil
}

// plainVariables are what a program sees of this program's environment without being named: nothing that is secret.
func plainVariables() []string {
	return []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "SYSTEMROOT"}
}

func programEnvironment(p Part, lookup func(string) (string, bool)) []string {
	list := []string{"PYTHONUNBUFFERED=1"}
	for _, name := range slices.Concat(plainVariables(), p.PassEnvironment) {
		if value, ok := lookup(name); ok {
			list = append(list, name+"="+value)
		}
	}
	for name, value := range p.Environment {
		list = append(list, name+"="+value)
	}
	return list
}

// find checks that there is such a program, before anything is paid for.
func (g *program) find() error {
	name := g.start.args[0]
	if g.start.dir != "" && !filepath.IsAbs(name) && filepath.Base(name) != name {
		name = filepath.Join(g.start.dir, name)
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	return nil
}

func (g *program) check([]byte) error { return nil }

// logTo writes what the program says on standard error to a file of the run directory.
func (g *program) logTo(dir, name string) {
	g.start.errors.path = filepath.Join(dir, "reward-"+unsafeInNames.ReplaceAllString(name, "_")+".log")
}

var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

func (g *program) score(ctx context.Context, in Input) (result, error) {
	w := g.leastLoaded()
	answer, err := w.ask(ctx, in, g.timeout)
	var gone *goneError
	if errors.As(err, &gone) {
		answer, err = g.alone.ask(ctx, in, g.timeout)
		g.alone.rest()
	}
	if err != nil {
		if ctx.Err() != nil {
			return result{}, context.Cause(ctx)
		}
		return result{}, failing(classProgram, "%w", err)
	}
	found := result{score: answer.score, parts: answer.parts}
	if len(answer.details) > 0 {
		found.details.Set("details", answer.details)
	}
	return found, nil
}

func (g *program) leastLoaded() *worker {
	best := g.workers[0]
	for _, w := range g.workers[1:] {
		if w.load.Load() < best.load.Load() {
			best = w
		}
	}
	return best
}

// close ends the processes, politely at first, and waits for them.
func (g *program) close() error {
	var all sync.WaitGroup
	for _, w := range append(slices.Clone(g.workers), g.alone) {
		all.Go(func() { w.close() })
	}
	all.Wait()
	return g.start.errors.close()
}

// worker keeps one process running while it is needed.
type worker struct {
	start *startOptions
	load  atomic.Int64 // questions waiting or under way
	// expendable processes are expected to end with a question: what waits for the next one does not wait longer each time.
	expendable bool

	lock      chan struct{} // held while a process starts or is replaced
	current   *process
	failures  int       // processes in a row that ended without an answer
	notBefore time.Time // of the next start
	startErr  error     // why the last start failed
	closed    bool
}

func newWorker(o *startOptions) *worker { return &worker{start: o, lock: make(chan struct{}, 1)} }

// errProgramClosed is what questions get after the end of the run.
var errProgramClosed = errors.New("the reward program has been ended")

// ask puts a question to the worker's process, starting it when needed.
func (w *worker) ask(ctx context.Context, in Input, timeout time.Duration) (verdict, error) {
	w.load.Add(1)
	defer w.load.Add(-1)
	for try := 1; ; {
		p, err := w.process(ctx)
		if err != nil {
			return verdict{}, err
		}
		if v, err := p.ask(ctx, in, timeout); !errors.Is(err, errNotAsked) || try == maxNotAsked {
			return v, err
		}
		if p.put.Load() == 0 {
			try++ // otherwise another question ended it, which is not held against this one
		}
	}
}

// maxNotAsked is how many processes may end before any question is put to them.
const maxNotAsked = 5

// hopeless is after how many failed starts in a row questions are no longer kept waiting for the next.
const hopeless = 3

// process returns the running process. After one that ended too soon it waits before it starts the next.
func (w *worker) process(ctx context.Context) (*process, error) {
	select {
	case w.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-w.lock }()
	if w.closed {
		return nil, errProgramClosed
	}
	if p := w.current; p != nil {
		select {
		case <-p.done:
			w.current = nil
			if w.failures++; p.answered.Load() > 0 || w.expendable && p.put.Load() > 0 {
				w.failures = 1
			}
			w.notBefore = time.Now().Add(backoff(w.failures))
		default:
			return p, nil
		}
	}
	if wait := time.Until(w.notBefore); wait > 0 {
		if w.startErr != nil && w.failures >= hopeless {
			return nil, w.startErr
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	p, err := startProcess(ctx, *w.start)
	if err != nil {
		w.failures++
		w.notBefore, w.startErr = time.Now().Add(backoff(w.failures)), err
		return nil, err
	}
	w.current, w.startErr = p, nil
	return p, nil
}

// backoff is the pause before a start after failures in a row: 0.1 s doubled up to 10 s.
func backoff(failures int) time.Duration {
	return min(100*time.Millisecond<<min(max(0, failures-1), 10), 10*time.Second)
}

// rest ends the process of a worker that nobody waits for.
func (w *worker) rest() {
	if w.load.Load() > 0 {
		return
	}
	select {
	case w.lock <- struct{}{}:
	default:
		return // somebody starts it just now
	}
	defer func() { <-w.lock }()
	if p := w.current; p != nil && w.load.Load() == 0 {
		p.stop()
		w.current, w.failures, w.notBefore = nil, 0, time.Time{}
	}
}

func (w *worker) close() {
	w.lock <- struct{}{}
	defer func() { <-w.lock }()
	w.closed = true
	if w.current != nil {
		w.current.stop()
		w.current = nil
	}
}

// goneError says that the process ended or was ended while a question was under way.
type goneError struct{ err error }

func (e *goneError) Error() string { return e.err.Error() }
func (e *goneError) Unwrap() error { return e.err }

// errorOutput keeps the end of what the processes write to standard error, and all of it up to a limit in a file.
type errorOutput struct {
	path string // "" keeps no file; set before the first process starts

	mu      sync.Mutex
	end     []byte
	file    *os.File
	failed  bool // the file can't be written
	written int64
}

const (
	keptErrorOutput = 4 << 10  // bytes shown in errors
	maxErrorLog     = 10 << 20 // bytes of the log file
)

// Write never fails: a program is not to be stopped by a full disk.
func (o *errorOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end = append(o.end, p...)
	if cut := len(o.end) - keptErrorOutput; cut > 0 {
		o.end = append(o.end[:0], o.end[cut:]...)
	}
	if o.path == "" || o.failed || o.written > maxErrorLog {
		return len(p), nil
	}
	if o.file == nil {
		file, err := os.OpenFile(o.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			o.failed = true
			return len(p), nil
		}
		if info, err := file.Stat(); err == nil {
			o.written = info.Size()
		}
		o.file = file
	}
	text := p
	if o.written += int64(len(p)); o.written > maxErrorLog {
		text = fmt.Appendf(slices.Clone(p[:max(0, len(p)-int(o.written-maxErrorLog))]), "\n[more than %d MiB: nothing further is kept]\n", maxErrorLog>>20)
	}
	if _, err := o.file.Write(text); err != nil {
		o.failed = true
	}
	return len(p), nil
}

// last returns the end of what was written, for a message; "" for nothing.
func (o *errorOutput) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return toldBy(string(o.end))
}

// note writes a line of our own.
func (o *errorOutput) note(format string, args ...any) {
	_, _ = o.Write(fmt.Appendf(nil, "[hermes-env] "+format+"\n", args...))
}

func (o *errorOutput) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return nil
	}
	err := o.file.Close()
	o.file, o.failed = nil, true
	if err != nil {
		return fmt.Errorf("close the log of the reward program: %w", err)
	}
	return nil
}

package reward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/internal/textutil"
)

const (
	// startTimeout is how long a program may take to say hello: loading a model takes a while.
	startTimeout = 2 * time.Minute
	// exitGrace is how long a program may take to end after its input has ended, before it is killed.
	exitGrace = 5 * time.Second
)

// startOptions say how a process is started.
type startOptions struct {
	args         []string
	dir          string
	env          []string
	maxInFlight  int
	errors       *errorOutput
	startTimeout time.Duration
	grace        time.Duration
}

// process is one running process of a reward program.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	errors *errorOutput
	grace  time.Duration

	lines  chan []byte   // to be written
	slots  chan struct{} // one per question under way
	hello  chan struct{} // closed when the program has said hello
	ending chan struct{} // closed when no more is to be written
	done   chan struct{} // closed when the process has ended and err is set
	err    error
	work   sync.WaitGroup

	endOnce  sync.Once
	mu       sync.Mutex
	pending  map[string]question
	blamed   string // the question that the process is ended for, because it answered nothing
	cause    error  // why the process was killed
	reaped   bool
	count    int64
	lastLine atomic.Int64 // when the last line came, in nanoseconds
	answered atomic.Int64
	put      atomic.Int64 // questions that it took
}

// question waits for an answer; older ones have lower numbers.
type question struct {
	number  int64
	waiting chan answer
}

// answer is what a program said to one question.
type answer struct {
	verdict
	err error
}

// startProcess starts a process and waits for its hello.
func startProcess(ctx context.Context, o startOptions) (*process, error) {
	p := &process{
		cmd: exec.Command(o.args[0], o.args[1:]...), errors: o.errors, grace: o.grace,
		lines: make(chan []byte), hello: make(chan struct{}), ending: make(chan struct{}), done: make(chan struct{}),
		pending: map[string]question{}, slots: make(chan struct{}, max(1, o.maxInFlight)),
	}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = o.dir, o.env, o.errors
	p.cmd.WaitDelay = 2 * time.Second // for what it may have started that keeps its standard error
	ownGroup(p.cmd)
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		p.stdout, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the reward program %s: %w", o.args[0], err)
	}
	p.work.Go(p.write)
	p.work.Go(p.live)
	timer := time.NewTimer(o.startTimeout)
	defer timer.Stop()
	select {
	case p.lines <- helloLine():
	case <-p.done:
	}
	select {
	case <-p.hello:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("the reward program %s did not start: %w", o.args[0], p.err)
	case <-timer.C:
		err = fmt.Errorf("the reward program %s said no hello within %s", o.args[0], o.startTimeout)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.kill(err)
	p.work.Wait()
	if ctx.Err() == nil {
		err = fmt.Errorf("%w%s", err, o.errors.last())
	}
	return nil, err
}

// live reads what the process says until it ends.
func (p *process) live() {
	err := p.read()
	p.kill(err)
	exit := p.cmd.Wait()
	p.mu.Lock()
	cause := p.cause
	p.reaped = true
	p.mu.Unlock()
	switch {
	case cause != nil:
	case exit != nil && !errors.Is(exit, exec.ErrWaitDelay):
		cause = fmt.Errorf("the reward program ended: %w", exit)
	default:
		cause = errors.New("the reward program ended by itself")
	}
	p.err = fmt.Errorf("%w%s", cause, p.errors.last())
	close(p.done)
}

// write writes the lines; a program that does not read holds up nobody but those who have something to write.
func (p *process) write() {
	for {
		select {
		case line := <-p.lines:
			if _, err := p.stdin.Write(line); err != nil {
				// It has ended, or closed its input: the reader finds out which.
				p.kill(nil)
				return
			}
		case <-p.ending:
			_ = p.stdin.Close() // says the same as the end of the process
			return
		}
	}
}

// read takes the lines of the program apart; nil when they end.
func (p *process) read() error {
	r := bufio.NewReaderSize(p.stdout, 64<<10)
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		if len(line)+len(piece) > maxAnswerLine {
			return fmt.Errorf("the reward program wrote a line of more than %d MiB", maxAnswerLine>>20)
		}
		line = append(line, piece...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(strings.TrimSpace(string(line))) > 0 && errors.Is(err, io.EOF):
			return fmt.Errorf("the reward program ended in the middle of a line: %s", textutil.Quote(string(line), 60))
		case err != nil:
			return nil
		}
		if err := p.take(line); err != nil {
			return err
		}
		line = line[:0]
	}
}

// take reads one line. An error means that the program does not speak the protocol.
func (p *process) take(line []byte) error {
	text := strings.TrimSpace(string(line))
	if text == "" {
		return nil
	}
	if !chat.Valid([]byte(text)) || text[0] != '{' {
		return fmt.Errorf("the reward program wrote a line that is no JSON object (standard output is for answers; print to standard error): %s", textutil.Quote(text, 60))
	}
	object := gjson.Parse(text)
	select {
	case <-p.hello:
	default:
		return p.greet(object)
	}
	p.lastLine.Store(time.Now().UnixNano())
	id := object.Get("id")
	p.mu.Lock()
	waiting := p.pending[id.String()].waiting
	delete(p.pending, id.String())
	p.mu.Unlock()
	if waiting == nil || id.Type != gjson.String {
		p.errors.note("an answer to no question that waits, id %s", textutil.Shorten(id.Raw, 60))
		return nil
	}
	p.answered.Add(1)
	waiting <- readAnswer(text, object)
	return nil
}

// greet reads the program's hello.
func (p *process) greet(object gjson.Result) error {
	if object.Get("type").String() != lineHello {
		return fmt.Errorf("the reward program's first line is no hello: %s", textutil.Quote(object.Raw, 60))
	}
	if v := object.Get("protocol"); v.Type != gjson.Number || v.Num != ProtocolVersion {
		return fmt.Errorf("the reward program speaks protocol %s, this program version %d", textutil.Shorten(v.Raw, 20), ProtocolVersion)
	}
	if n := object.Get("max_in_flight"); n.Type == gjson.Number && n.Num >= 1 && n.Num < float64(cap(p.slots)) {
		p.slots = make(chan struct{}, int(n.Num))
	}
	close(p.hello)
	return nil
}

func readAnswer(text string, object gjson.Result) answer {
	if e := object.Get("error"); e.Exists() && e.Type != gjson.Null {
		message := e.String()
		if strings.TrimSpace(message) == "" {
			message = "an error without a message"
		}
		return answer{err: fmt.Errorf("the reward program reports: %s", textutil.Shorten(message, 2000))}
	}
	v, err := readVerdict([]byte(text))
	if err != nil {
		return answer{err: fmt.Errorf("the reward program's answer can't be used: %w", err)}
	}
	return answer{verdict: v}
}

// errNotAsked says that the process ended before the question could be put to it.
var errNotAsked = errors.New("the reward program ended before it could be asked")

// ask puts one question. The time limit counts from when it is handed to the process.
func (p *process) ask(ctx context.Context, in Input, timeout time.Duration) (verdict, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-p.done:
		return verdict{}, fmt.Errorf("%w: %w", errNotAsked, p.err)
	case <-ctx.Done():
		return verdict{}, context.Cause(ctx)
	}
	waiting := make(chan answer, 1)
	p.mu.Lock()
	p.count++
	id := "r" + strconv.FormatInt(p.count, 10)
	p.pending[id] = question{p.count, waiting}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.pending, id)
		p.mu.Unlock()
	}()
	sent := time.Now()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	late := func() error {
		return fmt.Errorf("the reward program did not answer within %s%s", timeout, p.errors.last())
	}
	lines := p.lines
	line := scoreLine(id, in, timeout)
	for {
		select {
		case lines <- line:
			lines = nil
			p.put.Add(1)
		case a := <-waiting:
			return a.verdict, a.err
		case <-p.done:
			select {
			case a := <-waiting:
				return a.verdict, a.err
			default:
			}
			if lines != nil {
				return verdict{}, fmt.Errorf("%w: %w", errNotAsked, p.err)
			}
			if p.isBlamed(id) {
				return verdict{}, late()
			}
			return verdict{}, &goneError{p.err}
		case <-ctx.Done():
			p.forget(id)
			return verdict{}, context.Cause(ctx)
		case <-timer.C:
			if p.lastLine.Load() >= sent.UnixNano() {
				p.forget(id) // it answers others
			} else {
				p.blame()
				p.kill(fmt.Errorf("the reward program answered nothing for %s and was ended", timeout))
				if !p.isBlamed(id) {
					<-p.done // another question held it up
					return verdict{}, &goneError{p.err}
				}
			}
			return verdict{}, late()
		}
	}
}

// blame holds the oldest question responsible for the silence: of several whose time is up at once, whichever notices first.
func (p *process) blame() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blamed != "" {
		return
	}
	oldest := int64(math.MaxInt64)
	for id, q := range p.pending {
		if q.number < oldest {
			oldest, p.blamed = q.number, id
		}
	}
}

func (p *process) isBlamed(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blamed == id
}

// forget tells the program that nobody waits for an answer any more, if it listens.
func (p *process) forget(id string) {
	select {
	case p.lines <- cancelLine(id):
	default:
	}
}

// kill ends the process and all it started. cause is what those get who wait; nil leaves it to how the process ended.
func (p *process) kill(cause error) {
	p.mu.Lock()
	if p.cause == nil {
		p.cause = cause
	}
	if !p.reaped { // afterwards the number may be another process's
		killGroup(p.cmd)
	}
	p.mu.Unlock()
	p.end()
	_ = p.stdout.Close() // a child of the program may hold the other end
}

// end closes the program's input.
func (p *process) end() { p.endOnce.Do(func() { close(p.ending) }) }

// stop lets the program end by itself, kills it when it does not, and waits.
func (p *process) stop() {
	p.end()
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.errors.note("it did not end within %s of the end of its input and was killed", p.grace)
		p.kill(errProgramClosed)
	}
	p.work.Wait()
}

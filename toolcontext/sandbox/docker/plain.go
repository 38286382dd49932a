package docker

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// plain carries out commands through the engine's exec call, for containers that
// the server can't run in. Every command costs the engine some 50 ms, scripts need
// a shell and the usual small programs in the image, and functions and aliases are
// not kept between scripts. A command that is killed takes along those daemons of
// commands beside it that began later and shed their environment and session.
type plain struct {
	provider  *Provider
	container string
	info      sandbox.Info
	user      string
	uid, gid  int
	shell     string
	main      string   // process id of the container's first shell
	baseNames []string // variables every command starts with
	at        *stream

	commands atomic.Int64
	session  chan struct{} // held while a Session script runs
	killing  chan struct{} // held while processes are looked for

	life context.Context
	end  context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // running methods and what they left reading
}

// newPlain waits for the container's first shell to say who it is.
func newPlain(ctx context.Context, p *Provider, container string, info sandbox.Info, at *stream, spec sandbox.Spec, image imageInfo) (*plain, error) {
	d := &plain{
		provider: p, container: container, info: info, user: spec.User, at: at,
		session: make(chan struct{}, 1), killing: make(chan struct{}, 1),
	}
	stop := context.AfterFunc(ctx, func() { _ = at.Close() })
	defer stop()
	lines := bufio.NewReader(io.LimitReader(at, 64<<10))
	var said [5]string
	for i := range said {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("the shell of the image %s does not answer (%s): without the server in the container there has to be a /bin/sh", info.Image, p.ending(container, at, nil).words)
		}
		said[i] = strings.TrimSuffix(line, "\n")
	}
	var err error
	d.main, d.info.Home, d.shell = said[0], said[3], said[4]
	if d.uid, err = strconv.Atoi(said[1]); err != nil {
		return nil, fmt.Errorf("the container's shell says that its user is %.40q", said[1])
	}
	if d.gid, err = strconv.Atoi(said[2]); err != nil {
		return nil, fmt.Errorf("the container's shell says that its group is %.40q", said[2])
	}
	if _, err := strconv.Atoi(d.main); err != nil || !path.IsAbs(d.info.Home) {
		return nil, fmt.Errorf("the container's shell says that it is process %.40q with the home %.200q", d.main, d.info.Home)
	}
	d.info.Dir = workDir(spec, image)
	for _, entry := range slices.Concat(image.Env, containerEnv(spec), []string{"HOME=", "HOSTNAME="}) {
		if name, _, _ := strings.Cut(entry, "="); isName(name) && !slices.Contains(d.baseNames, name) {
			d.baseNames = append(d.baseNames, name)
		}
	}
	d.life, d.end = context.WithCancelCause(context.Background())
	return d, nil
}

// Info describes the sandbox.
func (d *plain) Info() sandbox.Info { return d.info }

// begin registers a running method, which must call the returned function when done.
func (d *plain) begin() (func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, sandbox.ErrClosed
	}
	d.calls.Add(1)
	return d.calls.Done, nil
}

// Close interrupts what runs; removing the container ends it.
func (d *plain) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end(sandbox.ErrClosed)
	err := d.at.Close()
	// A call that its caller's reader holds up is not waited for beyond ctx.
	idle := make(chan struct{})
	go func() { d.calls.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	return err
}

// lost says why an engine's call failed: the container may be no more.
func (d *plain) lost(ctx context.Context, err error) error {
	if d.life.Err() != nil {
		return sandbox.ErrClosed
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), endingLimit)
	defer cancel()
	st, stateErr := d.provider.engine.inspect(bounded, d.container)
	if stateErr == nil && st.Running {
		return err
	}
	return fmt.Errorf("%w: %s", sandbox.ErrLost, describe(st, stateErr))
}

// Exec runs a command to its end; see sandbox.Sandbox.
func (d *plain) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	if err := c.Validate(); err != nil {
		return sandbox.Result{}, err
	}
	if c.Terminal != nil {
		return sandbox.Result{}, fmt.Errorf("run a command in a terminal: %w without the server in the container", sandbox.ErrUnsupported)
	}
	done, err := d.begin()
	if err != nil {
		return sandbox.Result{}, err
	}
	defer done()
	if c.Session {
		select {
		case d.session <- struct{}{}:
			defer func() { <-d.session }()
		case <-d.life.Done():
			return sandbox.Result{}, sandbox.ErrClosed
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return sandbox.Result{ExitCode: sandbox.ExitCancelled, Cancelled: true}, nil
	}
	r, err := d.run(ctx, c)
	if err != nil && !errors.Is(err, sandbox.ErrClosed) {
		err = fmt.Errorf("run a command in sandbox %s: %w", d.info.ID, err)
	}
	return r, err
}

// marker is the variable that tells a command's processes.
const marker = "HERMES_ENV_SANDBOX"

// drainLimit bounds the wait for the outputs of a command whose processes are gone.
const drainLimit = 5 * time.Second

func (d *plain) run(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	number := strconv.FormatInt(d.commands.Add(1), 10)
	mark := d.info.ID + "/" + number + "."
	file := plainDir + "/j" + number
	end, last := "end-"+rand.Text(), rand.Text()+" "
	env := []string{marker + "=" + mark}
	for name, value := range c.Env {
		if !isName(name) {
			env = append(env, name+"="+value)
		}
	}
	merge, input := "2", "0"
	if c.Merge {
		merge = "1"
	}
	if c.Stdin != nil {
		input = "9"
	}
	start := time.Now()
	id, conn, err := d.provider.engine.exec(context.WithoutCancel(ctx), d.container, execRequest{
		Args: []string{"/bin/sh", "-c", jobScript, "sh", end, number, last, merge, input, d.shell}, User: d.user, Dir: "/", Env: env,
	})
	if err != nil {
		return sandbox.Result{}, d.lost(ctx, fmt.Errorf("ask the engine for a process: %w", err))
	}
	o := newOutputs(c, last)
	stop := context.AfterFunc(d.life, func() { _ = conn.conn.Close() })
	d.calls.Add(1)
	go func() {
		defer d.calls.Done()
		o.read(conn.reader)
		stop()
		_ = conn.conn.Close() // the process and all that held its outputs have ended
	}()
	go d.feed(conn, c, d.job(c, file)+"\n"+end+"\n"+c.Script+"\n"+end+"\n")

	var expired <-chan time.Time
	if c.Timeout > 0 {
		timer := time.NewTimer(c.Timeout)
		defer timer.Stop()
		expired = timer.C
	}
	var r sandbox.Result
	select {
	case <-o.ended:
	case <-expired:
		r.TimedOut = true
	case <-ctx.Done():
		r.Cancelled = true
	case <-d.life.Done():
		return sandbox.Result{}, sandbox.ErrClosed
	}
	if r.TimedOut || r.Cancelled {
		err = d.kill(context.WithoutCancel(ctx), mark, file+".pid")
		timer := time.NewTimer(drainLimit)
		select {
		case <-o.eof:
		case <-timer.C:
		}
		timer.Stop()
		_ = conn.conn.Close() // nothing holds its outputs any more
	}
	_ = conn.closeWrite() // ends the input's copy
	r.Duration = time.Since(start)
	var code int
	r.Stdout, r.Stderr, code = o.close()
	switch {
	case r.TimedOut:
		r.ExitCode = sandbox.ExitTimeout
	case r.Cancelled:
		r.ExitCode = sandbox.ExitCancelled
	case code >= 0:
		r.ExitCode = code
	default:
		r.ExitCode, err = d.exitCode(ctx, id)
	}
	return r, err
}

// feed sends a command what it is to run, and then its input. Nobody waits for it:
// a source may block for as long as it likes.
func (d *plain) feed(conn *hijacked, c sandbox.Command, job string) {
	if _, err := io.WriteString(conn.conn, job); err != nil || c.Stdin == nil {
		return
	}
	_, _ = io.Copy(struct{ io.Writer }{conn.conn}, struct{ io.Reader }{c.Stdin}) // a command need not read its input
	_ = conn.closeWrite()
}

// exitCode asks the engine how a process ended that could not say so itself.
func (d *plain) exitCode(ctx context.Context, id string) (int, error) {
	for range 100 {
		running, code, err := d.provider.engine.execEnd(context.WithoutCancel(ctx), id)
		if d.life.Err() != nil {
			return 0, sandbox.ErrClosed
		}
		if err != nil {
			return 0, d.lost(ctx, fmt.Errorf("ask the engine how the command ended: %w", err))
		}
		if !running {
			if st, err := d.provider.engine.inspect(context.WithoutCancel(ctx), d.container); err != nil || !st.Running {
				return 0, d.lost(ctx, errors.New("the container has ended"))
			}
			return code, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return 0, errors.New("the engine does not say how the command ended")
}

// kill ends the processes of a command, or all of them, and returns when they are gone.
func (d *plain) kill(ctx context.Context, mark, pidFile string) error {
	select {
	case d.killing <- struct{}{}:
		defer func() { <-d.killing }()
	case <-d.life.Done():
		return sandbox.ErrClosed
	}
	if mark != "" {
		mark = marker + "=" + mark
	}
	// In the container of a user other than root, root has no capabilities (see plan)
	// and may neither look at that user's processes nor end them; the user may.
	user := "0"
	if d.uid != 0 {
		user = d.user
	}
	id, conn, err := d.provider.engine.exec(ctx, d.container, execRequest{
		Args: []string{"/bin/sh", "-c", killScript, "sh", mark, pidFile, d.main, marker + "=" + d.info.ID + "/"}, User: user, Dir: "/",
	})
	if err != nil {
		return d.lost(ctx, fmt.Errorf("ask the engine for a process that ends others: %w", err))
	}
	defer conn.conn.Close()
	stop := context.AfterFunc(d.life, func() { _ = conn.conn.Close() })
	defer stop()
	if _, err := io.Copy(io.Discard, conn.reader); err != nil && d.life.Err() == nil {
		return d.lost(ctx, fmt.Errorf("end the processes of sandbox %s: %w", d.info.ID, err))
	}
	code, err := d.exitCode(ctx, id)
	if err == nil && code != 0 {
		err = fmt.Errorf("processes of sandbox %s survived SIGKILL", d.info.ID)
	}
	return err
}

// KillAll ends every process but the container's own; see sandbox.Sandbox.
func (d *plain) KillAll(ctx context.Context) error {
	done, err := d.begin()
	if err != nil {
		return err
	}
	defer done()
	return d.kill(ctx, "", "")
}

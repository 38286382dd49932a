package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Options says what sandbox a client asks its server for. The zero value is usable.
type Options struct {
	// Info describes the sandbox; Home, Dir and TempDir are filled from the server's
	// answer where they are empty.
	Info sandbox.Info
	// Dir is the working directory sessions start in, which is made. Default: the
	// server's own.
	Dir string
	// Anywhere lets the server start in the root directory where Dir can't be had.
	Anywhere bool
	// Env is the environment of every command, beyond the server's own.
	Env map[string]string
	// HandshakeWait bounds the wait for the server's greeting. Default: 30 s.
	HandshakeWait time.Duration
	// EndWait bounds the wait for what the server has to do after a cancel and at
	// Close: end processes. Default: 20 s.
	EndWait time.Duration
	// Silence is how long a server may leave a question unanswered that costs it
	// nothing; then it counts as lost. It is asked every quarter of that. Default: 2 min.
	Silence time.Duration
	// Idle is how long the server lives when it hears nothing from this client, which
	// speaks to it by itself more often than that: after that long the harness is taken
	// for dead, and the sandbox ends. Default: it waits for ever.
	// The client gives the sandbox up, too, when nobody calls it or holds a lease for so long.
	Idle time.Duration
	// Expired is told of that, and must not wait for the client. Default: nobody.
	Expired func()
	// Disk is how many bytes the sandbox may write, counted by the server: where more
	// are there every process is ended, and at twice as many the sandbox. Only for a
	// server that shares its machine with nobody. Default: no limit.
	Disk int64
	// DiskSince is Server().DiskSince of the server that was there before. Default: none was.
	DiskSince int64
	// Connections, when it is set, gives the sandbox a proxy: programs find it in the
	// usual variables, and each connection to it is handed to this function, in a
	// goroutine of its own. It is to return soon when ctx ends.
	Connections func(ctx context.Context, c *Connection)
	// MaxConnections bounds those at once; more wait. Default: 64.
	MaxConnections int
	// Why is asked once why the stream has ended unexpectedly: out of memory, removed,
	// …. "" means not known. Default: nobody is asked.
	Why func() string
	// EndedInside is asked whether what ran in the sandbox has ended the server; then
	// errors wrap sandbox.ErrEndedInside as well. Default: it has not.
	EndedInside func() bool
	// Stalled is called again and again while the server leaves a question unanswered for
	// longer than stallAfter, and may end the sandbox. Default: nothing is done.
	Stalled func()
}

// Client is the harness's side of a sandbox's server: all of sandbox.Sandbox and
// sandbox.Starter; what a backend adds is to make the sandbox and to remove it.
// Once the server is gone every call wraps sandbox.ErrLost.
type Client struct {
	m       *mux
	options Options
	server  Server
	info    sandbox.Info

	received chan struct{} // closed when the receiving goroutine has ended
	watched  chan struct{} // closed when the watching goroutine has ended
	relayed  chan struct{} // closed when no connection of the sandbox is served any more
	slots    chan struct{} // requests under way
	why      func() string

	usage usage

	mu       sync.Mutex
	closed   bool
	status   Status    // what the server said last of itself
	changing int       // requests under way that may start processes
	changed  time.Time // when the last of them ended
	once     sync.Once
	err      error // of Close
}

var (
	_ sandbox.Sandbox = (*Client)(nil)
	_ sandbox.Starter = (*Client)(nil)
)

// requestSlots bounds the requests of one client under way. Cancels and kills need none.
const requestSlots = 1024

// Dial greets the server at the other end of a stream and returns its client, which
// closes the stream in the end; so does Dial when it fails. A server that is not
// there within Options.HandshakeWait, speaks another version or can't make the
// sandbox is an error.
func Dial(stream io.ReadWriteCloser, o Options) (*Client, error) {
	if o.HandshakeWait <= 0 {
		o.HandshakeWait = 30 * time.Second
	}
	if o.EndWait <= 0 {
		o.EndWait = 20 * time.Second
	}
	if o.Silence <= 0 {
		o.Silence = 2 * time.Minute
	}
	if o.MaxConnections <= 0 {
		o.MaxConnections = 64
	}
	if err := sandbox.ValidateEnv(o.Env); err != nil {
		_ = stream.Close()
		return nil, fmt.Errorf("greet the server in the sandbox: %w", err)
	}
	m := newMux(stream, stream, func() { _ = stream.Close() })
	m.client = true
	c := &Client{m: m, options: o, received: make(chan struct{}), watched: make(chan struct{}), relayed: make(chan struct{}), slots: make(chan struct{}, requestSlots)}
	c.usage.unused = time.Now()
	c.why = sync.OnceValue(func() string {
		if o.Why == nil {
			return ""
		}
		return o.Why()
	})
	timer := time.AfterFunc(o.HandshakeWait, func() {
		_ = m.fail(fmt.Errorf("no answer within %v", o.HandshakeWait))
	})
	defer timer.Stop()
	if err := c.greet(); err != nil {
		if cause := m.cause(); cause != nil {
			err = cause
		}
		_ = m.fail(err)
		if why := c.why(); why != "" {
			err = fmt.Errorf("%w (%s)", err, why)
		}
		return nil, fmt.Errorf("greet the server in the sandbox: %w", err)
	}
	go func() {
		defer close(c.received)
		_ = m.receive(nil) // the cause is kept by m
	}()
	go func() {
		defer close(c.watched)
		c.watch()
	}()
	go func() {
		defer close(c.relayed)
		if o.Connections != nil {
			c.serveConnections()
		}
	}()
	return c, nil
}

func (c *Client) greet() error {
	if err := c.m.greet(); err != nil {
		return err
	}
	o := c.options
	set := settings{id: o.Info.ID, dir: o.Dir, env: o.Env, idle: max(o.Idle, 0), disk: max(o.Disk, 0), diskSince: o.DiskSince, proxy: o.Connections != nil, anywhere: o.Anywhere}
	if err := c.m.hello(set.encode()); err != nil {
		return err
	}
	payload, err := c.m.greeted()
	if err != nil {
		return err
	}
	if c.server, err = decodeServer(payload); err != nil {
		return err
	}
	c.info = c.options.Info
	for _, f := range []struct {
		field *string
		value string
	}{{&c.info.Home, c.server.Home}, {&c.info.Dir, c.server.Dir}, {&c.info.TempDir, c.server.Tmp}} {
		if *f.field == "" {
			*f.field = f.value
		}
	}
	return nil
}

// statusEvery is the most time between two questions to the server, and stallAfter how long
// one may be unanswered before Options.Stalled is called.
const (
	statusEvery = 5 * time.Second
	stallAfter  = 20 * time.Second
)

// watchStall calls Options.Stalled every stallAfter until the function returned is called.
func (c *Client) watchStall() (stop func()) {
	if c.options.Stalled == nil {
		return func() {}
	}
	answered := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(stallAfter)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.options.Stalled()
			case <-answered:
				return
			}
		}
	})
	return func() {
		close(answered)
		watching.Wait()
	}
}

// watch asks the server now and then whether it lives, and gives it up when it does
// not answer: a machine that is frozen or gone need not end the stream.
func (c *Client) watch() {
	every := min(c.options.Silence/4, statusEvery)
	if idle := c.options.Idle; idle > 0 {
		every = max(min(every, idle/4), time.Millisecond)
	}
	pause := time.NewTicker(every)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-c.m.done:
			return
		}
		if c.expire() {
			return
		}
		// The stream may not even take the question.
		expired := time.AfterFunc(c.options.Silence, func() {
			_ = c.m.fail(fmt.Errorf("its server has not answered for %v", c.options.Silence))
		})
		stop := c.watchStall()
		asked := time.Now()
		ch, err := c.m.open(newRequest(requestPing).message())
		if err == nil {
			var answer []byte
			if answer, err = ch.message(maxStatus); err == nil {
				err = c.keepStatus(asked, &decoder{b: answer})
			}
			ch.release()
		}
		stop()
		expired.Stop()
		if err != nil {
			_ = c.m.fail(fmt.Errorf("its server does not answer: %w", err))
			return
		}
	}
}

// Server describes the server as it was when it greeted.
func (c *Client) Server() Server { return c.server }

// Info describes the sandbox.
func (c *Client) Info() sandbox.Info { return c.info }

// Done is closed when the stream has ended, for whatever reason.
func (c *Client) Done() <-chan struct{} { return c.m.done }

// begin checks that a request can be made, and waits until few enough are under way.
func (c *Client) begin(ctx context.Context) (func(), error) {
	if c.isClosed() {
		return nil, sandbox.ErrClosed
	}
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	default:
	}
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.m.done:
		return nil, c.lost(c.m.cause())
	}
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// lost gives errors of a channel their meaning for the caller.
func (c *Client) lost(err error) error {
	var f *failure
	switch {
	case err == nil, errors.As(err, &f):
		return err // the server said so: it is well
	case c.isClosed(), errors.Is(err, sandbox.ErrClosed):
		return sandbox.ErrClosed
	}
	if errors.Is(err, errHungUp) {
		err = errors.New("its server has ended")
	}
	if isProtocol(err) {
		_ = c.m.fail(err) // nothing it says can be believed any more
	}
	lost := sandbox.ErrLost
	if c.options.EndedInside != nil && c.options.EndedInside() {
		lost = fmt.Errorf("%w: %w", sandbox.ErrLost, sandbox.ErrEndedInside)
	}
	if why := c.why(); why != "" {
		return fmt.Errorf("%w: %s (%w)", lost, why, err)
	}
	return fmt.Errorf("%w: %w", lost, err)
}

func isProtocol(err error) bool { return errors.Is(err, errProtocol) }

// request sends a request and returns its channel, which the caller gives to
// finish. When ctx ends the server is told, and has EndWait to answer still.
func (c *Client) request(ctx context.Context, e *encoder) (*call, error) {
	ch, err := c.m.open(e.message())
	if err != nil {
		return nil, c.lost(err)
	}
	k := &call{channel: ch, leave: c.usage.enter()}
	k.stop = context.AfterFunc(ctx, func() {
		k.mu.Lock()
		if !k.finished {
			k.timer = time.AfterFunc(c.options.EndWait, func() {
				ch.abort(fmt.Errorf("no answer within %v of a cancel", c.options.EndWait))
			})
		}
		k.mu.Unlock()
		ch.cancel() // may have to wait for the stream
	})
	return k, nil
}

// call is a request under way.
type call struct {
	*channel
	stop     func() bool
	leave    func()
	mu       sync.Mutex
	finished bool
	timer    *time.Timer
}

// finish forgets the request. The server is told to give it up when it has not ended.
func (k *call) finish() {
	defer k.leave()
	k.stop()
	k.mu.Lock()
	k.finished = true
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	k.channel.mu.Lock()
	ended := k.inEnd != nil
	k.channel.mu.Unlock()
	if !ended {
		k.cancel()
		k.channel.stop()
	}
	k.release()
}

// answered reads the answer of a request, of at most limit bytes.
func (c *Client) answered(k *call, limit int) (*decoder, error) {
	b, err := k.message(limit)
	if err != nil {
		return nil, c.lost(err)
	}
	return &decoder{b: b}, nil
}

// ask makes a request whose answer is short, and reads it.
func (c *Client) ask(ctx context.Context, e *encoder, limit int) (*decoder, error) {
	if c.isClosed() {
		return nil, sandbox.ErrClosed
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	k, err := c.request(ctx, e)
	if err != nil {
		return nil, err
	}
	defer k.finish()
	d, err := c.answered(k, limit)
	if err != nil && errors.Is(err, context.Canceled) && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return d, err
}

// Exec runs a command to its end; see sandbox.Sandbox.
func (c *Client) Exec(ctx context.Context, cmd sandbox.Command) (sandbox.Result, error) {
	e, err := encodeChecked(requestExec, cmd)
	if err != nil {
		return sandbox.Result{}, err
	}
	return c.exec(ctx, cmd, e, 0, func(*decoder) {})
}

// exec sends the request to run a command, and reads the result and, with read, what
// follows it in at most more bytes.
func (c *Client) exec(ctx context.Context, cmd sandbox.Command, e *encoder, more int, read func(*decoder)) (sandbox.Result, error) {
	if cmd.Terminal != nil {
		return sandbox.Result{}, fmt.Errorf("%w: Terminal is only for Start", sandbox.ErrInvalidCommand)
	}
	if c.isClosed() {
		return sandbox.Result{}, sandbox.ErrClosed
	}
	cancelled := sandbox.Result{ExitCode: sandbox.ExitCancelled, Cancelled: true}
	if ctx.Err() != nil {
		return cancelled, nil
	}
	done, err := c.begin(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return cancelled, nil
		}
		return sandbox.Result{}, err
	}
	defer done()
	defer c.mayChange()()
	k, err := c.request(ctx, e)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer k.finish()
	if cmd.Stdin != nil {
		// Nobody waits for this one: its source may block for as long as it likes. The
		// end of the request ends the copy at its next write.
		go func() {
			// What a source that fails has given is all there is.
			if _, err := k.copyFrom(cmd.Stdin); !errors.Is(err, errStopped) {
				_ = k.channel.finish(nil) // a command need not read its input
			}
		}()
	}
	limit := outputLimit(cmd)
	d, err := c.answered(k, resultLimit(limit)+more)
	if err != nil {
		return sandbox.Result{}, err
	}
	r := decodeResult(d, limit)
	read(d)
	if err := d.end(); err != nil {
		return sandbox.Result{}, c.lost(err)
	}
	return r, nil
}

// encodeChecked encodes a command that is right in itself.
func encodeChecked(kind requestKind, cmd sandbox.Command) (*encoder, error) {
	if err := cmd.Validate(); err != nil {
		return nil, err
	}
	e := newRequest(kind)
	encodeCommand(e, cmd)
	if len(e.b) > maxRequest {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d; upload long text as a file", sandbox.ErrInvalidCommand, len(e.b), maxRequest)
	}
	return e, nil
}

// KillAll ends every process in the sandbox but its server; see sandbox.Sandbox.
func (c *Client) KillAll(ctx context.Context) error {
	_, err := c.ask(ctx, newRequest(requestKillAll), 0)
	return err
}

// Close ends every process in the sandbox and the server, and closes the stream.
// Calls under way return sandbox.ErrClosed. A server that does not answer within
// Options.EndWait is hung up on: then the error says so, and the backend has to end
// what is left. A second Close does nothing.
func (c *Client) Close(ctx context.Context) error {
	c.once.Do(func() { c.err = c.close(ctx) })
	return c.err
}

func (c *Client) close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	err := c.m.cause()
	if err == nil {
		err = c.sayGoodbye(ctx)
	} else {
		err = nil // it was lost before; those who asked were told
	}
	_ = c.m.fail(sandbox.ErrClosed)
	<-c.received
	<-c.watched
	<-c.relayed
	return err
}

// sayGoodbye asks the server to end everything and waits for its answer, also when
// ctx has ended.
func (c *Client) sayGoodbye(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.EndWait)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.m.fail(context.Cause(ctx)) })
	defer stop()
	ch, err := c.m.open(newRequest(requestClose).message())
	if err == nil {
		defer ch.release()
		_, err = ch.message(0)
	}
	var f *failure
	if errors.As(err, &f) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("close the sandbox: end its processes: %w", err)
	}
	return nil // anything else means that the server is gone already
}

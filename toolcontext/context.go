package toolcontext

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// Config says what a rollout works with.
type Config struct {
	Provider sandbox.Provider // creates the sandbox; required
	Spec     sandbox.Spec     // what sandbox
	Registry *tools.Registry  // every tool there is; required
	Toolset  *chat.Toolset    // what the model is offered; nil offers nothing
	Options  tools.Options    // of the built-in tools
	UserTask string           // the user's first message, for tools that summarise
	// CreateTimeout bounds the creation of the sandbox; 0 leaves it to the caller's context.
	CreateTimeout time.Duration
	// CloseTimeout bounds Seal and Cleanup, each; 0 means 30 s.
	CloseTimeout time.Duration
	// MaxReadBytes is the largest file ReadFile returns; 0 means 64 MiB.
	MaxReadBytes int
	// MaxDownloadBytes bounds what one DownloadFile or DownloadDir writes to this
	// machine: a sandbox can hold files of any size that cost it nothing. 0 means 16 GiB.
	MaxDownloadBytes int64
}

const (
	defaultCloseTimeout = 30 * time.Second
	defaultMaxReadBytes = 64 << 20
	defaultMaxDownload  = 16 << 30
	maxUserTaskChars    = 500
)

// Context is the handle on one rollout's sandbox and tools. Its methods may be
// called from many goroutines at once.
type Context struct {
	config Config
	state  *tools.State

	// lock is held while the sandbox is created, sealed or closed: a mutex whose
	// waiters can give up when their context ends.
	lock   chan struct{}
	failed error // why the sandbox could not be created; it is not tried again

	mu      sync.Mutex // guards what follows
	box     sandbox.Sandbox
	lease   func() // gives the lease on box back; nil where it has none
	closed  bool
	sealed  bool
	timings Timings
	spilled map[string]string // digest of the text by file name
	notes   map[string]string // by key

	services        []sandbox.Service // what the last seal kept
	unknownServices bool              // it could not tell which they are
	endedServices   bool              // and ended some
	endedProcesses  []sandbox.Service // what it ended
}

// Timings says where a rollout's time with its sandbox went.
type Timings struct {
	Create time.Duration // creating the sandbox
	Tools  time.Duration // running tools, without the creation of the sandbox
	Close  time.Duration // removing the sandbox
	// CreateInTools is the part of Create that happened because the agent needed
	// the sandbox, CreateOutsideTools the part that happened after Seal, because
	// the verifier did. What Open created is in neither.
	CreateInTools, CreateOutsideTools time.Duration
	Calls                             int // tool calls run
}

// New returns the Context of a new rollout. It creates no sandbox yet.
func New(c Config) (*Context, error) {
	switch {
	case c.Provider == nil:
		return nil, errors.New("make a tool context: no sandbox provider")
	case c.Registry == nil:
		return nil, errors.New("make a tool context: no tool registry")
	}
	for _, name := range c.Toolset.Names() {
		if _, ok := c.Registry.Lookup(name); !ok {
			return nil, fmt.Errorf("make a tool context: the toolset offers %q, which is not registered", name)
		}
	}
	if c.CloseTimeout <= 0 {
		c.CloseTimeout = defaultCloseTimeout
	}
	if c.MaxReadBytes <= 0 {
		c.MaxReadBytes = defaultMaxReadBytes
	}
	if c.MaxDownloadBytes <= 0 {
		c.MaxDownloadBytes = defaultMaxDownload
	}
	tc := &Context{config: c, lock: make(chan struct{}, 1)}
	tc.state = tools.NewState(tc.Sandbox, c.Options)
	if task := []rune(strings.TrimSpace(c.UserTask)); len(task) > maxUserTaskChars {
		tc.state.UserTask = string(task[:maxUserTaskChars])
	} else {
		tc.state.UserTask = string(task)
	}
	return tc, nil
}

// IsInfrastructure says whether an error means that the sandbox failed, not the
// agent and not the verifier.
func IsInfrastructure(err error) bool {
	var broken *tools.InfrastructureError
	return errors.As(err, &broken) && !errors.Is(err, sandbox.ErrEndedInside)
}

// Open creates the sandbox now instead of on first use. Its error is an *tools.InfrastructureError.
func (c *Context) Open(ctx context.Context) error {
	_, err := c.sandbox(ctx, true)
	return err
}

// Sandbox returns the rollout's one sandbox, creating it when this is the first
// use. A creation that failed is not tried again. Its error is an
// *tools.InfrastructureError; after Cleanup it wraps sandbox.ErrClosed.
func (c *Context) Sandbox(ctx context.Context) (sandbox.Sandbox, error) {
	return c.sandbox(ctx, false)
}

func (c *Context) sandbox(ctx context.Context, eager bool) (sandbox.Sandbox, error) {
	box, err := c.obtain(ctx, eager)
	if err != nil {
		return nil, &tools.InfrastructureError{Op: "open the sandbox", Err: err}
	}
	return box, nil
}

func (c *Context) obtain(ctx context.Context, eager bool) (sandbox.Sandbox, error) {
	if box, closed := c.current(); box != nil || closed {
		return open(box, closed)
	}
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	defer c.release()
	if box, closed := c.current(); box != nil || closed {
		return open(box, closed)
	}
	if c.failed != nil {
		return nil, c.failed
	}
	if c.config.CreateTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.config.CreateTimeout)
		defer cancel()
	}
	started := time.Now()
	box, err := c.config.Provider.Create(ctx, c.config.Spec)
	spent := time.Since(started)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timings.Create += spent
	switch {
	case eager:
	case c.sealed:
		c.timings.CreateOutsideTools += spent
	default:
		c.timings.CreateInTools += spent
	}
	if err != nil {
		c.failed = fmt.Errorf("create the %s sandbox: %w", c.config.Provider.Name(), err)
		return nil, c.failed
	}
	c.box = box
	if l, ok := box.(sandbox.Leaser); ok {
		c.lease = l.Lease() // however long the model thinks
	}
	if r, ok := box.(sandbox.Restarter); ok && c.sealed {
		r.AllowRestarts(false)
	}
	return box, nil
}

func open(box sandbox.Sandbox, closed bool) (sandbox.Sandbox, error) {
	if closed {
		return nil, sandbox.ErrClosed
	}
	return box, nil
}

func (c *Context) current() (sandbox.Sandbox, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.box, c.closed
}

func (c *Context) acquire(ctx context.Context) error {
	select {
	case c.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Context) release() { <-c.lock }

// Info describes the sandbox; ok is false when there is none (yet).
func (c *Context) Info() (info sandbox.Info, ok bool) {
	box, _ := c.current()
	if box == nil {
		return sandbox.Info{}, false
	}
	return box.Info(), true
}

// Events returns what happened to the sandbox beside the commands run in it.
func (c *Context) Events() []sandbox.Event {
	if box, _ := c.current(); box != nil {
		if r, ok := box.(sandbox.Restarter); ok {
			return r.Events()
		}
	}
	return nil
}

// Timings returns where the time went so far.
func (c *Context) Timings() Timings {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timings
}

// Definitions returns what the model is offered.
func (c *Context) Definitions() *chat.Toolset { return c.config.Toolset }

// ResultLimit returns the length in characters above which a tool's results are
// to be replaced by a preview: tools.NoLimit for never, 0 when the tool has no opinion.
func (c *Context) ResultLimit(tool string) int { return c.config.Registry.ResultLimit(tool) }

// Call runs a tool for the model and returns its result. A tool the model was not
// offered is a result that says so. An error means that the sandbox failed.
func (c *Context) Call(ctx context.Context, name string, arguments json.RawMessage) (string, error) {
	if !c.config.Toolset.Has(c.config.Registry.Canonical(name)) {
		return tools.ErrorResult("Unknown tool: " + name), nil
	}
	return c.call(ctx, name, arguments)
}

// CallTool runs any registered tool for a verifier, offered to the model or not,
// and returns its result as the model would see it. arguments is any value that
// encodes to a JSON object.
func (c *Context) CallTool(ctx context.Context, name string, arguments any) (string, error) {
	encoded, err := chat.Marshal(arguments)
	if err != nil {
		return "", fmt.Errorf("encode the arguments of tool %s: %w", name, err)
	}
	return c.call(ctx, name, encoded)
}

func (c *Context) call(ctx context.Context, name string, arguments json.RawMessage) (string, error) {
	before, started := c.Timings().Create, time.Now()
	result, err := c.config.Registry.Call(ctx, c.state, name, arguments)
	spent := time.Since(started)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timings.Calls++
	c.timings.Tools += max(0, spent-(c.timings.Create-before))
	return result, err
}

// Note keeps a text under a key for the rest of the rollout, for an environment that
// wants to know before the verification what was there before the agent. Neither the
// model nor the sandbox see it.
func (c *Context) Note(key, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.notes == nil {
		c.notes = map[string]string{}
	}
	c.notes[key] = text
}

// Noted returns what Note kept under a key.
func (c *Context) Noted(key string) (text string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok = c.notes[key]
	return text, ok
}

package inside_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/sandboxtest"
)

// TestMain lets the test binary be the server, and fails the package when a
// goroutine outlives the tests.
func TestMain(m *testing.M) {
	if path := os.Getenv(listenVariable); path != "" {
		os.Exit(listen(path))
	}
	if len(os.Args) > 1 && os.Args[1] == inside.Word {
		if err := furnish(); err != nil {
			fmt.Fprintln(os.Stderr, "prepare the test's server:", err)
			os.Exit(1)
		}
	}
	if handled, code := inside.Main(os.Args[1:], "test", os.Stderr); handled {
		os.Exit(code)
	}
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// provider starts servers as child processes, each in a directory tree of its own.
type provider struct {
	base string
	kind kind
	last atomic.Int64

	mu     sync.Mutex
	open   map[*child]struct{}
	closed bool
}

// child is a client whose server is a child process.
type child struct {
	*inside.Client
	p    *provider
	root string
	cmd  *exec.Cmd
	lost bool // a test has killed the server
	once sync.Once
	err  error
}

// pipes is the stream to a child process.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipes) Close() error { return errors.Join(p.WriteCloser.Close(), p.ReadCloser.Close()) }

func newProvider(tb testing.TB, k kind) *provider {
	tb.Helper()
	p := &provider{base: k.base(tb), kind: k, open: map[*child]struct{}{}}
	tb.Cleanup(func() {
		require.NoError(tb, p.Close(context.Background()))
		left, err := os.ReadDir(p.base)
		require.NoError(tb, err)
		require.Empty(tb, left, "directories left behind")
	})
	return p
}

func (p *provider) Name() string { return "inside" }

func (p *provider) Reap(context.Context) (int, error) { return 0, nil }

func (p *provider) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := sandbox.ValidateEnv(spec.Env); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, sandbox.ErrClosed
	}
	c, err := p.start(spec)
	if err != nil {
		return nil, err
	}
	p.open[c] = struct{}{}
	return c, nil
}

func (p *provider) start(spec sandbox.Spec) (*child, error) {
	id := "box" + strconv.FormatInt(p.last.Add(1), 10)
	c := &child{p: p, root: filepath.Join(p.base, id)}
	for _, dir := range []string{"home", "work", "tmp"} {
		if err := os.MkdirAll(filepath.Join(c.root, dir), 0o755); err != nil {
			return nil, err
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c.cmd = exec.Command(exe, inside.Word)
	c.cmd.Dir = filepath.Join(c.root, "work")
	c.cmd.Stderr = os.Stderr
	c.cmd.Env = []string{"GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(c.root, "home"), "TMPDIR=" + filepath.Join(c.root, "tmp")}
	if err := p.kind.apply(c.cmd, c.root); err != nil {
		return nil, err
	}
	stream, err := childStream(c.cmd)
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(err, stream.Close(), os.RemoveAll(c.root))
	}
	c.Client, err = inside.Dial(stream, inside.Options{
		Info: sandbox.Info{Backend: p.Name(), ID: p.base + "/" + id},
		Dir:  spec.Dir, Env: spec.Env, EndWait: 15 * time.Second,
	})
	if err != nil {
		return nil, errors.Join(err, c.remove())
	}
	return c, nil
}

// childStream returns pipes to a command not yet started, whose other ends it holds.
func childStream(cmd *exec.Cmd) (pipes, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return pipes{}, err
	}
	out, err := cmd.StdoutPipe()
	return pipes{out, in}, err
}

func (c *child) Close(ctx context.Context) error {
	c.once.Do(func() {
		c.err = errors.Join(c.Client.Close(ctx), c.remove())
		c.p.mu.Lock()
		delete(c.p.open, c)
		c.p.mu.Unlock()
	})
	return c.err
}

// remove waits for the server's end and removes its directories.
func (c *child) remove() error {
	timer := time.AfterFunc(20*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	var err error
	if c.cmd.ProcessState == nil {
		err = c.cmd.Wait()
	}
	if c.Client == nil || c.lost {
		err = nil // never greeted, or a test has killed it
	}
	if err != nil {
		err = fmt.Errorf("the server of %s: %w", c.root, err)
	}
	walk := filepath.WalkDir(c.root, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	return errors.Join(err, walk, os.RemoveAll(c.root))
}

func (p *provider) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	var left []*child
	for c := range p.open {
		left = append(left, c)
	}
	p.mu.Unlock()
	var errs []error
	for _, c := range left {
		errs = append(errs, c.Close(ctx))
	}
	return errors.Join(errs...)
}

// create returns a sandbox of a kind that is closed when the test ends.
func create(tb testing.TB, k kind) *child {
	tb.Helper()
	s, err := newProvider(tb, k).Create(tb.Context(), sandbox.Spec{})
	require.NoError(tb, err)
	return s.(*child)
}

// script runs a script that has to succeed and returns its output.
func (c *child) script(tb testing.TB, format string, args ...any) string {
	tb.Helper()
	r, err := c.Exec(tb.Context(), sandbox.Command{Script: fmt.Sprintf(format, args...)})
	require.NoError(tb, err)
	require.Zero(tb, r.ExitCode, "%v", r)
	return r.Stdout.String()
}

// each runs a test against every kind of server.
func each(t *testing.T, test func(t *testing.T, c *child)) {
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			if name != "a child" {
				slowtest.Require(t)
			}
			t.Parallel()
			test(t, create(t, k))
		})
	}
}

func TestConformance(t *testing.T) {
	for name, k := range kinds() {
		options := sandboxtest.Options{GroupsOnly: runtime.GOOS != "linux"}
		if name != "a child" || !slowtest.All(t) { // what another place among the processes can touch
			options.Only, options.Short = []string{"endings", "streams", "life", "processes"}, true
		}
		t.Run(name, func(t *testing.T) {
			if name != "a child" {
				slowtest.Require(t)
			}
			t.Parallel()
			sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return newProvider(t, k) }, options)
		})
	}
}

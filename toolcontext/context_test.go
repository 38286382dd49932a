package toolcontext_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// counted counts what a provider is asked for and can be made to fail or to wait.
type counted struct {
	sandbox.Provider
	mu      sync.Mutex
	creates int
	fail    error
	wait    time.Duration
}

func (c *counted) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	c.mu.Lock()
	c.creates++
	c.mu.Unlock()
	if c.wait > 0 {
		select {
		case <-time.After(c.wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if c.fail != nil {
		return nil, c.fail
	}
	return c.Provider.Create(ctx, spec)
}

func newProvider(t *testing.T) *counted {
	provider, err := local.New(local.Config{BaseDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, provider.Close(context.Background())) })
	return &counted{Provider: provider}
}

func newContext(t *testing.T, provider sandbox.Provider, toolsets ...string) *toolcontext.Context {
	t.Helper()
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(t, err)
	chosen, err := registry.Resolve(tools.Selection{Enabled: toolsets}, nil)
	require.NoError(t, err)
	tc, err := toolcontext.New(toolcontext.Config{Provider: provider, Spec: sandbox.Spec{Rollout: "r1"}, Registry: registry, Toolset: chosen.Toolset})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tc.Cleanup(context.Background())) })
	return tc
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(t, err)
	foreign, err := chat.NewToolset(chat.ToolDefinition{Name: "submit"})
	require.NoError(t, err)
	_, err = toolcontext.New(toolcontext.Config{Registry: registry})
	require.ErrorContains(t, err, "no sandbox provider")
	_, err = toolcontext.New(toolcontext.Config{Provider: newProvider(t)})
	require.ErrorContains(t, err, "no tool registry")
	_, err = toolcontext.New(toolcontext.Config{Provider: newProvider(t), Registry: registry, Toolset: foreign})
	require.ErrorContains(t, err, `offers "submit", which is not registered`)
}

func TestTheSandboxIsCreatedOnFirstUseAndOnlyOnce(t *testing.T) {
	provider := newProvider(t)
	tc := newContext(t, provider)
	_, ok := tc.Info()
	require.False(t, ok)
	result, err := tc.Call(context.Background(), "todo", nil)
	require.NoError(t, err)
	require.Contains(t, result, `"todos":[]`)
	require.Zero(t, provider.creates, "a tool that needs no sandbox makes none")

	var calls errgroup.Group
	for i := range 16 {
		calls.Go(func() error {
			_, err := tc.Call(context.Background(), "terminal", json.RawMessage(fmt.Sprintf(`{"command":"echo %d >> all"}`, i)))
			return err
		})
	}
	require.NoError(t, calls.Wait())
	content, err := tc.ReadFile(context.Background(), "all")
	require.NoError(t, err)
	require.Equal(t, 16, strings.Count(string(content), "\n"))
	require.NoError(t, tc.Open(context.Background()))
	require.Equal(t, 1, provider.creates)
	info, ok := tc.Info()
	require.True(t, ok)
	require.Equal(t, "local", info.Backend)
}

func TestAFailedCreationIsInfrastructureAndNotTriedAgain(t *testing.T) {
	provider := newProvider(t)
	provider.fail = errors.New("no space left")
	tc := newContext(t, provider)
	for range 2 {
		_, err := tc.Call(context.Background(), "terminal", json.RawMessage(`{"command":"true"}`))
		require.True(t, toolcontext.IsInfrastructure(err))
		require.ErrorContains(t, err, "create the local sandbox: no space left")
	}
	require.True(t, toolcontext.IsInfrastructure(tc.Open(context.Background())))
	_, err := tc.Sandbox(context.Background())
	require.True(t, toolcontext.IsInfrastructure(err))
	_, err = tc.Spill(context.Background(), "terminal", "id", "text")
	require.True(t, toolcontext.IsInfrastructure(err))
	_, err = tc.ReadFile(context.Background(), "x")
	require.True(t, toolcontext.IsInfrastructure(err))
	require.Equal(t, 1, provider.creates)
	require.False(t, toolcontext.IsInfrastructure(errors.New("something else")))
}

func TestTheModelReachesOnlyWhatItWasOfferedAndTheVerifierEverything(t *testing.T) {
	tc := newContext(t, newProvider(t), "todo")
	require.Equal(t, []string{"todo"}, tc.Definitions().Names())
	result, err := tc.Call(context.Background(), "terminal", json.RawMessage(`{"command":"touch ran"}`))
	require.NoError(t, err)
	require.Equal(t, `{"error":"Unknown tool: terminal"}`, result)
	result, err = tc.Call(context.Background(), "todo_list", nil)
	require.NoError(t, err)
	require.Contains(t, result, "revision")
	result, err = tc.CallTool(context.Background(), "terminal", map[string]string{"command": "ls; echo '<&>'"})
	require.NoError(t, err)
	require.Equal(t, `{"output":"<&>","exit_code":0,"error":null}`, result)
	result, err = tc.CallTool(context.Background(), "nope", nil)
	require.NoError(t, err)
	require.Equal(t, `{"error":"Unknown tool: nope"}`, result)
	_, err = tc.CallTool(context.Background(), "terminal", make(chan int))
	require.ErrorContains(t, err, "encode the arguments of tool terminal")
	require.Equal(t, tools.NoLimit, tc.ResultLimit("read_file"))
}

func TestAfterSealNothingOfTheAgentsSessionMatters(t *testing.T) {
	tc, ctx := newContext(t, newProvider(t)), context.Background()
	agent := func(command string) {
		arguments, err := chat.Marshal(map[string]string{"command": command})
		require.NoError(t, err)
		_, err = tc.Call(ctx, "terminal", arguments)
		require.NoError(t, err)
	}
	agent(`mkdir -p forged sub && printf '#!/bin/sh\necho forged\n' > forged/id && chmod +x forged/id
export PATH="$PWD/forged:$PATH" REWARD=1; id() { echo forged; }; export -f id 2>/dev/null; cd sub`)
	agent(`(while :; do date > ../alive; sleep 0.05; done > /dev/null 2>&1 &)`)
	before, err := tc.Terminal(ctx, "id; pwd", 0)
	require.NoError(t, err)
	require.Contains(t, before.Output, "forged")
	require.Contains(t, before.Output, "/sub")

	require.NoError(t, tc.Seal(ctx))
	after, err := tc.Terminal(ctx, `id; pwd; echo "[$REWARD]"; rm -f alive; sleep 0.3; ls`, 0)
	require.NoError(t, err)
	info, _ := tc.Info()
	require.NotContains(t, after.Output, "forged\n"+info.Dir)
	require.Regexp(t, `(?s)^uid=.*\n`+info.Dir+`\n\[\]\nforged\nsub$`, after.Output)
	raw, err := tc.CallTool(ctx, "terminal", map[string]string{"command": "pwd"})
	require.NoError(t, err)
	require.Equal(t, info.Dir, gjson.Get(raw, "output").String())
	require.NoError(t, tc.WriteFile(ctx, "rel/f", []byte("x")))
	content, err := os.ReadFile(filepath.Join(info.Dir, "rel/f"))
	require.NoError(t, err)
	require.Equal(t, "x", string(content))
	for range 5 {
		raw, err = tc.CallTool(ctx, "read_file", map[string]string{"path": "rel/f"})
		require.NoError(t, err)
		require.Equal(t, "1|x", gjson.Get(raw, "content").String(), "a verifier may read as often as it likes")
	}
	require.NoError(t, tc.Seal(ctx))
}

func TestTerminalForVerifiersTellsAnInterruptionFromAnAnswer(t *testing.T) {
	tc := newContext(t, newProvider(t))
	ctx, cancel := context.WithTimeoutCause(context.Background(), 100*time.Millisecond, errors.New("verification took too long"))
	defer cancel()
	require.NoError(t, tc.Open(context.Background()))
	_, err := tc.Terminal(ctx, "echo 1; sleep 60", time.Minute)
	require.ErrorContains(t, err, "verification took too long")
	result, err := tc.Terminal(context.Background(), "echo partial; sleep 60", time.Second)
	require.NoError(t, err)
	require.True(t, result.TimedOut)
	require.Equal(t, sandbox.ExitTimeout, result.ExitCode)
	long, err := tc.Terminal(context.Background(), "head -c 300000 /dev/zero | tr '\\0' x", 0)
	require.NoError(t, err)
	require.Len(t, long.Output, 300000, "a verifier sees more than a model does")
}

func TestVerifiersReadWriteAndSearchExactly(t *testing.T) {
	tc, ctx := newContext(t, newProvider(t)), context.Background()
	content := []byte("\x00\xff\r\nline\n")
	require.NoError(t, tc.WriteFile(ctx, "~/d/bytes", content))
	got, err := tc.ReadFile(ctx, "~/d/bytes")
	require.NoError(t, err)
	require.Equal(t, content, got)
	_, err = tc.ReadFile(ctx, "~/absent")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = tc.ReadFile(ctx, "a.txt/below")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = tc.Terminal(ctx, "mkdir dir; mkfifo pipe; ln -s dir dirlink; ln -s ~/d/bytes link; ln -s link link2; ln -s loop loop", 0)
	require.NoError(t, err)
	for _, name := range []string{"dir", "pipe", "dirlink", "/dev/zero"} {
		_, err = tc.ReadFile(ctx, name)
		require.ErrorIs(t, err, toolcontext.ErrNotRegular, name)
		require.False(t, toolcontext.IsInfrastructure(err), name)
	}
	_, err = tc.ReadFile(ctx, "loop")
	require.Error(t, err)
	require.False(t, toolcontext.IsInfrastructure(err))
	got, err = tc.ReadFile(ctx, "link2")
	require.NoError(t, err)
	require.Equal(t, content, got)
	require.NoError(t, tc.WriteFile(ctx, "a.txt", []byte("one\ntwo\n")))
	found, err := tc.Search(ctx, "t.o", ".")
	require.NoError(t, err)
	require.Equal(t, []tools.SearchMatch{{Path: "a.txt", Line: 2, Content: "two"}}, found.Matches)
	_, err = tc.Search(ctx, "x", "nowhere")
	require.ErrorContains(t, err, "Path not found: nowhere")
	require.Error(t, tc.WriteFile(ctx, ".", nil))
}

func TestReadingAFileDoesNotTrustTheAgentsPrograms(t *testing.T) {
	tc, ctx := newContext(t, newProvider(t)), context.Background()
	require.NoError(t, tc.WriteFile(ctx, "reward", []byte("0")))
	info, _ := tc.Info()
	forged := filepath.Join(info.Home, "bin")
	require.NoError(t, os.MkdirAll(forged, 0o755))
	for _, name := range []string{"cat", "sh", "head", "tar"} {
		require.NoError(t, os.WriteFile(filepath.Join(forged, name), []byte("#!/bin/sh\necho 1\n"), 0o755))
	}
	_, err := tc.CallTool(ctx, "terminal", map[string]string{"command": "export PATH=~/bin:$PATH; cat() { echo 1; }"})
	require.NoError(t, err)
	require.NoError(t, tc.Seal(ctx))
	content, err := tc.ReadFile(ctx, "reward")
	require.NoError(t, err)
	require.Equal(t, "0", string(content))
}

func TestFilesHandedOutAsLinksAreFollowed(t *testing.T) {
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(t, err)
	provider := &counted{Provider: linked{files: map[string]string{"/w/f": "-> ../x/g", "/w/../x/g": "-> /h", "/h": "found", "/loop": "-> loop", "/big": strings.Repeat("x", 11)}}}
	tc, err := toolcontext.New(toolcontext.Config{Provider: provider, Registry: registry, MaxReadBytes: 10})
	require.NoError(t, err)
	content, err := tc.ReadFile(t.Context(), "/w/f")
	require.NoError(t, err)
	require.Equal(t, "found", string(content))
	_, err = tc.ReadFile(t.Context(), "/loop")
	require.ErrorIs(t, err, toolcontext.ErrNotRegular)
	_, err = tc.ReadFile(t.Context(), "/big")
	require.ErrorContains(t, err, "11 bytes, at most 10")
	_, err = tc.ReadFile(t.Context(), "/lost")
	require.True(t, toolcontext.IsInfrastructure(err))
}

// linked is a provider of sandboxes that hand out links as links, as Docker does.
type linked struct {
	sandbox.Provider
	files map[string]string
}

func (l linked) Name() string { return "linked" }

func (l linked) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return linkedBox{files: l.files}, nil
}

type linkedBox struct {
	sandbox.Sandbox
	files map[string]string
}

func (linkedBox) Info() sandbox.Info { return sandbox.Info{Dir: "/w"} }

func (linkedBox) Exec(context.Context, sandbox.Command) (sandbox.Result, error) {
	return sandbox.Result{}, errors.New("connection lost")
}

func (b linkedBox) Download(_ context.Context, name string) (io.ReadCloser, error) {
	content, ok := b.files[name]
	if !ok {
		return nil, errors.New("connection lost")
	}
	header := &tar.Header{Name: "f", Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(content))}
	if target, ok := strings.CutPrefix(content, "-> "); ok {
		header.Typeflag, header.Linkname, header.Size, content = tar.TypeSymlink, target, 0, ""
	}
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	if err := archive.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := archive.Write([]byte(content)); err != nil {
		return nil, err
	}
	return io.NopCloser(&buffer), archive.Close()
}

func TestSpilledResultsCanBeReadBack(t *testing.T) {
	tc, ctx := newContext(t, newProvider(t)), context.Background()
	text := strings.Repeat("line é\n", 30_000)
	info := func() sandbox.Info { i, _ := tc.Info(); return i }
	path, err := tc.Spill(ctx, "terminal", "call_1", text)
	require.NoError(t, err)
	require.Equal(t, "call_1.txt", filepath.Base(path))
	require.True(t, strings.HasSuffix(filepath.Dir(path), "/hermes-results"))
	back, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(back))
	seen := map[string]bool{path: true}
	for _, id := range []string{"../../etc/passwd", "..", "-rf", "a b/c", strings.Repeat("x", 300), "", "call_1", "日本"} {
		path, err := tc.Spill(ctx, "terminal", id, "other "+id)
		require.NoError(t, err)
		require.Equal(t, filepath.Clean(info().TempDir)+"/hermes-results", filepath.Dir(path), id)
		require.LessOrEqual(t, len(filepath.Base(path)), 160)
		require.False(t, seen[path], "results don't overwrite each other: %s", path)
		seen[path] = true
	}
	again, err := tc.Spill(ctx, "terminal", "call_1", text)
	require.NoError(t, err)
	require.Equal(t, path, again)
}

func TestCleanupRemovesTheSandboxAlsoAfterACancel(t *testing.T) {
	provider := newProvider(t)
	tc := newContext(t, provider)
	require.NoError(t, tc.Open(context.Background()))
	info, _ := tc.Info()
	require.DirExists(t, info.Dir)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, tc.Cleanup(ctx))
	require.NoDirExists(t, info.Dir)
	require.NoError(t, tc.Cleanup(ctx))
	_, err := tc.Call(context.Background(), "terminal", json.RawMessage(`{"command":"true"}`))
	require.ErrorIs(t, err, sandbox.ErrClosed)
	require.True(t, toolcontext.IsInfrastructure(err))
	require.NoError(t, newContext(t, provider).Cleanup(context.Background()), "nothing was created")
}

func TestTimingsTellCreationFromWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &counted{Provider: idle{}, wait: 5 * time.Second}
		registry, err := tools.NewRegistry(tools.Builtin()...)
		require.NoError(t, err)
		offered, err := registry.Definitions("terminal")
		require.NoError(t, err)
		tc, err := toolcontext.New(toolcontext.Config{Provider: provider, Registry: registry, Toolset: offered})
		require.NoError(t, err)
		_, err = tc.Call(t.Context(), "terminal", json.RawMessage(`{"command":"true"}`))
		require.NoError(t, err)
		require.NoError(t, tc.Cleanup(t.Context()))
		require.Equal(t, toolcontext.Timings{Create: 5 * time.Second, CreateInTools: 5 * time.Second, Tools: 2 * time.Second, Close: time.Second, Calls: 1}, tc.Timings())

		late, err := toolcontext.New(toolcontext.Config{Provider: provider, Registry: registry})
		require.NoError(t, err)
		require.NoError(t, late.Seal(t.Context()))
		_, err = late.Terminal(t.Context(), "true", 0)
		require.NoError(t, err)
		require.Equal(t, toolcontext.Timings{Create: 5 * time.Second, CreateOutsideTools: 5 * time.Second}, late.Timings())
	})
}

func TestCreationHasALimitOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, err := tools.NewRegistry(tools.Builtin()...)
		require.NoError(t, err)
		tc, err := toolcontext.New(toolcontext.Config{Provider: &counted{Provider: idle{}, wait: time.Hour}, Registry: registry, CreateTimeout: time.Minute})
		require.NoError(t, err)
		started := time.Now()
		require.ErrorIs(t, tc.Open(t.Context()), context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(started))
	})
}

// idle is a provider whose sandboxes take two seconds for every command.
type idle struct{ sandbox.Provider }

func (idle) Name() string { return "idle" }

func (idle) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) { return idleBox{}, nil }

type idleBox struct{ sandbox.Sandbox }

func (idleBox) Exec(context.Context, sandbox.Command) (sandbox.Result, error) {
	time.Sleep(2 * time.Second)
	return sandbox.Result{}, nil
}

func (idleBox) Info() sandbox.Info { return sandbox.Info{Dir: "/", TempDir: "/tmp"} }

func (idleBox) Close(context.Context) error {
	time.Sleep(time.Second)
	return nil
}

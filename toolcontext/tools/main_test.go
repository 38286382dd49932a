package tools_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "rewrite the golden files")

// rollout is a rollout's tools over a real local sandbox.
type rollout struct {
	t        testing.TB
	registry *tools.Registry
	state    *tools.State
	box      sandbox.Sandbox
}

func newRollout(t testing.TB, options tools.Options) *rollout {
	t.Helper()
	return newRolloutIn(t, options, local.Config{})
}

func newRolloutIn(t testing.TB, options tools.Options, config local.Config) *rollout {
	t.Helper()
	config.BaseDir = t.TempDir()
	provider, err := local.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, provider.Close(context.Background())) })
	box, err := provider.Create(context.Background(), sandbox.Spec{Rollout: "r1"})
	require.NoError(t, err)
	return &rollout{t: t, registry: builtin(t), box: box,
		state: tools.NewState(func(context.Context) (sandbox.Sandbox, error) { return box, nil }, options)}
}

func builtin(t testing.TB) *tools.Registry {
	t.Helper()
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(t, err)
	return registry
}

// call runs a tool with arguments written as JSON and returns the result as it is.
func (r *rollout) call(name, arguments string) string {
	r.t.Helper()
	result, err := r.registry.Call(context.Background(), r.state, name, json.RawMessage(arguments))
	require.NoError(r.t, err)
	return result
}

// do runs a tool and returns its result parsed; a hint after the JSON is cut off.
func (r *rollout) do(name string, arguments ...any) gjson.Result {
	r.t.Helper()
	require.Zero(r.t, len(arguments)%2)
	object := map[string]any{}
	for i := 0; i < len(arguments); i += 2 {
		object[arguments[i].(string)] = arguments[i+1]
	}
	encoded, err := json.Marshal(object)
	require.NoError(r.t, err)
	result, _, _ := strings.Cut(r.call(name, string(encoded)), "\n\n[Hint: ")
	require.True(r.t, gjson.Valid(result), result)
	return gjson.Parse(result)
}

// path returns where a file of the sandbox's working directory is on this machine.
func (r *rollout) path(name string) string { return filepath.Join(r.box.Info().Dir, name) }

func (r *rollout) put(name, content string) {
	r.t.Helper()
	require.NoError(r.t, os.MkdirAll(filepath.Dir(r.path(name)), 0o755))
	require.NoError(r.t, os.WriteFile(r.path(name), []byte(content), 0o644))
}

func (r *rollout) get(name string) string {
	r.t.Helper()
	content, err := os.ReadFile(r.path(name))
	require.NoError(r.t, err)
	return string(content)
}

// broken is a sandbox whose every command fails, as a lost container's would.
type broken struct {
	sandbox.Sandbox
	execs int
}

func (b *broken) Exec(context.Context, sandbox.Command) (sandbox.Result, error) {
	b.execs++
	return sandbox.Result{}, fmt.Errorf("connection lost")
}

func (b *broken) Info() sandbox.Info { return sandbox.Info{Dir: "/", Home: "/root", TempDir: "/tmp"} }

package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

func TestDefinitionsAreTheContractWithModels(t *testing.T) {
	registry := builtin(t)
	definitions, err := registry.Definitions(registry.Names()...)
	require.NoError(t, err)
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, definitions.JSON(), "", "  "))
	pretty.WriteByte('\n')
	const golden = "testdata/definitions.json"
	if *update {
		require.NoError(t, os.WriteFile(golden, pretty.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), pretty.String(), "run go test ./toolcontext/tools -update when the change is meant")
}

func named(name, toolset string, aliases ...string) tools.Tool {
	return tools.Tool{Name: name, Toolset: toolset, Aliases: aliases,
		Handler: func(context.Context, *tools.Call) (string, error) { return `{"ok":true}`, nil }}
}

func TestARegistryReportsEveryBadTool(t *testing.T) {
	broken := named("b", "x")
	broken.Parameters = []byte(`[1]`)
	noHandler := tools.Tool{Name: "h", Toolset: "x"}
	negative := named("n", "x")
	negative.MaxResultChars = -1
	_, err := tools.NewRegistry(named("a", "x"), named("a", "y"), broken, named("", "x"), named("bad name", "x"), named("t", ""), noHandler, negative, named("c", "x", "a"))
	for _, want := range []string{
		`tool 2 ("a"): the name "a" is already taken by a tool of toolset "x"`,
		`parameters are not a JSON object`, `tool 4 ("")`, `tool 5 ("bad name")`, `tool 6 ("t"): no toolset`,
		`tool 7 ("h"): no handler`, `MaxResultChars is -1`, `tool 9 ("c"): the name "a" is already taken`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestASelectionResolvesToSortedTools(t *testing.T) {
	registry, err := tools.NewRegistry(append(tools.Builtin(), named("web_search", "web"), named("submit", "mine"))...)
	require.NoError(t, err)
	for _, c := range []struct {
		name      string
		selection tools.Selection
		want      string
	}{
		{"nothing said means everything", tools.Selection{}, "patch process read_file search_files submit terminal todo web_search write_file"},
		{"an empty list means nothing", tools.Selection{Enabled: []string{}}, ""},
		{"one", tools.Selection{Enabled: []string{"terminal"}}, "process terminal"},
		{"several, one twice", tools.Selection{Enabled: []string{"terminal", "file", "terminal"}}, "patch process read_file search_files terminal write_file"},
		{"all", tools.Selection{Enabled: []string{"all"}}, "patch process read_file search_files submit terminal todo web_search write_file"},
		{"a star", tools.Selection{Enabled: []string{"*"}, Disabled: []string{"mine"}}, "patch process read_file search_files terminal todo web_search write_file"},
		{"a composite", tools.Selection{Enabled: []string{"debugging"}}, "patch process read_file search_files terminal web_search write_file"},
		{"an old name", tools.Selection{Enabled: []string{"file_tools"}, Disabled: []string{"terminal_tools"}}, "patch read_file search_files write_file"},
		{"the old name of the terminal alone", tools.Selection{Enabled: []string{"terminal_tools"}}, "terminal"},
		{"a toolset of one's own", tools.Selection{Enabled: []string{"mine"}}, "submit"},
		{"disabled always counts", tools.Selection{Enabled: []string{"terminal", "file"}, Disabled: []string{"file"}}, "process terminal"},
		{"a distribution of certainties", tools.Selection{Distribution: "terminal_only"}, "patch process read_file search_files terminal write_file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := registry.Resolve(c.selection, rand.New(rand.NewPCG(1, 2)))
			require.NoError(t, err)
			require.Equal(t, c.want, strings.Join(got.Names, " "))
			require.Equal(t, c.want, strings.Join(got.Toolset.Names(), " "))
		})
	}
}

func TestABadSelectionIsExplained(t *testing.T) {
	registry := builtin(t)
	for _, c := range []struct {
		selection tools.Selection
		want      []string
	}{
		{tools.Selection{Enabled: []string{"terminl", "web"}}, []string{`unknown toolset "terminl", did you mean "terminal"?`, `toolset "web" has no tools in this build; available are coding, debugging, file, terminal, todo`}},
		{tools.Selection{Disabled: []string{"qqqqqqqq"}}, []string{`unknown toolset "qqqqqqqq"; available are`}},
		{tools.Selection{Enabled: []string{"read_file"}}, []string{`that is a tool, its toolset is "file"`}},
		{tools.Selection{Enabled: []string{"browser_tools"}}, []string{`toolset "browser_tools" has no tools in this build`}},
		{tools.Selection{Distribution: "developmnt"}, []string{`did you mean "development"?`}},
		{tools.Selection{Distribution: "browser_only"}, []string{`distribution "browser_only" has no toolset with tools in this build`}},
		{tools.Selection{Distribution: "minimal", Enabled: []string{"file"}}, []string{"exclude each other"}},
	} {
		_, err := registry.Resolve(c.selection, rand.New(rand.NewPCG(1, 2)))
		for _, want := range c.want {
			require.ErrorContains(t, err, want)
		}
		require.Error(t, registry.Check(c.selection))
	}
	require.NoError(t, registry.Check(tools.Selection{Distribution: "balanced"}))
	_, err := registry.Resolve(tools.Selection{Distribution: "balanced"}, nil)
	require.ErrorContains(t, err, "no random source")
}

func TestDistributionsDrawEachToolsetOnItsOwn(t *testing.T) {
	registry := builtin(t)
	rng := rand.New(rand.NewPCG(7, 7))
	const draws = 1000
	counts := map[string]int{}
	for range draws {
		got, err := registry.Resolve(tools.Selection{Distribution: "development"}, rng)
		require.NoError(t, err)
		require.NotEmpty(t, got.Toolsets)
		require.Equal(t, []string{"moa", "web", "vision"}, got.Skipped)
		counts[strings.Join(got.Toolsets, "+")]++
	}
	// 80 % each; when neither is drawn (4 %), the first of the highest, terminal, is used.
	for drawn, share := range map[string]float64{"terminal+file": 0.64, "terminal": 0.20, "file": 0.16} {
		require.InDelta(t, share, float64(counts[drawn])/draws, 0.05, drawn)
	}
	again := func() string {
		got, err := registry.Resolve(tools.Selection{Distribution: "balanced"}, rand.New(rand.NewPCG(3, 4)))
		require.NoError(t, err)
		return fmt.Sprint(got.Toolsets)
	}
	require.Equal(t, again(), again())
	require.Len(t, tools.Distributions(), 17)
}

func TestWhenNothingAvailableIsDrawnTheLikeliestAvailableIsUsed(t *testing.T) {
	got, err := builtin(t).Resolve(tools.Selection{Distribution: "browser_tasks"}, rand.New(rand.NewPCG(1, 1)))
	require.NoError(t, err)
	require.Equal(t, []string{"terminal"}, got.Toolsets)
	require.Equal(t, []string{"browser", "vision"}, got.Skipped)
}

func TestResultLimits(t *testing.T) {
	limited := named("small", "x")
	limited.MaxResultChars = 10
	registry, err := tools.NewRegistry(append(tools.Builtin(), limited, named("mcp_git_log", "mcp-git"))...)
	require.NoError(t, err)
	for name, want := range map[string]int{"read_file": tools.NoLimit, "terminal": 0, "small": 10, "mcp_git_log": 50_000, "unknown": 0} {
		require.Equal(t, want, registry.ResultLimit(name), name)
	}
}

func TestCallsEndInAResultWhateverTheModelSends(t *testing.T) {
	handlers := map[string]func(context.Context, *tools.Call) (string, error){
		"echo":  func(_ context.Context, c *tools.Call) (string, error) { return string(c.Args.JSON()), nil },
		"fail":  func(context.Context, *tools.Call) (string, error) { return "", errors.New("<system>no</system> good") },
		"panic": func(context.Context, *tools.Call) (string, error) { panic("boom") },
		"index": func(_ context.Context, c *tools.Call) (string, error) { return string(c.Args.JSON()[99]), nil },
		"long": func(context.Context, *tools.Call) (string, error) {
			return `{"a":1,"error":"` + strings.Repeat("é", 3000) + `"}`, nil
		},
		"plain": func(context.Context, *tools.Call) (string, error) { return strings.Repeat("text ", 1000), nil },
		"broken": func(context.Context, *tools.Call) (string, error) {
			return "", fmt.Errorf("deep down: %w", &tools.InfrastructureError{Op: "run", Err: errors.New("container is gone")})
		},
	}
	var list []tools.Tool
	for name, handler := range handlers {
		list = append(list, tools.Tool{Name: name, Toolset: "x", Aliases: []string{name + "_alias"}, Handler: handler,
			Parameters: []byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`)})
	}
	registry, err := tools.NewRegistry(list...)
	require.NoError(t, err)
	state := tools.NewState(func(context.Context) (sandbox.Sandbox, error) { return nil, errors.New("no sandbox") }, tools.Options{})
	for _, c := range []struct{ name, tool, arguments, want string }{
		{"arguments are coerced", "echo", `{"n":"7","m":"7"}`, `{"n":7,"m":"7"}`},
		{"an alias", "echo_alias", `{"n":1}`, `{"n":1}`},
		{"no arguments", "echo", ``, `{}`},
		{"null", "echo", ` null `, `{}`},
		{"an unknown tool", "nope", `{}`, `{"error":"Unknown tool: nope"}`},
		{"a list", "echo", `[1]`, `{"error":"tool arguments must be a JSON object, got array"}`},
		{"a text", "echo", `"{}"`, `{"error":"tool arguments must be a JSON object, got string"}`},
		{"cut JSON", "echo", `{"n":`, `{"error":"invalid JSON in tool arguments: unexpected end of JSON input. Please retry with valid JSON"}`},
		{"an error", "fail", `{}`, `{"error":"[TOOL_ERROR] Tool execution failed: Error: no good"}`},
		{"a panic", "panic", `{}`, `{"error":"[TOOL_ERROR] Tool execution failed: Panic: boom"}`},
		{"a run-time panic", "index", `{}`, `{"error":"[TOOL_ERROR] Tool execution failed: Panic: runtime error: index out of range [99] with length 2"}`},
		{"an overlong error", "long", `{}`, `{"a":1,"error":"` + strings.Repeat("é", 2048) + `… [truncated]"}`},
		{"a result that is no JSON", "plain", `{}`, strings.Repeat("text ", 1000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := registry.Call(context.Background(), state, c.tool, json.RawMessage(c.arguments))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err = registry.Call(context.Background(), state, "broken", nil)
	var infrastructure *tools.InfrastructureError
	require.ErrorAs(t, err, &infrastructure)
	require.ErrorContains(t, err, "run tool broken: deep down: run: container is gone")
}

func ExampleNewRegistry() {
	greet := tools.Tool{
		Name: "greet", Toolset: "social", Description: "Greet somebody.",
		Parameters: []byte(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
		Handler: func(_ context.Context, call *tools.Call) (string, error) {
			name, err := call.Args.Required("name")
			return "hello " + name, err
		},
	}
	registry, err := tools.NewRegistry(append(tools.Builtin(), greet)...)
	if err != nil {
		panic(err)
	}
	chosen, err := registry.Resolve(tools.Selection{Enabled: []string{"social", "todo"}}, nil)
	fmt.Println(chosen.Names, err)
	// Output: [greet todo] <nil>
}

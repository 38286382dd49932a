package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Tool is one function the model can call.
type Tool struct {
	Name        string
	Toolset     string   // the one toolset that owns the tool
	Aliases     []string // other names accepted in calls, never shown to the model
	Description string
	// Parameters is the JSON schema of the arguments, an object whose key order is
	// what the model sees; empty means no parameters.
	Parameters json.RawMessage
	// Handler runs the tool and returns its result, normally a JSON object. An
	// error becomes an error result for the model, except an *InfrastructureError,
	// which ends the rollout.
	Handler func(ctx context.Context, call *Call) (string, error)
	// MaxResultChars is the length in characters above which a result is replaced
	// by a preview: 0 leaves it to the loop, NoLimit never replaces it.
	MaxResultChars int
}

// NoLimit as MaxResultChars keeps results whole whatever their length.
const NoLimit = math.MaxInt

// mcpResultChars is the threshold of tools that an MCP server provides.
const mcpResultChars = 50_000

// Call is one tool call as its handler sees it.
type Call struct {
	Tool  string    // the registered name
	Args  Arguments // coerced to the tool's schema
	State *State    // what the tools of this rollout share
}

// Registry is an immutable set of tools. It may be used from many goroutines at once.
type Registry struct {
	tools  map[string]*entry // by name and by alias
	names  []string          // sorted, without aliases
	owners map[string][]string
}

type entry struct {
	Tool
	schema *schema
}

// NewRegistry checks the tools and reports every problem found: a missing name,
// toolset or handler, a name used twice, parameters that are not a JSON object.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{tools: make(map[string]*entry), owners: make(map[string][]string)}
	var problems []error
	for i, t := range tools {
		e, err := newEntry(t)
		if err != nil {
			problems = append(problems, fmt.Errorf("tool %d (%q): %w", i+1, t.Name, err))
			continue
		}
		for _, name := range append([]string{t.Name}, t.Aliases...) {
			if other, ok := r.tools[name]; ok {
				problems = append(problems, fmt.Errorf("tool %d (%q): the name %q is already taken by a tool of toolset %q", i+1, t.Name, name, other.Toolset))
				continue
			}
			r.tools[name] = e
		}
		r.names = append(r.names, t.Name)
		r.owners[t.Toolset] = append(r.owners[t.Toolset], t.Name)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("build the tool registry: %w", errors.Join(problems...))
	}
	sort.Strings(r.names)
	return r, nil
}

func newEntry(t Tool) (*entry, error) {
	switch {
	case t.Name == "" || strings.ContainsFunc(t.Name, notNameRune):
		return nil, errors.New("the name must consist of letters, digits, _ and -")
	case t.Toolset == "":
		return nil, errors.New("no toolset")
	case t.Handler == nil:
		return nil, errors.New("no handler")
	case t.MaxResultChars < 0:
		return nil, fmt.Errorf("MaxResultChars is %d; use 0 for the default or NoLimit", t.MaxResultChars)
	}
	if _, err := chat.NewToolset(chat.ToolDefinition{Name: t.Name, Parameters: t.Parameters}); err != nil {
		return nil, err
	}
	return &entry{Tool: t, schema: compileSchema(t.Parameters)}, nil
}

func notNameRune(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-'
}

// Names returns the names of all tools, sorted and without aliases.
func (r *Registry) Names() []string { return append([]string(nil), r.names...) }

// Lookup returns the tool of that name or alias.
func (r *Registry) Lookup(name string) (Tool, bool) {
	e, ok := r.tools[name]
	if !ok {
		return Tool{}, false
	}
	return e.Tool, true
}

// Canonical returns the registered name for a name or alias, and name itself when there is no such tool.
func (r *Registry) Canonical(name string) string {
	if e, ok := r.tools[name]; ok {
		return e.Name
	}
	return name
}

// Definitions returns the definitions of the named tools, sorted by name. It fails
// on a name that is not registered.
func (r *Registry) Definitions(names ...string) (*chat.Toolset, error) {
	sorted := append([]string(nil), names...)
	sort.Strings(sorted)
	definitions := make([]chat.ToolDefinition, 0, len(sorted))
	for _, name := range sorted {
		e, ok := r.tools[name]
		if !ok || e.Name != name {
			return nil, fmt.Errorf("define tool %q: not registered; registered are %s", name, strings.Join(r.names, ", "))
		}
		definitions = append(definitions, chat.ToolDefinition{Name: e.Name, Description: e.Description, Parameters: e.Parameters})
	}
	return chat.NewToolset(definitions...)
}

// ResultLimit returns the length in characters above which the named tool's result
// is to be replaced by a preview: NoLimit for never, 0 when the tool has no opinion.
func (r *Registry) ResultLimit(name string) int {
	e, ok := r.tools[name]
	switch {
	case ok && e.MaxResultChars == NoLimit:
		return NoLimit
	case strings.HasPrefix(name, "mcp_"):
		return mcpResultChars
	case ok:
		return e.MaxResultChars
	}
	return 0
}

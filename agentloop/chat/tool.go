package chat

import (
	"encoding/json"
	"fmt"
	"sort"

	"github.com/tidwall/gjson"
)

// ToolDefinition describes one tool to the model. Parameters is a JSON schema of
// type object whose key order is kept; nil means no parameters.
type ToolDefinition struct {
	Name        string
	Description string
	Parameters  json.RawMessage
}

// Toolset is an immutable list of tool definitions, encoded once for all requests.
// The nil Toolset offers no tools.
type Toolset struct {
	tools []ToolDefinition
	index map[string]int
	raw   json.RawMessage
}

// NewToolset encodes the definitions in the order given. It fails on an empty or
// repeated name and on parameters that are not a JSON object.
func NewToolset(tools ...ToolDefinition) (*Toolset, error) {
	t := &Toolset{tools: tools, index: make(map[string]int, len(tools))}
	raw := []byte{'['}
	for i, d := range tools {
		if d.Name == "" {
			return nil, fmt.Errorf("tool definition %d has no name", i+1)
		}
		if _, ok := t.index[d.Name]; ok {
			return nil, fmt.Errorf("tool %q is defined twice", d.Name)
		}
		parameters := d.Parameters
		if isNull(parameters) {
			parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		if !Valid(parameters) || !gjson.ParseBytes(parameters).IsObject() {
			return nil, fmt.Errorf("tool %q: parameters are not a JSON object: %s", d.Name, excerpt(parameters))
		}
		t.index[d.Name] = i
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, `{"type":"function","function":{"name":`...)
		raw = AppendString(raw, d.Name)
		raw = append(raw, `,"description":`...)
		raw = AppendString(raw, d.Description)
		raw = append(raw, `,"parameters":`...)
		raw = append(raw, compact(parameters)...)
		raw = append(raw, "}}"...)
	}
	t.raw = append(raw, ']')
	return t, nil
}

// Len returns the number of tools.
func (t *Toolset) Len() int {
	if t == nil {
		return 0
	}
	return len(t.tools)
}

// Definitions returns the definitions in order, shared and not to be modified.
func (t *Toolset) Definitions() []ToolDefinition {
	if t == nil {
		return nil
	}
	return t.tools
}

// Has says whether a tool of that name is offered.
func (t *Toolset) Has(name string) bool {
	if t == nil {
		return false
	}
	_, ok := t.index[name]
	return ok
}

// Names returns the tool names, sorted.
func (t *Toolset) Names() []string {
	names := make([]string, 0, t.Len())
	for _, d := range t.Definitions() {
		names = append(names, d.Name)
	}
	sort.Strings(names)
	return names
}

// JSON returns the value of a request's "tools" field, shared and not to be modified.
func (t *Toolset) JSON() json.RawMessage {
	if t == nil {
		return json.RawMessage("[]")
	}
	return t.raw
}

// MarshalJSON returns the value of a request's "tools" field.
func (t *Toolset) MarshalJSON() ([]byte, error) { return t.JSON(), nil }

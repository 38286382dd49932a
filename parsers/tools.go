package parsers

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// toolJSON is one tool the ways people write it: as OpenAI's requests do, with
// the function inside, or bare, with the schema under either name.
type toolJSON struct {
	Function    *toolJSON       `json:"function"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// DecodeTools reads a JSON array of tools, or an object with such an array
// under "tools", for example the body of a chat completion request. A tool is
// {"type": "function", "function": {…}} or only what is inside. Schemas are kept
// byte by byte. The error says which tool is wrong and how.
func DecodeTools(data []byte) ([]Tool, error) {
	var list []toolJSON
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		var request struct {
			Tools []toolJSON `json:"tools"`
		}
		if err := json.Unmarshal(data, &request); err != nil {
			return nil, fmt.Errorf("decode tools: %w", err)
		}
		if request.Tools == nil {
			return nil, fmt.Errorf(`decode tools: the object has no "tools"; give a JSON array of tools or an object with one`)
		}
		list = request.Tools
	} else if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("decode tools: want a JSON array of tools: %w", err)
	}
	tools := make([]Tool, len(list))
	for i, t := range list {
		if t.Function != nil {
			t = *t.Function
		}
		schema := t.Parameters
		if schema == nil {
			schema = t.InputSchema
		}
		switch {
		case t.Name == "":
			return nil, fmt.Errorf("decode tools: tool %d has no name", i)
		case schema != nil && string(schema) != "null" && !isJSONObject(string(schema)):
			return nil, fmt.Errorf("decode tools: the parameters of tool %d (%s) are not a JSON schema object: %s", i, t.Name, textutil.Quote(string(schema), 200))
		}
		tools[i] = Tool{Name: t.Name, Description: t.Description, Parameters: schema}
	}
	return tools, nil
}

package parsers

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// Result is what a tool answered to one call.
type Result struct {
	// CallID is the id of the call, Name the tool's name.
	CallID, Name string
	// Content is the answer as the model is to read it.
	Content string
}

// ErrNotRepresentable says that a format has no way to write what was asked
// for, for example a value that contains the format's own closing tag.
var ErrNotRepresentable = errors.New("the format cannot express it")

// Render writes an assistant turn the way the model's own chat template does:
// content, then the calls, without the tokens that open and close the turn. The
// arguments of every call must be a JSON object. What was written is read back
// before it is returned; if that gives anything else, the error wraps
// [ErrNotRepresentable]. In formats with untyped values the types of arguments
// come back only for tools whose schema is in tools.
func (f *Format) Render(content string, calls []Call, tools []Tool) (string, error) {
	for i, c := range calls {
		if c.Name == "" || strings.TrimSpace(c.Name) != c.Name {
			return "", fmt.Errorf("render call %d as %s: the name %q is empty or has white space around it", i, f.name, c.Name)
		}
		if !isJSONObject(c.Arguments) {
			return "", fmt.Errorf("render call %d to %s as %s: the arguments are not a JSON object: %s", i, c.Name, f.name, textutil.Quote(c.Arguments, 200))
		}
	}
	if len(calls) == 0 {
		if n := len(f.Parse(content, tools).Calls); n > 0 {
			return "", fmt.Errorf("render content as %s: it would be read as %d calls: %w", f.name, n, ErrNotRepresentable)
		}
		return content, nil
	}
	var b strings.Builder
	content = strings.TrimSpace(content)
	f.render(&b, content, calls)
	text := b.String()
	if err := f.verify(text, content, calls, tools); err != nil {
		return "", fmt.Errorf("render %d calls as %s: %w: %w", len(calls), f.name, ErrNotRepresentable, err)
	}
	return text, nil
}

// RenderResults writes what the tools answered, as the texts of the turns that
// carry it: one turn for all results or one for each, as the format has it. For
// a few formats it is not known how; their error wraps [ErrNotRepresentable].
func (f *Format) RenderResults(results []Result) ([]string, error) {
	if f.results == nil {
		return nil, fmt.Errorf("render %d results as %s: how its template writes them is not known: %w", len(results), f.name, ErrNotRepresentable)
	}
	if len(results) == 0 {
		return nil, nil
	}
	return f.results(results), nil
}

// verify reads text back and says where it differs from what was to be written.
func (f *Format) verify(text, content string, calls []Call, tools []Tool) error {
	if f.framed {
		_, text = f.SplitReasoning(text, ReasoningConfig{})
	}
	got := f.Parse(text, tools)
	if len(got.Calls) != len(calls) {
		return fmt.Errorf("%d calls would be read back", len(got.Calls))
	}
	back := ""
	if got.Content != nil {
		back = *got.Content
	}
	if back != content {
		return fmt.Errorf("the content would be read back as %s", textutil.Quote(back, 200))
	}
	for i, c := range got.Calls {
		if c.Name != calls[i].Name {
			return fmt.Errorf("the name of call %d would be read back as %q", i, c.Name)
		}
		if c.Truncated || c.InvalidArguments || !f.sameArguments(c.Arguments, calls[i].Arguments) {
			return fmt.Errorf("the arguments of call %d to %s would be read back as %s", i, c.Name, textutil.Quote(c.Arguments, 200))
		}
	}
	return nil
}

// sameArguments compares two JSON objects; in formats with untyped values, as
// far as the format can tell them apart.
func (f *Format) sameArguments(a, b string) bool {
	if f.valueText == nil {
		return normalJSON(a) == normalJSON(b)
	}
	flat := func(object string) string {
		var b strings.Builder
		eachMember(normalJSON(object), func(key, value string) bool {
			fmt.Fprintf(&b, "%q=%q,", key, f.valueText(value))
			return true
		})
		return b.String()
	}
	return flat(a) == flat(b)
}

// jsonValueText writes a value as text the way templates with "tojson if not a
// string" do: strings bare, everything else as JSON.
func jsonValueText(value string) string {
	if value[0] == '"' {
		return unquote(value)
	}
	return normalJSON(value)
}

// pythonValueText is jsonValueText with the scalars spelled as in Python.
func pythonValueText(value string) string {
	switch value {
	case "true":
		return "True"
	case "false":
		return "False"
	case "null":
		return "None"
	}
	return jsonValueText(value)
}

// separate writes content and what keeps it apart from the calls.
func separate(b *strings.Builder, content, separator string) {
	if content != "" {
		b.WriteString(content)
		b.WriteString(separator)
	}
}

// callJSON writes {"name": …, "arguments": …}; key is the name of the second
// member.
func callJSON(b *strings.Builder, c Call, key string) {
	b.WriteString(`{"name": `)
	b.WriteString(jsonString(c.Name))
	b.WriteString(`, "` + key + `": `)
	b.WriteString(normalJSON(c.Arguments))
	b.WriteByte('}')
}

// joined gives all results in one turn: each between open and close, joined by
// separator.
func joined(open, close, separator string) func([]Result) []string {
	return func(results []Result) []string {
		parts := make([]string, len(results))
		for i, r := range results {
			parts[i] = open + r.Content + close
		}
		return []string{strings.Join(parts, separator)}
	}
}

// perTurn gives each result a turn of its own.
func perTurn(write func(Result) string) func([]Result) []string {
	return func(results []Result) []string {
		turns := make([]string, len(results))
		for i, r := range results {
			turns[i] = write(r)
		}
		return turns
	}
}

// bareResult is for formats whose turn carries the answer and nothing else.
func bareResult(r Result) string { return r.Content }

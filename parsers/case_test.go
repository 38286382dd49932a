package parsers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parseCase is one row of a format's table. want holds the content, "null" when
// there is none, and one line per call: name, arguments, flags.
type parseCase struct {
	name  string
	text  string
	tools []Tool
	want  []string
}

// plainText marks a case whose text must come back unchanged, without calls.
func plainText(name, text string) parseCase {
	return parseCase{name: name, text: text, want: []string{text}}
}

// runCases runs a table through one format, whole and streamed in all ways.
func runCases(t *testing.T, format string, cases []parseCase) {
	t.Helper()
	f, err := Lookup(format)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(cases), 25, "every required format has at least 25 cases")
	seen := map[string]bool{}
	for _, c := range cases {
		require.False(t, seen[c.name], "two cases are called %q", c.name)
		seen[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, strings.Join(c.want, "\n"), describe(f.Parse(c.text, c.tools)))
			checkInvariants(t, f, c.text, c.tools)
		})
	}
}

// runTable runs cases of a format that is not required.
func runTable(t *testing.T, format string, cases []parseCase) {
	t.Helper()
	f, err := Lookup(format)
	require.NoError(t, err)
	for _, c := range cases {
		t.Run(format+"/"+c.name, func(t *testing.T) {
			require.Equal(t, strings.Join(c.want, "\n"), describe(f.Parse(c.text, c.tools)))
			checkInvariants(t, f, c.text, c.tools)
		})
	}
}

// describe spells a result the way parseCase.want does.
func describe(p Parsed) string {
	lines := []string{"null"}
	if p.Content != nil {
		lines[0] = *p.Content
	}
	for _, c := range p.Calls {
		line := c.Name + " " + c.Arguments
		if c.Truncated {
			line += " (truncated)"
		}
		if c.InvalidArguments {
			line += " (invalid)"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// tool builds a tool from the text of its properties.
func tool(name, properties string) Tool {
	return Tool{Name: name, Parameters: json.RawMessage(`{"type": "object", "properties": {` + properties + `}}`)}
}

func TestEventsOfASimpleStream(t *testing.T) {
	f, err := Lookup("hermes")
	require.NoError(t, err)
	s := fixedRandom(f).Stream(nil)
	var got []string
	note := func(events []Event) {
		for _, e := range events {
			got = append(got, fmt.Sprintf("%s %d %s%s%s", e.Kind, e.Index, e.ID, e.Name, e.Text))
		}
	}
	for _, piece := range []string{"Hi", " <tool", "s> <tool_", `call>{"name": "f", "argu`, `ments": {}}`, "</tool_call>", "\n", "B", "ye"} {
		note(s.Feed(piece))
	}
	note(s.Finish())
	require.Equal(t, []string{
		"content 0 Hi", "content 0  ", "content 0 <tools> ",
		"call_start 0 call_7deb69cbf", "args 0 {}", "call_end 0 ",
		"content 0 B", "content 0 ye",
	}, got)
	require.Nil(t, s.Feed("more"), "a finished stream says nothing")
	require.Nil(t, s.Finish())
}

func TestAStreamTakesBackWhatALaterBlockRefutes(t *testing.T) {
	f, err := Lookup("hermes")
	require.NoError(t, err)
	const text = `a<tool_call>{"name": "f"}</tool_call><tool_call>{"name": `
	events := streamed(f, text, nil, func() int { return 1 })
	last := events[len(events)-1]
	require.Equal(t, Revised, last.Kind)
	require.Equal(t, parsed(text, nil), *last.Parsed)
	require.Equal(t, CallStart, events[1].Kind, "the first call had been reported")
	require.Equal(t, parsed(text, nil), Assemble(events))
}

func TestArgumentsStreamBeforeTheirEnd(t *testing.T) {
	for format, text := range map[string]string{
		"deepseek_v3_1": deepseekCallsBegin + deepseekCallBegin + "f" + deepseekSep + `{"a": "x`,
		"kimi_k2":       kimiSectionBegin + kimiCallBegin + "functions.f:0" + kimiArgsBegin + `{"a": "x`,
		"mistral":       `[TOOL_CALLS]f[ARGS]{"a": "x`,
		"gpt_oss":       `<|channel|>commentary to=functions.f<|message|>{"a": "x`,
		"qwen3_coder":   "<tool_call><function=f><parameter=a>x</parameter>",
	} {
		f, err := Lookup(format)
		require.NoError(t, err)
		p := Assemble(f.Stream(nil).Feed(text))
		require.Len(t, p.Calls, 1, format)
		require.Equal(t, "f", p.Calls[0].Name)
		require.True(t, strings.HasPrefix(p.Calls[0].Arguments, `{"a": "x`), "%s shows %q", format, p.Calls[0].Arguments)
	}
}

func TestWhiteSpaceBehindCutArgumentsIsNotTakenBack(t *testing.T) {
	for format, text := range map[string]string{
		"mistral":       "[TOOL_CALLS]f[ARGS]{\"a\": \"b \u3000\n",
		"gpt_oss":       "<|channel|>commentary to=functions.f<|message|>{\"a\": \t",
		"deepseek_v3_1": deepseekCallsBegin + v31("f", "{\"a\":  \n") + deepseekCallsEnd,
	} {
		f, err := Lookup(format)
		require.NoError(t, err)
		for _, e := range streamed(f, text, nil, func() int { return 1 }) {
			require.NotEqual(t, Revised, e.Kind, format)
		}
		checkInvariants(t, f, text, nil)
	}
}

func TestUnknownNamesListTheKnownOnes(t *testing.T) {
	for name, near := range map[string]string{"herms": "hermes", "deepseek-v3": "deepseek_v3", "GLM45": "glm45", "Qwen3-Coder": "qwen3_coder"} {
		_, err := Lookup(name)
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, name, unknown.Name)
		require.ErrorContains(t, err, fmt.Sprintf("did you mean %q?", near))
		for _, known := range Names() {
			require.ErrorContains(t, err, known)
		}
	}
	_, err := Lookup("completely different")
	require.NotContains(t, err.Error(), "did you mean")
}

func TestEveryNameAndAliasIsFound(t *testing.T) {
	required := []string{
		"hermes", "qwen", "longcat", "mistral", "llama3_json", "llama4_json", "qwen3_coder", "deepseek_v3",
		"deepseek_v3_1", "deepseek_v31", "kimi_k2", "glm45", "glm47",
	}
	require.Subset(t, Names(), required)
	seen := map[string]bool{}
	for _, name := range Names() {
		require.False(t, seen[name], "%s is there twice", name)
		seen[name] = true
		f, err := Lookup(name)
		require.NoError(t, err)
		require.NotEmpty(t, f.Description())
		require.NotEmpty(t, f.Models())
		require.Contains(t, append(f.Aliases(), f.Name()), name)
	}
}

func TestIDsHaveTheShapeOfTheirFormat(t *testing.T) {
	for format, want := range map[string]string{
		"hermes": `^call_[0-9a-f]{8}$`, "mistral": `^[A-Za-z0-9]{9}$`, "qwen3_coder": `^call_[0-9a-f]{24}$`, "glm45": `^call_[0-9a-f]{8}$`,
	} {
		f, err := Lookup(format)
		require.NoError(t, err)
		calls := []Call{{Name: "f", Arguments: "{}"}, {Name: "f", Arguments: "{}"}, {Name: "f", Arguments: "{}"}}
		text, err := f.Render("", calls, nil)
		require.NoError(t, err)
		first, second := f.Parse(text, nil), f.Parse(text, nil)
		seen := map[string]bool{}
		for _, c := range append(first.Calls, second.Calls...) {
			require.Regexp(t, want, c.ID)
			require.False(t, seen[c.ID], "two responses share an id, or one uses it twice")
			seen[c.ID] = true
		}
	}
}

func TestAHundredThousandIDsAreDistinct(t *testing.T) {
	for _, style := range []idStyle{idHex8, idHex24, idAlnum9} {
		g := ids{random: endless{}, style: style}
		seen := make(map[string]bool)
		for range 100_000 {
			id := g.next()
			require.False(t, seen[id])
			seen[id] = true
		}
	}
}

package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model/replay"
	"github.com/stretchr/testify/require"
)

const greeting = `
conversations:
  - match:
      contains: hello.txt
    variants:
      - turns:
          - reasoning: I write the file first.
            content: Let me do that.
            calls:
              - name: write_file
                arguments: {path: hello.txt, content: "Hello\n", n: 1.50, big: 12345678901234567890, flags: [true, ~, 0x1f, 1_000], when: 2020-01-01, "a<b": "<&>"}
              - name: broken
                arguments: '{"path": '
              - name: plain
            delay: 300ms
          - content: Done.
            finish_reason: length
      - turns:
          - content: I won't.
  - match: {regexp: '^count to \d+$'}
    turns:
      - content: one
  - match: {text: "exactly this"}
    turns: [{content: two}]
`

func TestAScriptIsReadFromYAML(t *testing.T) {
	script, err := replay.Parse("demo.yaml", []byte(greeting))
	require.NoError(t, err)
	require.Len(t, script.Conversations, 3)
	c := script.Conversations[0]
	require.Equal(t, replay.Match{Contains: "hello.txt"}, c.Match)
	require.Len(t, c.Variants, 2)
	require.Equal(t, replay.Turn{
		Reasoning: "I write the file first.", Content: "Let me do that.", Delay: 300 * time.Millisecond,
		Calls: []replay.Call{
			{Name: "write_file", Arguments: `{"path":"hello.txt","content":"Hello\n","n":1.50,"big":12345678901234567890,"flags":[true,null,31,1000],"when":"2020-01-01","a<b":"<&>"}`},
			{Name: "broken", Arguments: `{"path": `},
			{Name: "plain", Arguments: "{}"},
		},
	}, c.Variants[0].Turns[0])
	require.Equal(t, "length", c.Variants[0].Turns[1].FinishReason)
	require.Equal(t, []replay.Variant{{Turns: []replay.Turn{{Content: "one"}}}}, script.Conversations[1].Variants)
}

func TestTheSameScriptIsReadFromJSON(t *testing.T) {
	script, err := replay.Parse("demo.json", []byte(`{
  "conversations": [{"match": {"text": "caf\u00e9 \ud83d\ude00"}, "turns": [
    {"calls": [{"name": "f", "arguments": {"z": 1.0, "a": "\/x"}}]}
  ]}]
}`))
	require.NoError(t, err)
	require.Equal(t, "café 😀", script.Conversations[0].Match.Text)
	require.Equal(t, `{"z":1.0,"a":"/x"}`, script.Conversations[0].Variants[0].Turns[0].Calls[0].Arguments)
}

func TestAnchorsMayBeReused(t *testing.T) {
	script, err := replay.Parse("s.yaml", []byte(`
conversations:
  - match: {text: a}
    turns: &end [{content: bye}]
  - match: {text: b}
    turns: *end
`))
	require.NoError(t, err)
	require.Equal(t, "bye", script.Conversations[1].Variants[0].Turns[0].Content)
}

func TestMistakesInAScriptAreReportedWithTheirLines(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		says []string
	}{
		"unknown keys, all at once": {"conversations:\n  - match: {text: a}\n    turn: []\n    turns:\n      - contents: x\n",
			[]string{`s:3: unknown key "turn" in a conversation: want match, turns, variants`, `s:5: unknown key "contents" in a turn`}},
		"a wrong root":          {"- a\n", []string{"s:1: the script must be an object with conversations, not a list"}},
		"nothing":               {"", []string{"it is empty"}},
		"only a comment":        {"# hi\n", []string{"it is empty"}},
		"no conversations":      {"{}", []string{`"conversations" is missing`}},
		"an empty list":         {"conversations: []", []string{"no conversations"}},
		"broken YAML":           {"conversations: [", []string{"read replay script s"}},
		"no match":              {"conversations:\n  - turns: [{content: x}]\n", []string{"s:2: a conversation needs a match"}},
		"two matches":           {"conversations:\n  - match: {text: a, regexp: b}\n    turns: [{content: x}]\n", []string{"s:2: a match needs exactly one"}},
		"a bad expression":      {"conversations:\n  - match: {regexp: '('}\n    turns: [{content: x}]\n", []string{"s:2: regexp", "does not compile"}},
		"variants and turns":    {"conversations:\n  - match: {text: a}\n    turns: [{content: x}]\n    variants: []\n", []string{"either variants or turns"}},
		"no turns":              {"conversations:\n  - match: {text: a}\n    turns: []\n", []string{"conversation 1, variant 1 has no turns"}},
		"no variants":           {"conversations:\n  - match: {text: a}\n    variants: []\n", []string{"conversation 1 has no variants"}},
		"a call without a name": {"conversations:\n  - match: {text: a}\n    turns:\n      - calls: [{arguments: {}}]\n", []string{"s:4: a call needs a name"}},
		"a number as arguments": {"conversations:\n  - match: {text: a}\n    turns:\n      - calls: [{name: f, arguments: 3}]\n", []string{`s:4: "arguments" must be an object, or text`, `int "3"`}},
		"a number as content":   {"conversations:\n  - match: {text: a}\n    turns:\n      - content: 3\n", []string{`s:4: "content" must be text, not int "3"`}},
		"a delay without unit":  {"conversations:\n  - match: {text: a}\n    turns:\n      - {content: x, delay: 3}\n", []string{"s:4:", "300ms"}},
		"a negative delay":      {"conversations:\n  - match: {text: a}\n    turns:\n      - {content: x, delay: -3s}\n", []string{"s:4:"}},
		"a key given twice":     {"conversations:\n  - match: {text: a}\n    turns:\n      - content: x\n        content: y\n", []string{`s:5: key "content" appears twice`}},
		"infinite arguments":    {"conversations:\n  - match: {text: a}\n    turns:\n      - calls: [{name: f, arguments: {x: .inf}}]\n", []string{"s:4: JSON has no way to write"}},
		"a text given twice":    {"conversations:\n  - {match: {text: a}, turns: [{content: x}]}\n  - {match: {text: a}, turns: [{content: x}]}\n", []string{"conversation 2 matches the same text as conversation 1"}},
		"a mistake in JSON":     {"{\"conversations\": [\n {\"match\": {\"text\": \"a\"},\n  \"turns\": [\n   {\"contnt\": \"x\"}]}]}", []string{`s:4: unknown key "contnt"`}},
		"an alias in itself":    {"conversations:\n  - match: {text: a}\n    turns:\n      - calls: [{name: f, arguments: &x {y: *x}}]\n", []string{"replay script"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := replay.Parse("s", []byte(test.text))
			require.Error(t, err)
			for _, words := range test.says {
				require.ErrorContains(t, err, words)
			}
		})
	}
}

func TestAliasesWithinAliasesCannotGrowWithoutEnd(t *testing.T) {
	var b strings.Builder
	b.WriteString("conversations:\n  - match: {text: a}\n    turns:\n      - calls:\n          - name: f\n            arguments:\n              a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		prev := "*a" + string(rune('a'+i-2))
		if i == 1 {
			prev = "*a0"
		}
		b.WriteString("              k" + string(rune('a'+i)) + ": &a" + string(rune('a'+i-1)) + " [" + strings.TrimSuffix(strings.Repeat(prev+", ", 10), ", ") + "]\n")
	}
	_, err := replay.Parse("s", []byte(b.String()))
	require.ErrorContains(t, err, "too large")
}

func FuzzAnyTextIsAScriptThatCanBeServedOrAnError(f *testing.F) {
	f.Add([]byte(greeting))
	f.Add([]byte(`{"conversations":[{"match":{"text":"a"},"turns":[{"content":"x"}]}]}`))
	f.Add([]byte("conversations:\n  - match: {text: a}\n    turns: &x [*x]\n"))
	f.Add([]byte("conversations: [{match: {regexp: '('}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		script, err := replay.Parse("fuzz", data)
		if err != nil {
			require.Nil(t, script)
			return
		}
		require.NoError(t, script.Validate())
		_, err = replay.New(script, replay.Options{})
		require.NoError(t, err)
	})
}

package chattemplate

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// A cache is only right when rendering leaves values as they were.
func TestRenderingChangesNoValue(t *testing.T) {
	for _, path := range []string{"testdata/expressions.golden.jsonl", "testdata/chats.golden.jsonl"} {
		for _, c := range goldenCases(t, path) {
			parsed, err := Parse("case", c.Template)
			if err != nil {
				continue
			}
			vars, err := decodeJSON(c.Vars)
			require.NoError(t, err)
			names := map[string]value{}
			d := vars.(*dict)
			for i, k := range d.keys {
				names[k.(string)] = d.values[i]
			}
			first, errFirst := parsed.render(names, goldenNow, nil)
			second, errSecond := parsed.render(names, goldenNow, nil)
			require.Equal(t, fmt.Sprint(errFirst), fmt.Sprint(errSecond), c.Template)
			require.Equal(t, first, second, c.Template)
			fresh, err := decodeJSON(c.Vars)
			require.NoError(t, err)
			require.Equal(t, fresh, vars, c.Template)
		}
	}
}

func TestAConversationThatGrowsRendersAlikeWithACache(t *testing.T) {
	for i, c := range goldenCases(t, "testdata/chats.golden.jsonl") {
		var vars struct {
			Messages []chat.Message
			Tools    []json.RawMessage
		}
		require.NoError(t, json.Unmarshal(c.Vars, &vars))
		parsed, err := Parse("case", c.Template)
		require.NoError(t, err)
		var cache Cache
		same := func(in Input) {
			t.Helper()
			in.Now = goldenNow
			want, wantErr := parsed.Render(in)
			in.Cache = &cache
			got, gotErr := parsed.Render(in)
			require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(gotErr))
			require.Equal(t, want, got, "case %d", i)
		}
		for n := range vars.Messages {
			same(Input{Messages: vars.Messages[:n+1], Tools: vars.Tools, AddGenerationPrompt: true})
		}
		same(Input{Messages: vars.Messages, Tools: vars.Tools, Engine: Transformers})
		same(Input{Messages: vars.Messages, Tools: vars.Tools, Engine: SGLang})
		same(Input{Messages: vars.Messages, Tools: vars.Tools})
		same(Input{Messages: vars.Messages[:1]})
		for n := range vars.Messages { // another message in each place, and back
			other := append([]chat.Message(nil), vars.Messages...)
			other[n] = chat.User("something else")
			same(Input{Messages: other, Tools: vars.Tools})
			same(Input{Messages: vars.Messages, Tools: append([]json.RawMessage{json.RawMessage(`{"type":"function","function":{"name":"other","description":"","parameters":{"type":"object","properties":{}}}}`)}, vars.Tools...)})
		}
	}
}

func TestACacheKnowsMessagesByTheirBytesAndNotByTheirLength(t *testing.T) {
	parsed, err := Parse("t", `{% for m in messages %}{{ m.content }};{% endfor %}`)
	require.NoError(t, err)
	var cache Cache
	for _, texts := range [][]string{{"aa", "bb"}, {"ab", "bb"}, {"ab"}, {"ab", "cc", "dd"}, {}, {"x", "y", "z"}} {
		var in Input
		want := ""
		for _, text := range texts {
			in.Messages = append(in.Messages, chat.User(text))
			want += text + ";"
		}
		in.Cache = &cache
		for range 2 {
			got, err := parsed.Render(in)
			require.NoError(t, err)
			require.Equal(t, want, got.Text)
		}
	}
}

func TestAMessageThatCanNotBeDecodedIsNotKept(t *testing.T) {
	parsed, err := Parse("t", `{{ tools[0].a }}`)
	require.NoError(t, err)
	var cache Cache
	for range 2 {
		_, err = parsed.Render(Input{Tools: []json.RawMessage{json.RawMessage(`{"a":`)}, Cache: &cache})
		require.ErrorContains(t, err, "tool 0")
	}
	got, err := parsed.Render(Input{Tools: []json.RawMessage{json.RawMessage(`{"a":1}`)}, Cache: &cache})
	require.NoError(t, err)
	require.Equal(t, "1", got.Text)
}

func TestADictKeepsItsKeysInOrderAtEverySize(t *testing.T) {
	d := newDict(0)
	want := map[string]value{}
	for i := range 3 * fewKeys {
		k := fmt.Sprintf("k%d", i%(2*fewKeys))
		d.setString(k, int64(i))
		want[k] = int64(i)
		for name, v := range want {
			got, ok := d.get(name)
			require.True(t, ok)
			require.Equal(t, v, got)
			got, ok = d.get(markup(name))
			require.True(t, ok)
			require.Equal(t, v, got)
		}
		_, ok := d.get("missing")
		require.False(t, ok)
		_, ok = d.get(int64(1))
		require.False(t, ok)
	}
	require.Len(t, d.keys, 2*fewKeys)
	require.Equal(t, "k0", d.keys[0])

	mixed := newDict(2)
	mixed.setString("a", int64(1))
	require.NoError(t, mixed.set(int64(1), "one"))
	require.NoError(t, mixed.set(true, "true")) // the same key by Python's rules
	require.NoError(t, mixed.set(markup("a"), int64(2)))
	v, _ := mixed.get("a")
	require.Equal(t, int64(2), v)
	v, _ = mixed.get(1.0)
	require.Equal(t, "true", v)
	require.Len(t, mixed.keys, 2)
}

package chattemplate_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/chattemplate"
)

func TestAConversationIsRenderedFromItsWireForm(t *testing.T) {
	tmpl, err := chattemplate.Parse("t", `{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}<{{ c.function.name }} {{ c.function.arguments|tojson }}>{% endfor %}{% endfor %}`+
		`{% if tools %}{{ tools[0].function.name }}{% endif %}{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}{% if add_generation_prompt %}[assistant]{% endif %}{{ eos_token is defined }}`)
	require.NoError(t, err)
	in := chattemplate.Input{
		Messages: []chat.Message{
			chat.User("hi"),
			chat.Assistant("", "", chat.ToolCall{ID: "1", Name: "f", Arguments: `{"z":1,"a":1.0,"n":12345678901234567890}`}),
			chat.Tool("1", "out"),
		},
		Tools:               []json.RawMessage{json.RawMessage(`{"type":"function","function":{"name":"f"}}`)},
		AddGenerationPrompt: true, BOSToken: "<s>",
		Extra: chat.Object{{Key: "enable_thinking", Value: json.RawMessage("false")}},
	}
	got, err := tmpl.Render(in)
	require.NoError(t, err)
	require.Equal(t, `<s>[user]hi[assistant]<f {"z": 1, "a": 1.0, "n": 12345678901234567890}>[tool]outfFalse[assistant]False`, strings.Replace(got.Text, "None", "", 1))

	in.Engine = chattemplate.Transformers
	got, err = tmpl.Render(in)
	require.NoError(t, err)
	require.Contains(t, got.Text, `<f "{\"z\":1,\"a\":1.0,\"n\":12345678901234567890}">`)
}

func TestRender_GivesBrokenArgumentsAsAnEmptyObject(t *testing.T) {
	tmpl, err := chattemplate.Parse("t", `{{ messages[0].tool_calls[0].function.arguments }}|{{ messages[1].tool_calls[0].function.arguments }}`)
	require.NoError(t, err)
	got, err := tmpl.Render(chattemplate.Input{Messages: []chat.Message{
		chat.Assistant("", "", chat.ToolCall{ID: "1", Name: "f", Arguments: `{"broken`}),
		chat.Assistant("", "", chat.ToolCall{ID: "2", Name: "f", Arguments: ``}),
	}})
	require.NoError(t, err)
	require.Equal(t, `{}|{}`, got.Text)
}

func TestWhatTheModelSaidIsMarked(t *testing.T) {
	tmpl, err := chattemplate.Parse("t", `{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content }}<end>{% endgeneration %}{% else %}U:{{ m.content }}{% endif %}
{% endfor %}`)
	require.NoError(t, err)
	got, err := tmpl.Render(chattemplate.Input{Messages: []chat.Message{chat.User("é"), chat.Assistant("one", ""), chat.User("x"), chat.Assistant("two", "")}})
	require.NoError(t, err)
	var said []string
	for _, span := range got.Generations {
		said = append(said, got.Text[span.Start:span.End])
	}
	require.Equal(t, []string{"one<end>", "two<end>"}, said)
}

func TestATemplateCanRefuseAConversation(t *testing.T) {
	tmpl, err := chattemplate.Parse("model", `{% if messages[0].role != 'user' %}{{ raise_exception('must start with the user') }}{% endif %}`)
	require.NoError(t, err)
	_, err = tmpl.Render(chattemplate.Input{Messages: []chat.Message{chat.System("s")}})
	var raised *chattemplate.RaisedError
	require.ErrorAs(t, err, &raised)
	require.Equal(t, "must start with the user", raised.Message)
	require.EqualError(t, err, "render chat template model: the chat template refuses: must start with the user")
}

func TestTheDateIsTheOneGiven(t *testing.T) {
	tmpl, err := chattemplate.Parse("t", `{{ strftime_now('%d %b %Y') }}`)
	require.NoError(t, err)
	got, err := tmpl.Render(chattemplate.Input{Now: time.Date(2026, 11, 5, 0, 0, 0, 0, time.UTC)})
	require.NoError(t, err)
	require.Equal(t, "05 Nov 2026", got.Text)
}

func FuzzTemplates(f *testing.F) {
	data, err := os.ReadFile("testdata/expressions.golden.jsonl")
	require.NoError(f, err)
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var c struct{ Template string }
		require.NoError(f, json.Unmarshal([]byte(line), &c))
		f.Add(c.Template)
	}
	messages := []chat.Message{chat.User("hi"), chat.Assistant("yo", "", chat.ToolCall{ID: "1", Name: "f", Arguments: `{"a":[1,{"b":null}]}`})}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := chattemplate.Parse("fuzz", source)
		if err != nil {
			return
		}
		in := chattemplate.Input{Messages: messages, Now: time.Date(2026, 11, 5, 0, 0, 0, 0, time.UTC)}
		want, wantErr := tmpl.Render(in)
		if strings.Contains(source, "random") {
			return
		}
		in.Cache = new(chattemplate.Cache)
		for range 2 { // no template may change what the cache keeps
			got, err := tmpl.Render(in)
			require.Equal(t, wantErr == nil, err == nil)
			require.Equal(t, want, got)
		}
	})
}

// The conversation of libraries' usual figures: eight messages with tools.
func BenchmarkRender(b *testing.B) {
	data, err := os.ReadFile("testdata/chats.golden.jsonl")
	require.NoError(b, err)
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var c struct {
			Template string
			Vars     struct {
				Messages []chat.Message
				Tools    []json.RawMessage
			}
			Out *string
		}
		require.NoError(b, json.Unmarshal([]byte(line), &c))
		if c.Out == nil || len(c.Vars.Messages) < 5 || seen[c.Template] {
			continue
		}
		seen[c.Template] = true
		tmpl, err := chattemplate.Parse("t", c.Template)
		require.NoError(b, err)
		b.Run(strings.Fields(c.Template)[1], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(chattemplate.Input{Messages: c.Vars.Messages, Tools: c.Vars.Tools, BOSToken: "<s>", EOSToken: "</s>", Engine: chattemplate.Transformers}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

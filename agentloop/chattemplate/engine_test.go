package chattemplate_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/chattemplate"
)

// Templates that write a message as they get it. The first wants content as text, the
// second loops over it, from which both engines conclude that it wants parts.
const (
	showsText  = `{# knows 'developer' #}{{ messages[0]|tojson }}`
	showsParts = `{# knows 'developer' #}{% for message in messages %}{% for part in message.content %}{% endfor %}{{ message|tojson }}{% endfor %}`
)

func message(t testing.TB, raw string) chat.Message {
	t.Helper()
	m, err := chat.Decode([]byte(raw))
	require.NoError(t, err)
	return m
}

// prepared is what a template gets for a message, or the error.
func prepared(t *testing.T, source string, engine chattemplate.Engine, raw string) string {
	t.Helper()
	tmpl, err := chattemplate.Parse("t", source)
	require.NoError(t, err)
	got, err := tmpl.Render(chattemplate.Input{Messages: []chat.Message{message(t, raw)}, Engine: engine})
	if err != nil {
		return "error: " + err.Error()
	}
	return got.Text
}

// The wants are what the engines' own code makes of the messages. Where it refuses a
// message they name the reason.
func TestRender_PreparesMessagesAsVLLM(t *testing.T) {
	for _, test := range []struct{ name, message, text, parts string }{
		{"null content",
			`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]}`,
			`{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"arguments": {"a": 1}, "name": "f"}, "type": "function"}]}`,
			`{"role": "assistant", "content": [], "tool_calls": [{"id": "1", "function": {"arguments": {"a": 1}, "name": "f"}, "type": "function"}]}`},
		{"missing content",
			`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
			`{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"arguments": {}, "name": "f"}, "type": "function"}]}`,
			`{"role": "assistant", "content": [], "tool_calls": [{"id": "1", "function": {"arguments": {}, "name": "f"}, "type": "function"}]}`},
		{"empty content", `{"role":"assistant","content":""}`,
			`{"role": "assistant", "content": ""}`,
			`{"role": "assistant", "content": [{"type": "text", "text": ""}]}`},
		{"text", `{"role":"user","content":"hi"}`,
			`{"role": "user", "content": "hi"}`,
			`{"role": "user", "content": [{"type": "text", "text": "hi"}]}`},
		{"text parts", `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":""},{"type":"input_text","text":"b"},{"type":"output_text","text":"c"},"d"]}`,
			`{"role": "user", "content": "a\nb\nc\nd"}`,
			`{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}, {"type": "text", "text": "c"}, {"type": "text", "text": "d"}]}`},
		{"parts of an answer", `{"role":"assistant","content":[{"type":"refusal","refusal":"no"},{"type":"refusal","refusal":null},{"type":"thinking","thinking":"hm","closed":true}]}`,
			`{"role": "assistant", "content": "no\nhm"}`,
			`{"role": "assistant", "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "hm"}]}`},
		{"fields of parts", `{"role":"system","content":[{"type":"text","text":"a","uuid":"u","cache_control":{"type":"ephemeral"}}]}`,
			`{"role": "system", "content": "a"}`,
			`{"role": "system", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}`},
		{"no parts", `{"role":"user","content":[]}`,
			`{"role": "user", "content": ""}`,
			`{"role": "user", "content": []}`},
		{"an image", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"see"}]}`,
			`error: render chat template t: message 0: a content part with image: only the server knows what stands for it in the prompt`,
			`{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "see"}]}`},
		{"media without a type", `{"role":"user","content":[{"video_url":"x"},{"type":"input_audio","input_audio":{"data":"","format":"wav"}}]}`,
			`error: render chat template t: message 0: a content part with video: only the server knows what stands for it in the prompt`,
			`{"role": "user", "content": [{"type": "video"}, {"type": "audio"}]}`},
		{"an unknown part", `{"role":"user","content":[{"type":"file","file":{}}]}`,
			`error: render chat template t: message 0: vLLM refuses a content part of type "file"`, ""},
		{"a number", `{"role":"user","content":5}`,
			`error: render chat template t: message 0: vLLM refuses content that is neither text nor a list of parts`, ""},
		{"a tool's answer", `{"role":"tool","tool_call_id":"1","name":"f","content":"x"}`,
			`{"role": "tool", "content": "x", "tool_call_id": "1", "name": "f"}`, ""},
		{"a tool's answer in parts", `{"role":"tool","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"tool_call_id":"1"}`,
			`{"role": "tool", "content": "a\nb", "tool_call_id": "1"}`, ""},
		{"a tool's answer without content", `{"role":"tool","tool_call_id":"1"}`,
			`{"role": "tool", "content": "", "tool_call_id": "1"}`, ""},
		{"a reference to a tool", `{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a"},{"type":"tool_reference","name":"b"}]}`,
			`{"role": "tool", "content": "a\nb", "tool_call_id": "1"}`,
			`{"role": "tool", "content": [{"type": "text", "text": "a"}, {"type": "tool_reference", "name": "b"}], "tool_call_id": "1"}`},
		{"reasoning_content", `{"role":"assistant","content":"","reasoning_content":"r"}`,
			`{"role": "assistant", "content": "", "reasoning": "r", "reasoning_content": "r"}`,
			`{"role": "assistant", "content": [{"type": "text", "text": ""}], "reasoning": "r", "reasoning_content": "r"}`},
		{"reasoning wins over reasoning_content", `{"role":"assistant","reasoning_content":"old","reasoning":"r","name":"bob"}`,
			`{"role": "assistant", "content": "", "reasoning": "r", "reasoning_content": "r", "name": "bob"}`,
			`{"role": "assistant", "content": [], "reasoning": "r", "reasoning_content": "r", "name": "bob"}`},
		{"null and unknown fields", `{"role":"assistant","content":"x","tool_calls":null,"refusal":null,"reasoning_content":null,"function_call":null,"annotations":[],"reasoning_details":[1]}`,
			`{"role": "assistant", "content": "x"}`,
			`{"role": "assistant", "content": [{"type": "text", "text": "x"}]}`},
		{"no calls", `{"role":"assistant","content":"x","tool_calls":[]}`,
			`{"role": "assistant", "content": "x"}`,
			`{"role": "assistant", "content": [{"type": "text", "text": "x"}]}`},
		{"fields of calls", `{"role":"assistant","content":"","tool_calls":[{"index":3,"extra":1,"type":"function","id":"1","function":{"note":5,"name":"f","arguments":"{}"}}]}`,
			`{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"arguments": {}, "name": "f", "note": 5}, "type": "function", "index": 3, "extra": 1}]}`,
			`{"role": "assistant", "content": [{"type": "text", "text": ""}], "tool_calls": [{"id": "1", "function": {"arguments": {}, "name": "f", "note": 5}, "type": "function", "index": 3, "extra": 1}]}`},
		{"arguments", `{"role":"assistant","content":"x","tool_calls":[{"function":{"arguments":"{\"b\": 1e3, \"a\": 0.10, \"n\": 12345678901234567890123, \"b\": -0}"}},{"function":{"arguments":{"a":[1]}}},{"function":{"arguments":""}},{"function":{"arguments":null}},{"function":{}},{"function":{"arguments":"{bad"}},{"function":{"arguments":"[1]"}},{"function":{"arguments":" null "}}]}`,
			`{"role": "assistant", "content": "x", "tool_calls": [{"function": {"arguments": {"b": 0, "a": 0.1, "n": 12345678901234567890123}}}, {"function": {"arguments": {"a": [1]}}}, {"function": {"arguments": {}}}, {"function": {"arguments": {}}}, {"function": {"arguments": {}}}, {"function": {"arguments": {}}}, {"function": {"arguments": {}}}, {"function": {"arguments": {}}}]}`, "*"},
		{"a call without a function", `{"role":"assistant","content":"x","tool_calls":[{"type":"custom"}]}`,
			`error: render chat template t: message 0: vLLM refuses a tool call without a function`, ""},
		{"a developer", `{"role":"developer","content":"x","tools":[{"type":"function","function":{"name":"f"}}]}`,
			`{"role": "developer", "content": "x", "tools": [{"type": "function", "function": {"name": "f"}}]}`,
			`{"role": "developer", "content": [{"type": "text", "text": "x"}], "tools": [{"type": "function", "function": {"name": "f"}}]}`},
		{"other roles", `{"role":"Human","content":"x","task":"t","name":null}`,
			`{"role": "Human", "content": "x", "task": "t"}`,
			`{"role": "Human", "content": [{"type": "text", "text": "x"}], "task": "t"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.text, prepared(t, showsText, chattemplate.VLLM, test.message))
			require.Equal(t, test.text, prepared(t, showsText, "", test.message), "vLLM is the default")
			switch test.parts {
			case "*": // the shape of the content is not what the case is about
			case "":
				require.Equal(t, test.text, prepared(t, showsParts, chattemplate.VLLM, test.message))
			default:
				require.Equal(t, test.parts, prepared(t, showsParts, chattemplate.VLLM, test.message))
			}
		})
	}
}

func TestRender_PreparesMessagesAsSGLang(t *testing.T) {
	for _, test := range []struct{ name, message, text, parts string }{
		{"null content",
			`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]}`,
			`{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "index": null, "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]}`, ""},
		{"missing content",
			`{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}`,
			`{"role": "assistant", "content": "", "tool_calls": [{"id": null, "index": null, "type": "function", "function": {"name": "f", "arguments": {}}}]}`, ""},
		{"text", `{"role":"user","content":"hi","name":"bob"}`, `{"role": "user", "content": "hi"}`, ""},
		{"text parts", `{"role":"user","content":[{"type":"text","text":"a","cache_control":1},{"type":"text","text":""},{"type":"text","text":"b"}]}`,
			`{"role": "user", "content": "a  b"}`,
			`{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]}`},
		{"parts of an answer", `{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}],"reasoning_content":"r"}`,
			`{"role": "assistant", "content": "a", "reasoning_content": "r"}`,
			`{"role": "assistant", "reasoning_content": "r", "content": [{"type": "text", "text": "a"}]}`},
		{"no parts", `{"role":"system","content":[],"name":"s"}`,
			`{"role": "system", "content": "", "name": "s"}`,
			`{"role": "system", "name": "s", "content": []}`},
		{"an image", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"see"}]}`,
			`{"role": "user", "content": "see"}`,
			`{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "see"}]}`},
		{"a part that is text", `{"role":"user","content":["a"]}`,
			`error: render chat template t: message 0: SGLang refuses a content part that is not an object`, ""},
		{"an unknown part", `{"role":"user","content":[{"type":"output_text","text":"a"}]}`,
			`error: render chat template t: message 0: SGLang refuses a content part of type "output_text"`, ""},
		{"a thought of the user", `{"role":"user","content":[{"type":"thinking","thinking":"a"}]}`,
			`error: render chat template t: message 0: SGLang refuses a content part of type "thinking"`, ""},
		{"a tool's answer", `{"role":"tool","tool_call_id":"1","name":"f","content":null}`,
			`{"role": "tool", "content": "", "tool_call_id": "1", "name": "f"}`, ""},
		{"a tool's answer in parts", `{"role":"tool","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"tool_call_id":"1"}`,
			`{"role": "tool", "content": "a b", "tool_call_id": "1"}`,
			`{"role": "tool", "tool_call_id": "1", "content": "a b"}`},
		{"a reference to a tool", `{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a"},{"type":"tool_reference","name":"b"}]}`,
			`{"role": "tool", "content": "a", "tool_call_id": "1"}`,
			`{"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "a"}, {"type": "tool_reference", "name": "b"}]}`},
		{"reasoning is not reasoning_content", `{"role":"assistant","content":"x","reasoning":"r"}`,
			`{"role": "assistant", "content": "x"}`, ""},
		{"null and unknown fields", `{"role":"Assistant","content":"x","tool_calls":null,"refusal":null,"reasoning_content":null,"tool_call_id":null,"annotations":[]}`,
			`{"role": "assistant", "content": "x"}`, ""},
		{"no calls", `{"role":"assistant","content":"x","tool_calls":[]}`, `{"role": "assistant", "content": "x", "tool_calls": []}`, ""},
		{"fields of calls", `{"role":"assistant","content":"","reasoning_content":"r","tool_calls":[{"type":"function","index":3,"extra":1,"id":"1","function":{"note":5,"arguments":"{}","name":"f"}}]}`,
			`{"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": [{"id": "1", "index": 3, "type": "function", "function": {"name": "f", "arguments": {}}}]}`, ""},
		{"arguments", `{"role":"assistant","content":"x","tool_calls":[{"function":{"name":"f","arguments":"{\"b\": 1e3, \"n\": [18446744073709551615, 18446744073709551616, -9223372036854775809]}"}},{"function":{"name":"f","arguments":{"a":[1]}}},{"function":{"name":"f","arguments":""}},{"function":{"name":"f"}},{"function":{"name":"f","arguments":"{bad"}},{"function":{"name":"f","arguments":"[1]"}}]}`,
			`{"role": "assistant", "content": "x", "tool_calls": [` +
				`{"id": null, "index": null, "type": "function", "function": {"name": "f", "arguments": {"b": 1000.0, "n": [18446744073709551615, 1.8446744073709552e+19, -9.223372036854776e+18]}}}, ` +
				`{"id": null, "index": null, "type": "function", "function": {"name": "f", "arguments": {"a": [1]}}}, ` +
				`{"id": null, "index": null, "type": "function", "function": {"name": "f", "arguments": {}}}, ` +
				`{"id": null, "index": null, "type": "function", "function": {"name": "f", "arguments": null}}, ` +
				`{"id": null, "index": null, "type": "function", "function": {"name": "f", "arguments": {}}}, ` +
				`{"id": null, "index": null, "type": "function", "function": {"name": "f", "arguments": {}}}]}`, ""},
		{"other roles", `{"role":"human","content":"x"}`, `error: render chat template t: message 0: SGLang refuses the role "human"`, ""},
		{"a developer", `{"role":"developer","content":"x","tools":[{"type":"function","function":{"name":"f"}}]}`,
			`{"role": "developer", "content": "x", "tools": [{"type": "function", "function": {"name": "f"}}]}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.parts == "" {
				test.parts = test.text
			}
			require.Equal(t, test.text, prepared(t, showsText, chattemplate.SGLang, test.message))
			require.Equal(t, test.parts, prepared(t, showsParts, chattemplate.SGLang, test.message))
		})
	}
}

func TestRender_HandsMessagesOverAsTheyAre(t *testing.T) {
	raw := `{"role": "assistant", "content": null, "tool_calls": [{"function": {"arguments": "{\"a\": 1}"}}], "other": [1]}`
	for _, source := range []string{showsText, `{% for message in messages %}{% for part in message.content or [] %}{% endfor %}{{ message|tojson }}{% endfor %}`} {
		require.Equal(t, raw, prepared(t, source, chattemplate.Transformers, raw))
	}
	require.Equal(t, `error: render chat template t: message 0: there are no rules for an engine named "tgi": use vllm, sglang or transformers`, prepared(t, showsText, "tgi", raw))
}

// A call-only answer is what killed conversations: templates search the content or add to it.
func TestRender_WritesNoNoneForACallOnlyAnswer(t *testing.T) {
	for _, source := range []string{
		`{% for m in messages %}{% if '</think>' in m.content %}{% endif %}{{ '[' + m.content + ']' }}{% endfor %}`,
		`{% for m in messages %}[{{ m.content }}]{% endfor %}`,
	} {
		for _, engine := range []chattemplate.Engine{"", chattemplate.VLLM, chattemplate.SGLang} {
			for _, raw := range []string{
				`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
				`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
				`{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
			} {
				require.Equal(t, "[]", prepared(t, source, engine, raw))
			}
		}
	}
}

func TestRender_MakesAUsersMessageOfALastAnswerForSGLang(t *testing.T) {
	tmpl, err := chattemplate.Parse("t", `{% for m in messages %}{{ m|tojson }}{% endfor %}`)
	require.NoError(t, err)
	in := chattemplate.Input{Messages: []chat.Message{chat.User("hi"), chat.Assistant("I am", "r")}, Engine: chattemplate.SGLang, Cache: new(chattemplate.Cache)}
	for range 2 {
		got, err := tmpl.Render(in)
		require.NoError(t, err)
		require.Equal(t, `{"role": "user", "content": "hi"}{"role": "assistant", "content": "I am", "reasoning_content": "r"}`, got.Text)
		in.AddGenerationPrompt = true
		got, err = tmpl.Render(in)
		require.NoError(t, err)
		require.Equal(t, `{"role": "user", "content": "hi"}{"role": "user", "content": "I am"}`, got.Text)
		in.AddGenerationPrompt = false
	}
}

func TestRender_MakesSystemMessagesOfDevelopersForVLLM(t *testing.T) {
	const show = `{% for m in messages %}{{ m|tojson }}{% endfor %}`
	const loop = `{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}`
	developer, system, user := `{"role":"developer","content":"d","name":"n","tools":[]}`, `{"role":"system","content":"s"}`, `{"role":"user","content":"u"}`
	for _, test := range []struct {
		name     string
		source   string
		messages []string
		want     string
	}{
		{"the first", show, []string{developer, user}, `{"role": "system", "content": "d", "name": "n"}{"role": "user", "content": "u"}`},
		{"the first, in parts", show + loop, []string{developer}, `{"role": "system", "content": [{"type": "text", "text": "d"}], "name": "n"}`},
		{"after the system", show, []string{system, developer, user}, `{"role": "system", "content": "s\n\nd"}{"role": "user", "content": "u"}`},
		{"after a user", show, []string{user, developer}, `{"role": "system", "content": "d"}{"role": "user", "content": "u"}`},
		{"after a user, in parts", show + loop, []string{user, developer, system}, `{"role": "system", "content": "d\n\ns"}{"role": "user", "content": [{"type": "text", "text": "u"}]}`},
		{"none", show, []string{user, system, system}, `{"role": "user", "content": "u"}{"role": "system", "content": "s"}{"role": "system", "content": "s"}`},
		{"named by the template", show + `{% if "developer" == '' %}{% endif %}`, []string{developer, system}, `{"role": "developer", "content": "d", "name": "n", "tools": []}{"role": "system", "content": "s"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			tmpl, err := chattemplate.Parse("t", test.source)
			require.NoError(t, err)
			var in chattemplate.Input
			for _, raw := range test.messages {
				in.Messages = append(in.Messages, message(t, raw))
			}
			in.Cache = new(chattemplate.Cache)
			for range 2 {
				got, err := tmpl.Render(in)
				require.NoError(t, err)
				require.Equal(t, test.want, got.Text)
			}
		})
	}
}

func TestRender_TriesBareFunctionsForSGLang(t *testing.T) {
	tmpl, err := chattemplate.Parse("t", `{% for tool in tools %}{{ 'name: ' + tool.name }}{% endfor %}`)
	require.NoError(t, err)
	in := chattemplate.Input{Tools: []json.RawMessage{json.RawMessage(`{"type":"function","function":{"name":"f"}}`), json.RawMessage(`{"name":"g"}`)}, Engine: chattemplate.SGLang}
	got, err := tmpl.Render(in)
	require.NoError(t, err)
	require.Equal(t, "name: fname: g", got.Text)
	in.Engine = chattemplate.VLLM
	_, err = tmpl.Render(in)
	require.Error(t, err)
}

// FuzzMessages hands messages of any shape to templates: no engine's rules may fail on one
// otherwise than with an error, or give another result with a cache.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1e400}"}}]}`,
		`{"role":"tool","content":[{"type":"text","text":"a"},{"type":"tool_reference","name":"b"},"c",null,5,{"image_url":{}},{"type":7}]}`,
		`{"role":"developer","content":[{"type":"text","text":null,"text":"twice"}],"tools":5}`,
		`{"role":"assistant","tool_calls":[{"function":{"arguments":[]}},{"function":7}],"reasoning":{},"reasoning_content":[1],"role":"user"}`,
		`{"role":"ASSISTANT","content":"x","name":5,"task":{}}`,
	} {
		f.Add([]byte(seed))
	}
	var templates []*chattemplate.Template
	for _, source := range []string{showsText, showsParts, `{% for m in messages %}{{ m|tojson }}{% endfor %}`} {
		tmpl, err := chattemplate.Parse("t", source)
		require.NoError(f, err)
		templates = append(templates, tmpl)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := chat.Decode(raw)
		if err != nil {
			return
		}
		for _, tmpl := range templates {
			for _, engine := range []chattemplate.Engine{chattemplate.VLLM, chattemplate.SGLang, chattemplate.Transformers} {
				in := chattemplate.Input{Messages: []chat.Message{chat.User("hi"), m}, AddGenerationPrompt: true, Engine: engine}
				want, wantErr := tmpl.Render(in)
				in.Cache = new(chattemplate.Cache)
				for range 2 {
					got, err := tmpl.Render(in)
					require.Equal(t, wantErr == nil, err == nil)
					require.Equal(t, want, got)
				}
			}
		}
	})
}

package tokens_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/chattemplate"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/agentloop/model/tokens"
	"github.com/hermes-env/hermes-env/agentloop/tokenizer"
	"github.com/hermes-env/hermes-env/parsers"
)

// published are the templates that the package of templates is tested with.
func published(t *testing.T) []string {
	f, err := os.Open(filepath.Join("..", "..", "chattemplate", "testdata", "chats.golden.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	var templates []string
	seen := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if source := gjson.GetBytes(lines.Bytes(), "template").String(); !seen[source] {
			seen[source] = true
			templates = append(templates, source)
		}
	}
	require.NoError(t, lines.Err())
	return templates
}

// asTheTemplateWrites samples what a template renders as the next answer of a wanted
// conversation: a model that was trained on just that.
type asTheTemplateWrites struct {
	t        *testing.T
	template *chattemplate.Template
	tok      *tokenizer.Tokenizer
	tools    []json.RawMessage
	wanted   []chat.Message // of which the assistant's are sampled
	at       int
	texts    []string
	respell  *strings.Replacer // of what is sampled
}

func (c *asTheTemplateWrites) render(messages []chat.Message, generate bool) (string, error) {
	out, err := c.template.Render(chattemplate.Input{Messages: messages, Tools: c.tools, AddGenerationPrompt: generate, BOSToken: "<|endoftext|>", EOSToken: modeltest.EndOfText})
	return out.Text, err
}

// answer is the text of the next answer with the token that ends it, "" where the
// template gives no hint.
func (c *asTheTemplateWrites) answer() string {
	for c.wanted[c.at].Role() != chat.RoleAssistant {
		c.at++
	}
	prompt, err := c.render(c.wanted[:c.at], true)
	require.NoError(c.t, err)
	whole, err := c.render(c.wanted[:c.at+1], false)
	require.NoError(c.t, err)
	c.at++
	text, ok := strings.CutPrefix(whole, prompt)
	if !ok {
		return ""
	}
	text, _, _ = strings.Cut(text, modeltest.EndOfText)
	return text
}

func (c *asTheTemplateWrites) Complete(_ context.Context, req *model.Request) (*model.Response, error) {
	text := c.answer()
	if text == "" {
		text = c.wanted[c.at-1].Text()
	}
	text = c.respell.Replace(text)
	c.texts = append(c.texts, text)
	ids, err := c.tok.Encode(text+modeltest.EndOfText, false)
	require.NoError(c.t, err)
	return &model.Response{FinishReason: "stop", Capture: &model.Capture{
		Tokens: ids, Logprobs: make([]float64, len(ids)), StopToken: -1, PromptTokens: len(req.Prompt), SampledTokens: len(ids),
	}}, nil
}

func play(t *testing.T, source string, parser *parsers.Format, toolset *chat.Toolset, wanted []chat.Message, respell ...*strings.Replacer) (*tokens.Session, *asTheTemplateWrites, []chat.Message) {
	dir := folder(t, modeltest.ChatML)
	tok, err := tokenizer.Load(dir)
	require.NoError(t, err)
	local, err := tokens.NewLocal(tok, tokenizer.Config{BOSToken: "<|endoftext|>", EOSToken: modeltest.EndOfText, ChatTemplates: map[string]string{"default": source}}, "")
	require.NoError(t, err)
	template, err := chattemplate.Parse("t", source)
	require.NoError(t, err)
	client := &asTheTemplateWrites{t: t, template: template, tok: tok, wanted: wanted, respell: strings.NewReplacer()}
	if len(respell) > 0 {
		client.respell = respell[0]
	}
	gjson.ParseBytes(toolset.JSON()).ForEach(func(_, v gjson.Result) bool {
		client.tools = append(client.tools, json.RawMessage(v.Raw))
		return true
	})
	session, err := tokens.New(tokens.Config{Client: client, Renderer: local, Parser: parser})
	require.NoError(t, err)
	var messages []chat.Message
	for _, m := range wanted {
		if m.Role() != chat.RoleAssistant {
			messages = append(messages, m)
			continue
		}
		resp, err := session.Complete(t.Context(), &model.Request{Messages: messages, Tools: toolset})
		require.NoError(t, err)
		messages = append(messages, resp.Message)
	}
	return session, client, messages
}

func TestPlainConversationsStayOneSequenceUnderPublishedTemplates(t *testing.T) {
	tried := 0
	for i, source := range published(t) {
		wanted := []chat.Message{chat.User("Hi"), chat.Assistant("Hello!", ""), chat.User("And?"), chat.Assistant("The file is here.", ""), chat.User("Thanks"), chat.Assistant("Bye", "")}
		template, err := chattemplate.Parse("t", source)
		if err != nil {
			continue
		}
		// Those that end an answer otherwise than the synthetic model are left to the
		// tests of other ends; those of the expressions render no conversation.
		probe := &asTheTemplateWrites{template: template}
		out, err := probe.render(wanted[:2], false)
		generating, err2 := probe.render(wanted[:1], true)
		if err != nil || err2 != nil || !strings.HasPrefix(out, generating) || !strings.Contains(out[len(generating):], modeltest.EndOfText) {
			continue
		}
		tried++
		session, client, _ := play(t, source, nil, nil, wanted)
		require.NoError(t, session.Trainable())
		all := session.Sequences()
		for _, s := range all[1:] {
			require.Contains(t, s.Fork, "template", "template %d", i)
		}
		if len(all) > 1 {
			text, err := client.render(wanted[:3], true)
			require.NoError(t, err)
			require.NotContains(t, text, client.texts[0]+modeltest.EndOfText, "template %d writes the first answer as it was sampled; why a fork: %s", i, all[1].Fork)
		}
	}
	require.Greater(t, tried, 3)
}

// underPublishedTemplates calls use with each template that writes a conversation with a
// call as an extension of its prompts, and the parser of its calls. respell changes the
// text of the call as the template writes it.
func underPublishedTemplates(t *testing.T, arguments string, respell *strings.Replacer, use func(i int, source string, parser *parsers.Format, set *chat.Toolset, wanted []chat.Message)) {
	set := terminal(t)
	for i, source := range published(t) {
		template, err := chattemplate.Parse("t", source)
		if err != nil {
			continue
		}
		call := chat.ToolCall{ID: "abcdefghi", Name: "terminal", Arguments: arguments}
		wanted := []chat.Message{chat.User("List"), chat.Assistant("", "", call), chat.Tool("abcdefghi", "a b"), chat.Assistant("Two files.", "")}
		probe := &asTheTemplateWrites{template: template, tools: []json.RawMessage{json.RawMessage(gjson.GetBytes(set.JSON(), "0").Raw)}}
		prompt, err := probe.render(wanted[:1], true)
		out, err2 := probe.render(wanted[:2], false)
		whole, err3 := probe.render(wanted, false)
		if err != nil || err2 != nil || err3 != nil || !strings.HasPrefix(out, prompt) || !strings.HasPrefix(whole, out) || !strings.Contains(out[len(prompt):], modeltest.EndOfText) {
			continue
		}
		answer, _, _ := strings.Cut(out[len(prompt):], modeltest.EndOfText)
		for _, parser := range parsers.All() {
			parsed := parser.Parse(respell.Replace(answer), nil)
			if len(parsed.Calls) != 1 || parsed.Calls[0].Name != "terminal" || !json.Valid([]byte(parsed.Calls[0].Arguments)) {
				continue
			}
			use(i, source, parser, set, wanted)
			break
		}
	}
}

func TestToolCallsStayOneSequenceUnderPublishedTemplates(t *testing.T) {
	tried := map[string]int{}
	underPublishedTemplates(t, `{"command": "ls"}`, strings.NewReplacer(), func(i int, source string, parser *parsers.Format, set *chat.Toolset, wanted []chat.Message) {
		tried[parser.Name()]++
		session, _, messages := play(t, source, parser, set, wanted)
		require.Len(t, messages[1].ToolCalls(), 1)
		all := session.Sequences()
		require.Len(t, all, 1, "template %d with parser %s: %s", i, parser.Name(), all[len(all)-1].Fork)
		require.NoError(t, session.Trainable())
	})
	require.NotEmpty(t, tried)
}

func TestSession_KeepsTheSampledSpellingUnderPublishedTemplates(t *testing.T) {
	drifted := 0
	respell := strings.NewReplacer("1000.0", "1e3", "0.1", "0.10")
	underPublishedTemplates(t, `{"command": "ls", "n": 1000.0, "f": 0.1}`, respell, func(i int, source string, parser *parsers.Format, set *chat.Toolset, wanted []chat.Message) {
		session, client, messages := play(t, source, parser, set, wanted, respell)
		require.Len(t, messages[1].ToolCalls(), 1)
		all := session.Sequences()
		require.Len(t, all, 1, "template %d with parser %s: %s", i, parser.Name(), all[len(all)-1].Fork)
		text, err := client.render(messages[:3], true)
		require.NoError(t, err)
		// Formats without types leave a number of an unknown argument the text that it is.
		require.Equal(t, !strings.Contains(text, client.texts[0]), all[0].Turns[0].Drift, "template %d with parser %s", i, parser.Name())
		if all[0].Turns[0].Drift {
			drifted++
		}
	})
	require.Greater(t, drifted, 2)
}

// TestPiecesThatBeginWithASpaceAreJoinedAsInTheMiddleOfAText is about tokenizers that
// put a space before the first word of a text and take it off again when decoding.
func TestPiecesThatBeginWithASpaceAreJoinedAsInTheMiddleOfAText(t *testing.T) {
	const template = `<s>{% for m in messages %}{% if m.role == 'user' %}<|start|> {{ m.content }}<|end|>{% else %} {{ m.content | trim }}</s>{% endif %}{% endfor %}`
	for _, name := range []string{"piece_first", "piece_never", "piece_prepend", "piece_always"} {
		t.Run(name, func(t *testing.T) {
			tok, err := tokenizer.LoadFile(filepath.Join("..", "..", "tokenizer", "testdata", name+".json"))
			require.NoError(t, err)
			local, err := tokens.NewLocal(tok, tokenizer.Config{BOSToken: "<s>", EOSToken: "</s>", ChatTemplates: map[string]string{"default": template}}, "")
			require.NoError(t, err)
			end, _ := tok.ID("</s>")
			client := scripted(func(prompt []int) []int {
				all, err := tok.Encode("<|end|> the tools run", false)
				require.NoError(t, err)
				return all[1:] // after the token that ends the prompt
			})
			client.end = end
			session, err := tokens.New(tokens.Config{Client: client, Renderer: local})
			require.NoError(t, err)
			messages := []chat.Message{chat.User("what is the sum")}
			for range 3 {
				resp, err := session.Complete(t.Context(), &model.Request{Messages: messages})
				require.NoError(t, err)
				messages = append(messages, resp.Message, chat.User("it came"))
			}
			all := session.Sequences()
			require.Len(t, all, 1, "%+v", all)
			text, _, err := local.Render(t.Context(), &model.Request{Messages: messages[:len(messages)-1]})
			require.NoError(t, err)
			canonical, err := tok.Encode(text, false)
			require.NoError(t, err)
			require.Equal(t, canonical, all[0].Tokens)
			if name != "piece_prepend" { // which doubles spaces behind special tokens whatever is encoded
				require.Equal(t, text, tok.Decode(all[0].Tokens, false))
			}
		})
	}
}

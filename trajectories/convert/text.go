package convert

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/chattemplate"
	"github.com/hermes-env/hermes-env/parsers"
	"github.com/hermes-env/hermes-env/trajectories"
)

// frame is how a model family marks who speaks.
type frame struct {
	begin string // of the whole text
	turn  func(role, text string) string
	tool  string // role of the turns that carry answers
}

// frameOf returns the frame of a tool-call format, false for formats whose models
// have frames of their own that only their chat template knows.
func frameOf(parser string) (frame, bool) {
	chatML := frame{tool: "user", turn: func(role, text string) string {
		return "<|im_start|>" + role + "\n" + text + "<|im_end|>\n"
	}}
	switch parser {
	case "hermes":
		chatML.tool = "tool"
		return chatML, true
	case "qwen", "qwen3_coder":
		return chatML, true
	case "llama3_json":
		return frame{begin: "<|begin_of_text|>", tool: "ipython", turn: func(role, text string) string {
			return "<|start_header_id|>" + role + "<|end_header_id|>\n\n" + text + "<|eot_id|>"
		}}, true
	case "kimi_k2":
		return frame{tool: "tool", turn: func(role, text string) string {
			return "<|im_" + role + "|>" + role + "<|im_middle|>" + text + "<|im_end|>"
		}}, true
	case "glm45":
		return frame{begin: "[gMASK]<sop>", tool: "observation", turn: func(role, text string) string {
			return "<|" + role + "|>\n" + text
		}}, true
	}
	return frame{}, false
}

// TextConfig says how conversations become text.
type TextConfig struct {
	// Parser names the tool-call format, for example hermes or qwen3_coder.
	Parser string
	// Template is the source of a chat template, or a tokenizer_config.json that
	// holds one; it wins over Parser. TemplateName is for messages.
	Template, TemplateName string
	// Variables are further variables of the template.
	Variables chat.Object
}

// textWriter writes conversations as the text of one model family.
type textWriter struct {
	format   *parsers.Format
	frame    frame
	template *chattemplate.Template
	tokens   chattemplate.Input // its special tokens and variables
}

func newTextWriter(c TextConfig) (*textWriter, error) {
	if c.Template != "" {
		return newTemplateWriter(c)
	}
	if c.Parser == "" {
		return nil, fmt.Errorf("the format text needs --parser NAME or --chat-template FILE")
	}
	name := c.Parser
	if name == "qwen3" || name == "qwen2.5" || name == "qwen25" {
		name = "qwen"
	}
	format, err := parsers.Lookup(name)
	if err != nil {
		return nil, err
	}
	f, ok := frameOf(format.Name())
	if !ok {
		return nil, fmt.Errorf("how models of the format %s mark turns is known to their chat template alone: give it with --chat-template FILE (without one: hermes, qwen, qwen3_coder, llama3_json, kimi_k2, glm45)", format.Name())
	}
	return &textWriter{format: format, frame: f}, nil
}

func newTemplateWriter(c TextConfig) (*textWriter, error) {
	w := &textWriter{tokens: chattemplate.Input{Extra: c.Variables}}
	source := c.Template
	if v := gjson.Parse(source); gjson.Valid(source) && v.IsObject() {
		for name, into := range map[string]*string{"bos_token": &w.tokens.BOSToken, "eos_token": &w.tokens.EOSToken, "pad_token": &w.tokens.PadToken, "unk_token": &w.tokens.UnkToken} {
			token := v.Get(name)
			if token.IsObject() {
				token = token.Get("content")
			}
			*into = token.String()
		}
		template := v.Get("chat_template")
		if template.IsArray() {
			list := template
			template = list.Get(`#(name=="tool_use").template`)
			if !template.Exists() {
				template = list.Get(`#(name=="default").template`)
			}
		}
		if source = template.String(); source == "" {
			return nil, fmt.Errorf("%s holds no chat_template", c.TemplateName)
		}
	}
	var err error
	w.template, err = chattemplate.Parse(c.TemplateName, source)
	return w, err
}

func (w *textWriter) render(r *Row) (string, losses, error) {
	var l losses
	if w.template != nil {
		in := w.tokens
		in.Messages, in.Tools, in.Now = r.Messages, r.Tools, r.FinishedAt
		if r.Tools == nil {
			for _, raw := range gjson.Parse(toolsText(r)).Array() {
				in.Tools = append(in.Tools, json.RawMessage(raw.Raw))
			}
		}
		out, err := w.template.Render(in)
		if err != nil {
			return "", nil, fmt.Errorf("render rollout %s with the chat template: %w", r.ID, err)
		}
		for _, m := range r.Messages {
			l.oddMembers(m, "name") // the engine hands no other field to templates
		}
		return out.Text, l, nil
	}
	var b strings.Builder
	b.WriteString(w.frame.begin)
	messages := r.Messages
	w.system(&b, r, &messages, &l)
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		l.oddMembers(m)
		switch m.Role() {
		case chat.RoleTool:
			end := i
			for end < len(messages) && messages[end].Role() == chat.RoleTool {
				end++
			}
			turns, err := w.results(messages[i:end])
			i = end - 1
			if err != nil {
				return "", nil, fmt.Errorf("write rollout %s as text: %w", r.ID, err)
			}
			for _, t := range turns {
				b.WriteString(w.frame.turn(w.frame.tool, t))
			}
		case chat.RoleAssistant:
			b.WriteString(w.frame.turn("assistant", w.answer(m, &l)))
		default:
			b.WriteString(w.frame.turn(string(m.Role()), m.Text()))
		}
	}
	return b.String(), l, nil
}

// system writes the system turn with the tools, where the format has a published
// prompt for them.
func (w *textWriter) system(b *strings.Builder, r *Row, messages *[]chat.Message, l *losses) {
	if prompt := w.toolPrompt(r, messages, l); prompt != "" {
		b.WriteString(w.frame.turn("system", prompt))
	}
}

// toolPrompt returns the text of the system turn that shows the tools, and takes the
// system message out of the messages; "" where there are none to show.
func (w *textWriter) toolPrompt(r *Row, messages *[]chat.Message, l *losses) string {
	names := r.names()
	if len(names) == 0 {
		return ""
	}
	if n := w.format.Name(); n != "hermes" && n != "qwen" {
		l.add("tool definitions (only the chat template knows where this format puts them)", 1)
		return ""
	}
	prompt := trajectories.NewShareGPT(trajectories.ShareGPTConfig{Tools: toolset(r.Tools, r.Rollout.Tools)}).SystemPrompt(names)
	if list := *messages; len(list) > 0 && isSystem(list[0]) {
		prompt = list[0].Text() + "\n\n" + prompt
		*messages = list[1:]
	}
	return prompt
}

// answer is an assistant message in the model's own format. Calls that the format
// can't express are left out and counted.
func (w *textWriter) answer(m chat.Message, l *losses) string {
	var calls []parsers.Call
	for _, c := range m.ToolCalls() {
		arguments := c.Arguments
		if v := gjson.Parse(arguments); !gjson.Valid(arguments) || !v.IsObject() {
			l.add("arguments of tool calls that are no JSON object", 1)
			arguments = "{}"
		}
		calls = append(calls, parsers.Call{ID: c.ID, Name: c.Name, Arguments: arguments})
	}
	text, err := w.format.Render(m.Text(), calls, nil)
	if err != nil {
		l.add("assistant messages the format can't express (their calls are left out)", 1)
		text = m.Text()
	}
	if reasoning := m.NativeReasoning(); strings.TrimSpace(reasoning) != "" {
		text = "<think>\n" + strings.Trim(reasoning, "\n") + "\n</think>\n\n" + text
	}
	return text
}

package chattemplate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Template is a parsed chat template. It is safe for concurrent use.
type Template struct {
	name         string
	body         []stmt
	vllm, sglang contentFormat
	developer    bool // it names the role developer
}

// Parse reads a template; name stands in messages. The error is a *SyntaxError.
func Parse(name, source string) (*Template, error) {
	tokens, err := lex(name, source)
	if err != nil {
		return nil, err
	}
	p := &parser{name: name, tokens: tokens}
	body, err := p.body()
	if err != nil {
		return nil, err
	}
	return &Template{
		name: name, body: body, vllm: vllmContentFormat(body), sglang: sglangContentFormat(source, body),
		developer: strings.Contains(source, `"developer"`) || strings.Contains(source, `'developer'`),
	}, nil
}

// preparation is how an engine prepares messages for the template.
func (t *Template) preparation(e Engine) preparation {
	switch e {
	case SGLang:
		return preparation{e, t.sglang}
	case Transformers:
		return preparation{engine: e}
	case "":
		e = VLLM
	}
	return preparation{e, t.vllm}
}

// Input is what a template renders.
type Input struct {
	Messages []chat.Message
	// Tools are tool definitions as JSON objects; none leaves the template's variable
	// tools None.
	Tools               []json.RawMessage
	AddGenerationPrompt bool
	// Special tokens under the names templates use; "" leaves a name undefined.
	BOSToken, EOSToken, PadToken, UnkToken string
	// Extra are further variables by name, such as enable_thinking.
	Extra chat.Object
	// Now is what strftime_now tells; zero means the time of rendering.
	Now time.Time
	// Engine is the server whose treatment of messages is followed; "" is VLLM.
	Engine Engine
	// Cache, when set, spares decoding again what earlier renderings with it decoded.
	Cache *Cache
}

// Rendered is the text of a conversation.
type Rendered struct {
	Text string
	// Generations are the parts between {% generation %} and {% endgeneration %}:
	// what the model said.
	Generations []Span
}

// Render renders a conversation. The error is a *RaisedError where the template
// itself refuses the conversation.
func (t *Template) Render(in Input) (Rendered, error) {
	how := t.preparation(in.Engine)
	names, err := t.variables(in, how)
	if err != nil {
		return Rendered{}, fmt.Errorf("render chat template %s: %w", t.name, err)
	}
	rendered, err := t.render(names, in.Now, in.Cache.buffer())
	if err != nil && how.engine == SGLang && len(in.Tools) > 0 {
		names["tools"] = bareFunctions(names["tools"])
		rendered, err = t.render(names, in.Now, in.Cache.buffer())
	}
	in.Cache.rendered(len(rendered.Text))
	return rendered, err
}

func (t *Template) render(names map[string]value, now time.Time, out []byte) (Rendered, error) {
	if now.IsZero() {
		now = time.Now()
	}
	r := &renderer{now: now, out: out}
	root := &scope{names: names}
	err := r.runAll(root.child(), t.body)
	if errors.Is(err, errBreak) || errors.Is(err, errContinue) {
		err = failf("break or continue outside a loop")
	}
	if err != nil {
		return Rendered{}, fmt.Errorf("render chat template %s: %w", t.name, err)
	}
	return Rendered{Text: string(r.out), Generations: r.generations}, nil
}

func (t *Template) variables(in Input, how preparation) (map[string]value, error) {
	names := map[string]value{"add_generation_prompt": in.AddGenerationPrompt, "tools": nil, "documents": nil}
	for name, token := range map[string]string{"bos_token": in.BOSToken, "eos_token": in.EOSToken, "pad_token": in.PadToken, "unk_token": in.UnkToken} {
		if token != "" {
			names[name] = token
		}
	}
	messages := &list{items: make([]value, len(in.Messages))}
	for i, m := range in.Messages {
		v, err := in.Cache.message(i, m.JSON(), how)
		if err != nil {
			return nil, err
		}
		messages.items[i] = v
	}
	switch {
	case how.engine == SGLang && in.AddGenerationPrompt:
		answersAsUser(messages)
	case how.engine == VLLM && !t.developer:
		developersAsSystem(messages)
	}
	names["messages"] = messages
	if len(in.Tools) > 0 {
		tools := &list{items: make([]value, len(in.Tools))}
		for i, raw := range in.Tools {
			v, err := in.Cache.tool(i, raw)
			if err != nil {
				return nil, err
			}
			tools.items[i] = v
		}
		names["tools"] = tools
	}
	for _, field := range in.Extra {
		v, err := decodeJSON(field.Value)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", field.Key, err)
		}
		names[field.Key] = v
	}
	return names, nil
}

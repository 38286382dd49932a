package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/chattemplate"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/tokenizer"
	"github.com/tidwall/gjson"
)

// Renderer turns conversations into the text and the ids that a model reads. It is
// shared by sessions and safe for concurrent use.
type Renderer interface {
	// Render returns the text of a conversation up to where the model answers. ids
	// are those of the text, or nil where Encode has to be asked.
	Render(ctx context.Context, req *model.Request) (text string, ids []int, err error)
	// Encode returns the ids of text. Special tokens in it count as such; none is added.
	Encode(ctx context.Context, text string) ([]int, error)
	// Decode returns the text of ids, special tokens included.
	Decode(ctx context.Context, ids []int) (string, error)
	// StopTokens are the ids that end an answer; nil when only the server knows.
	StopTokens() []int
}

// Local renders with the template and the tokenizer of a model on this machine.
type Local struct {
	tokenizer *tokenizer.Tokenizer
	config    tokenizer.Config
	engine    chattemplate.Engine
	template  *chattemplate.Template
	withTools *chattemplate.Template
	stops     []int
	prompts   sync.Pool // of *[]int: prompts of sessions, which are large and short-lived

	mu    sync.Mutex
	tools map[*chat.Toolset][]json.RawMessage
}

var _ Renderer = (*Local)(nil)

// Open loads tokenizer.json, its configuration and the chat template from the folder
// of a model. Messages are prepared as the engine does that the model runs on.
func Open(dir string, engine chattemplate.Engine) (*Local, error) {
	t, err := tokenizer.Load(dir)
	if err != nil {
		return nil, err
	}
	config, err := tokenizer.LoadConfig(dir)
	if err != nil {
		return nil, err
	}
	l, err := NewLocal(t, config, engine)
	if err != nil {
		return nil, fmt.Errorf("model folder %s: %w", dir, err)
	}
	return l, nil
}

// NewLocal returns a renderer of parts that are loaded already.
func NewLocal(t *tokenizer.Tokenizer, config tokenizer.Config, engine chattemplate.Engine) (*Local, error) {
	source, ok := config.ChatTemplates["default"]
	if !ok {
		return nil, errors.New("there is no chat template: put chat_template.jinja beside tokenizer.json, or use a server that renders by itself")
	}
	l := &Local{tokenizer: t, config: config, engine: engine, tools: make(map[*chat.Toolset][]json.RawMessage)}
	var err error
	if l.template, err = chattemplate.Parse("default", source); err != nil {
		return nil, err
	}
	l.withTools = l.template
	if source, ok := config.ChatTemplates["tool_use"]; ok {
		if l.withTools, err = chattemplate.Parse("tool_use", source); err != nil {
			return nil, err
		}
	}
	l.stops = slices.Clone(config.EOSTokenIDs)
	if id, ok := t.ID(config.EOSToken); ok && config.EOSToken != "" && !slices.Contains(l.stops, id) {
		l.stops = append(l.stops, id)
	}
	return l, nil
}

// StopTokens are the end-of-text ids of the model's configuration.
func (l *Local) StopTokens() []int { return l.stops }

// Encode never fails for a tokenizer that knows every byte.
func (l *Local) Encode(_ context.Context, text string) ([]int, error) {
	return l.tokenizer.Encode(text, false)
}

// Decode never fails: an id the tokenizer doesn't have is an error only where its
// text is needed.
func (l *Local) Decode(_ context.Context, ids []int) (string, error) {
	for _, id := range ids {
		if _, ok := l.tokenizer.Token(id); !ok {
			return "", fmt.Errorf("the tokenizer has no token %d: is it that of the model that the server runs?", id)
		}
	}
	return l.tokenizer.Decode(ids, false), nil
}

// Render renders with the template of the model; chat_template_kwargs of the request
// are its variables.
func (l *Local) Render(_ context.Context, req *model.Request) (string, []int, error) {
	return l.render(req, nil)
}

// growing renders the conversation of one session, which grows: each message is decoded
// once. It is not safe for concurrent use.
type growing struct {
	*Local
	cache chattemplate.Cache
}

// Render is Local's.
func (g *growing) Render(_ context.Context, req *model.Request) (string, []int, error) {
	return g.render(req, &g.cache)
}

func (l *Local) render(req *model.Request, cache *chattemplate.Cache) (string, []int, error) {
	in := chattemplate.Input{
		Messages: req.Messages, AddGenerationPrompt: true, Engine: l.engine, Cache: cache,
		BOSToken: l.config.BOSToken, EOSToken: l.config.EOSToken, PadToken: l.config.PadToken, UnkToken: l.config.UnkToken,
	}
	template := l.template
	if req.Tools.Len() > 0 {
		in.Tools = l.definitions(req.Tools)
		template = l.withTools
	}
	if raw := req.Extra.Get("chat_template_kwargs"); raw != nil {
		extra, err := chat.ParseObject(raw)
		if err != nil {
			return "", nil, fmt.Errorf("chat_template_kwargs in extra_body: %w", err)
		}
		in.Extra = extra
	}
	rendered, err := template.Render(in)
	return rendered.Text, nil, err
}

// maxToolsets bounds the cache of taken-apart toolsets; runs have a handful.
const maxToolsets = 64

func (l *Local) definitions(set *chat.Toolset) []json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if list, ok := l.tools[set]; ok {
		return list
	}
	var list []json.RawMessage
	gjson.ParseBytes(set.JSON()).ForEach(func(_, v gjson.Result) bool {
		list = append(list, json.RawMessage(v.Raw))
		return true
	})
	if len(l.tools) >= maxToolsets {
		clear(l.tools)
	}
	l.tools[set] = list
	return list
}

// Remote renders on servers, by their own tokenizer and template; nothing is rendered
// here.
type Remote struct{ server *model.ServerTokenizer }

var _ Renderer = Remote{}

// NewRemote returns a renderer that asks servers.
func NewRemote(server *model.ServerTokenizer) Remote { return Remote{server} }

// StopTokens returns nil: the server says what ended an answer.
func (Remote) StopTokens() []int { return nil }

// Encode asks /tokenize.
func (r Remote) Encode(ctx context.Context, text string) ([]int, error) {
	return r.server.Encode(ctx, text)
}

// Decode asks /detokenize.
func (r Remote) Decode(ctx context.Context, ids []int) (string, error) {
	return r.server.Decode(ctx, ids)
}

// Render asks /tokenize with messages, and /detokenize for their text.
func (r Remote) Render(ctx context.Context, req *model.Request) (string, []int, error) {
	ids, err := r.server.Render(ctx, req)
	if err != nil {
		return "", nil, err
	}
	text, err := r.server.Decode(ctx, ids)
	return text, ids, err
}

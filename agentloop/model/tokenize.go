package model

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/tidwall/gjson"
)

// ServerTokenizer renders conversations and translates between text and token ids on
// vLLM servers, by their /tokenize and /detokenize. It is safe for concurrent use.
type ServerTokenizer struct {
	servers []tokenizerServer
	policy  RetryPolicy
}

type tokenizerServer struct {
	tokenize, detokenize caller
}

// NewServerTokenizer returns a tokenizer over servers of the same model, which are
// asked in order until one answers. The policy says how long a question that no
// server answers is asked again.
func NewServerTokenizer(servers []Server, policy RetryPolicy) (*ServerTokenizer, error) {
	if len(servers) == 0 {
		return nil, errors.New("a tokenizer on the server needs at least one server")
	}
	t := &ServerTokenizer{policy: policy}
	shared := NewTransport(Limits{})
	for _, s := range servers {
		if s.Transport == nil {
			s.Transport = shared
		}
		tokenize, err := newCaller(s.root(), "/tokenize")
		if err != nil {
			return nil, err
		}
		detokenize, err := newCaller(s.root(), "/detokenize")
		if err != nil {
			return nil, err
		}
		t.servers = append(t.servers, tokenizerServer{tokenize, detokenize})
	}
	return t, nil
}

// CloseIdleConnections closes connections that wait for another request.
func (t *ServerTokenizer) CloseIdleConnections() {
	for _, s := range t.servers {
		s.tokenize.CloseIdleConnections()
		s.detokenize.CloseIdleConnections()
	}
}

// Render returns the ids of a conversation as the server renders it before an answer.
// Of the request's further fields those count that say how to render.
func (t *ServerTokenizer) Render(ctx context.Context, req *Request) ([]int, error) {
	prefix := appendPrefix(nil, chat.AppendString(nil, t.servers[0].tokenize.target.model), toolsJSON(req.Tools))
	suffix := []byte(`,"add_generation_prompt":true`)
	for _, f := range req.Extra {
		if f.Key == "chat_template_kwargs" || f.Key == "chat_template" {
			suffix = append(suffix, ',')
			suffix = chat.AppendString(suffix, f.Key)
			suffix = append(append(suffix, ':'), f.Value...)
		}
	}
	if len(req.Messages) == 0 {
		return nil, t.servers[0].tokenize.refuse(errors.New("the conversation holds no messages"))
	}
	messages, err := withReasoning(req.Messages)
	if err != nil {
		return nil, t.servers[0].tokenize.refuse(err)
	}
	body := chat.NewBody(prefix, messages, append(suffix, '}'))
	return t.tokens(ctx, func(c *caller) (gjson.Result, *Error) {
		return c.question(ctx, body.Size(), body.Reader)
	})
}

// withReasoning returns the messages with their reasoning_content as reasoning, too. vLLM's
// /tokenize reads the latter only, and so did its chat endpoint for some versions.
func withReasoning(messages []chat.Message) ([]chat.Message, error) {
	out := messages
	for i, m := range messages {
		if m.NativeReasoning() == "" {
			continue
		}
		content := m.Get("reasoning_content")
		if len(content) == 0 || content[0] != '"' || !isNull(m.Get("reasoning")) {
			continue
		}
		changed, err := m.With("reasoning", content)
		if err != nil {
			return nil, err
		}
		if &out[0] == &messages[0] {
			out = slices.Clone(messages)
		}
		out[i] = changed
	}
	return out, nil
}

// isNull says whether a field is missing or null.
func isNull(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// Encode returns the ids of text, without tokens that mark a beginning or an end.
func (t *ServerTokenizer) Encode(ctx context.Context, text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	return t.tokens(ctx, func(c *caller) (gjson.Result, *Error) {
		o := newObject(len(text) + 128)
		o.text("model", c.target.model)
		o.text("prompt", text)
		o.raw("add_special_tokens", "false")
		whole := o.close()
		return c.question(ctx, int64(len(whole)), reader(whole))
	})
}

// Decode returns the text of ids, special tokens included.
func (t *ServerTokenizer) Decode(ctx context.Context, list []int) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	var text string
	err := t.ask(ctx, func(s *tokenizerServer) *Error {
		o := newObject(len(list)*7 + 128)
		o.text("model", s.detokenize.target.model)
		o.ids("tokens", list)
		whole := o.close()
		root, failed := s.detokenize.question(ctx, int64(len(whole)), reader(whole))
		if failed != nil {
			return failed
		}
		prompt := root.Get("prompt")
		if prompt.Type != gjson.String {
			return s.detokenize.unusable(root, `"prompt"`)
		}
		text = strings.Clone(prompt.Str)
		return nil
	})
	return text, err
}

func (t *ServerTokenizer) tokens(ctx context.Context, send func(*caller) (gjson.Result, *Error)) ([]int, error) {
	var list []int
	err := t.ask(ctx, func(s *tokenizerServer) *Error {
		root, failed := send(&s.tokenize)
		if failed != nil {
			return failed
		}
		got, ok := ids(root.Get("tokens"))
		if n := count(root.Get("count")); !ok || n >= 0 && n != len(got) {
			return s.tokenize.unusable(root, `as many "tokens" as its "count" says`)
		}
		list = got
		return nil
	})
	return list, err
}

// question posts a body and returns the object that is the answer.
func (c *caller) question(ctx context.Context, size int64, body func() io.ReadCloser) (gjson.Result, *Error) {
	resp, raw, failed := c.send(ctx, size, body)
	if failed != nil {
		return gjson.Result{}, failed
	}
	return c.target.answer(resp, raw)
}

func (c *caller) unusable(root gjson.Result, what string) *Error {
	return c.target.failure(KindInvalidResponse, "the answer has not got "+what+": "+c.target.excerpt(root.Raw), "")
}

// ask puts a question to one server after the other, and again as the policy says.
func (t *ServerTokenizer) ask(ctx context.Context, question func(*tokenizerServer) *Error) error {
	once := clientFunc(func(ctx context.Context, _ *Request) (*Response, error) {
		var last *Error
		for i := range t.servers {
			if last = question(&t.servers[i]); last == nil {
				return &Response{}, nil
			}
			if !last.Retryable() && !last.Fatal() {
				break
			}
		}
		return nil, last
	})
	_, err := Retry(once, t.policy).Complete(ctx, &Request{})
	return err
}

// clientFunc is a function as a Client.
type clientFunc func(ctx context.Context, req *Request) (*Response, error)

func (f clientFunc) Complete(ctx context.Context, req *Request) (*Response, error) {
	return f(ctx, req)
}

// Offers says what a server with vLLM's API can do for token-exact sessions.
type Offers struct {
	Completions bool // /v1/completions, which takes token ids
	Tokenize    bool // /tokenize and /detokenize
	Generate    bool // /generate
}

// ProbeTokens asks a server which of its token endpoints exist, with requests that
// no server would generate for. It returns an *Error when the server can't be asked.
func ProbeTokens(ctx context.Context, s Server) (Offers, error) {
	if s.Timeout <= 0 || s.Timeout > maxProbe {
		s.Timeout = maxProbe
	}
	var offers Offers
	shared := s.Transport
	if shared == nil {
		own := NewTransport(Limits{})
		defer own.CloseIdleConnections()
		shared = own
	}
	s.Transport = shared
	for _, p := range []struct {
		server Server
		path   string
		found  *bool
	}{{s, "/completions", &offers.Completions}, {s.root(), "/tokenize", &offers.Tokenize}, {s.root(), "/generate", &offers.Generate}} {
		c, err := newCaller(p.server, p.path)
		if err != nil {
			return offers, err
		}
		_, _, failed := c.send(ctx, 2, reader([]byte("{}")))
		switch {
		case failed == nil, failed.Status == 400, failed.Status == 422, failed.Status == 500:
			*p.found = true
		case failed.Status == 404, failed.Status == 405, failed.Status == 501:
			// A model that is missing is told with 404, too, and the path with words of its own.
			*p.found = failed.Status == 404 && mentionsModel(strings.ToLower(failed.Message))
		default:
			return offers, failed
		}
	}
	return offers, nil
}

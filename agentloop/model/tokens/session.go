package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/parsers"
	"github.com/tidwall/gjson"
)

// Config is what the sessions of a run share.
type Config struct {
	// Client sends the requests: one that takes token ids where there is a Renderer,
	// else one that reports those of a chat completion. It may retry and choose
	// servers; sessions name their rollout as model.Request.Affinity.
	Client model.Client
	// Renderer renders conversations. nil leaves that to the server: it then tokenizes
	// what it sampled again on every turn, and the session forks where the ids differ.
	Renderer Renderer
	// Parser reads reasoning and tool calls from the text of answers; nil leaves it as
	// it is.
	Parser *parsers.Format
}

// Session is the token-exact client of one rollout. Complete is meant for one
// goroutine; what is read from the session may be read at any time.
type Session struct {
	cfg Config

	mu       sync.Mutex
	turns    []*turn // every answer that a later prompt or nothing followed, in order
	path     []*turn // those that the conversation so far is made of
	rendered string  // the prompt of the newest of them
	broken   error   // the first answer whose tokens are not known
	answers  int

	prompts     *sync.Pool        // room for prompts, shared with other sessions; nil for none
	checked     []json.RawMessage // messages that hold nothing but text, by place
	texts       map[int]string    // of single tokens
	tools       *chat.Toolset
	parserTools []parsers.Tool
}

var _ model.Session = (*Session)(nil)

// New returns a session without turns.
func New(cfg Config) (*Session, error) {
	if cfg.Client == nil {
		return nil, errors.New("a token-exact session needs a model client")
	}
	s := &Session{cfg: cfg}
	if local, ok := cfg.Renderer.(*Local); ok {
		s.cfg.Renderer, s.prompts = &growing{Local: local}, &local.prompts
	}
	return s, nil
}

// Complete renders the conversation, generates from its ids and keeps what was
// sampled. Answers of this session are found in the conversation by their place.
func (s *Session) Complete(ctx context.Context, req *model.Request) (*model.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.onlyText(req.Messages); err != nil {
		return nil, refuse(err)
	}
	if s.cfg.Renderer == nil {
		return s.capture(ctx, req)
	}
	text, ids, err := s.cfg.Renderer.Render(ctx, req)
	if err != nil {
		return nil, refuse(err)
	}
	left := s.rewind(len(req.Messages))
	if len(left) > 0 && strings.HasPrefix(s.rendered, text) && left[0].start == len(text) {
		s.forget(left) // the same prompt is sent again
		left = nil
	}
	place, err := s.place(ctx, req, text)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 && place.fork == "" {
		place.fork = "the conversation was taken up again from before an answer"
	}
	tail := ids
	if place.parent != nil || ids == nil {
		if tail, err = s.continuation(ctx, place.parent, text[place.from:]); err != nil {
			return nil, refuse(err)
		}
	}
	t := &turn{parent: place.parent, tail: tail, index: len(req.Messages), start: len(text), end: -1, open: opensReasoning(text), fork: place.fork}
	room := s.room(place.parent.size() + len(tail))
	prompt := append(place.parent.tokens((*room)[:0]), tail...)
	asked := *req
	asked.Prompt, asked.Messages, asked.Tools = prompt, nil, nil
	asked.StopTokens = append(append([]int(nil), req.StopTokens...), s.cfg.Renderer.StopTokens()...)
	resp, err := s.cfg.Client.Complete(ctx, &asked)
	if err != nil {
		return nil, err // nothing was kept: the same conversation may be sent again
	}
	s.answers++
	err = s.take(ctx, t, resp, prompt, &asked)
	if s.prompts != nil {
		s.prompts.Put(room) // clients don't keep what they were asked, once they answered
	}
	if err != nil {
		s.lose(err)
		return s.answer(resp, req, s.serverText(ctx, resp.Capture), t.open), nil
	}
	s.keep(t, text)
	return s.answer(resp, req, strings.TrimSuffix(t.text, t.stop), t.open), nil
}

// room returns a slice with room for a prompt.
func (s *Session) room(size int) *[]int {
	if s.prompts != nil {
		if room, ok := s.prompts.Get().(*[]int); ok && cap(*room) >= size {
			return room
		}
	}
	// Somewhat more than is needed: the next prompt is longer.
	room := make([]int, 0, size+size/4)
	return &room
}

// take checks what the server reported and fills the turn with it.
func (s *Session) take(ctx context.Context, t *turn, resp *model.Response, prompt []int, asked *model.Request) error {
	c := resp.Capture
	if err := checkCapture(c, prompt); err != nil {
		return err
	}
	t.sampled, t.logprobs, t.length = c.Tokens, c.Logprobs, t.parent.size()+len(t.tail)+len(c.Tokens)
	t.finish, t.version, t.server = resp.FinishReason, c.WeightVersion, resp.Server
	var err error
	if t.text, err = s.continued(ctx, prompt[len(prompt)-1], c.Tokens); err != nil {
		return err
	}
	last := c.Tokens[len(c.Tokens)-1]
	if !s.stops(last, resp, asked) {
		return nil
	}
	if t.stop, err = s.single(ctx, last); err != nil {
		return err
	}
	if !strings.HasSuffix(t.text, t.stop) {
		t.stop = ""
	}
	return nil
}

// continued is the text of ids within their sequence, of which before is the one in
// front of them: some decoders treat the beginning of a text unlike its middle.
func (s *Session) continued(ctx context.Context, before int, ids []int) (string, error) {
	first, err := s.single(ctx, before)
	if err != nil {
		return "", err
	}
	text, err := s.cfg.Renderer.Decode(ctx, append([]int{before}, ids...))
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(text, first) {
		return s.cfg.Renderer.Decode(ctx, ids) // they make up a character together
	}
	return text[len(first):], nil
}

// single is the text of one token, of which few are asked for again and again.
func (s *Session) single(ctx context.Context, id int) (string, error) {
	if text, ok := s.texts[id]; ok {
		return text, nil
	}
	text, err := s.cfg.Renderer.Decode(ctx, []int{id})
	if err == nil {
		if s.texts == nil {
			s.texts = make(map[int]string)
		}
		s.texts[id] = text
	}
	return text, err
}

// stops says whether the last sampled token is what ended the answer.
func (s *Session) stops(last int, resp *model.Response, asked *model.Request) bool {
	c := resp.Capture
	if resp.FinishReason != model.FinishStop || c.StopText != "" {
		return false
	}
	if c.StopToken >= 0 {
		return c.StopToken == last
	}
	for _, id := range asked.StopTokens {
		if id == last {
			return true
		}
	}
	// Only the server knows its end-of-text tokens: without a stop sequence nothing
	// else ends an answer.
	return s.cfg.Renderer.StopTokens() == nil && len(asked.Stop) == 0 && asked.Extra.Get("stop") == nil
}

// keep adds an answer to the tree.
func (s *Session) keep(t *turn, rendered string) {
	s.turns = append(s.turns, t)
	s.path = append(s.path, t)
	s.rendered = rendered
}

// lose notes that the tokens of the newest answer are not known. What follows can't
// continue it.
func (s *Session) lose(why error) {
	if s.broken == nil {
		s.broken = fmt.Errorf("answer %d: %w", s.answers, why)
	}
	s.path, s.rendered = nil, ""
}

// rewind takes answers off the path that the conversation does not hold, and returns
// them: their prompt is sent again, or another conversation begins.
func (s *Session) rewind(messages int) []*turn {
	n := len(s.path)
	for n > 0 && s.path[n-1].index >= messages {
		n--
	}
	left := s.path[n:]
	s.path = s.path[:n:n]
	return left
}

// forget drops answers that nothing will follow.
func (s *Session) forget(left []*turn) {
	s.turns = slices.DeleteFunc(s.turns, func(t *turn) bool { return slices.Contains(left, t) })
}

// answer makes a chat answer of a text.
func (s *Session) answer(resp *model.Response, req *model.Request, text string, open bool) *model.Response {
	said := read(s.cfg.Parser, text, open, s.toolsOf(req.Tools))
	resp.Message = said.message()
	if len(said.calls) > 0 && resp.FinishReason == model.FinishStop {
		resp.FinishReason = "tool_calls"
	}
	return resp
}

func (s *Session) toolsOf(set *chat.Toolset) []parsers.Tool {
	if s.cfg.Parser != nil && (set != s.tools || s.parserTools == nil) {
		s.tools, s.parserTools = set, parserTools(set)
	}
	return s.parserTools
}

// serverText is the answer as the server decoded it, for an answer whose tokens can't
// be used: the conversation goes on all the same.
func (s *Session) serverText(ctx context.Context, c *model.Capture) string {
	if c == nil {
		return ""
	}
	ends := s.cfg.Renderer.StopTokens()
	if c.StopToken >= 0 {
		ends = []int{c.StopToken}
	}
	for _, id := range ends {
		if end, err := s.single(ctx, id); err == nil && end != "" && strings.HasSuffix(c.Text, end) {
			return strings.TrimSuffix(c.Text, end)
		}
	}
	return c.Text
}

// capture has the server render the conversation and keeps the ids it reports.
func (s *Session) capture(ctx context.Context, req *model.Request) (*model.Response, error) {
	resp, err := s.cfg.Client.Complete(ctx, req)
	if err != nil {
		return nil, err
	}
	s.answers++
	if err := checkCapture(resp.Capture, nil); err != nil {
		s.lose(err)
		return resp, nil
	}
	c := resp.Capture
	if left := s.rewind(len(req.Messages)); len(left) > 0 && left[0].hasPrompt(c.Prompt) {
		s.forget(left)
	}
	t := &turn{
		index: len(req.Messages), end: -1, sampled: c.Tokens, logprobs: c.Logprobs, length: len(c.Prompt) + len(c.Tokens),
		finish: resp.FinishReason, version: c.WeightVersion, server: resp.Server,
	}
	for i := len(s.path) - 1; i >= 0 && t.parent == nil; i-- {
		if s.path[i].isPrefixOf(c.Prompt) {
			t.parent = s.path[i]
			s.path = s.path[:i+1]
		}
	}
	if newest := s.newest(); newest != nil && t.parent != newest {
		t.fork = "the server tokenized the conversation otherwise than it had sampled it"
	}
	if t.parent == nil {
		s.path = nil
	}
	t.tail = c.Prompt[t.parent.size():]
	s.keep(t, "")
	return resp, nil
}

func (s *Session) newest() *turn {
	if len(s.turns) == 0 {
		return nil
	}
	return s.turns[len(s.turns)-1]
}

// Sequences returns the tokens so far, one sequence per branch.
func (s *Session) Sequences() []model.Sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sequences(s.turns)
}

// Trainable says which answer's tokens are not known, if any.
func (s *Session) Trainable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.broken != nil:
		return s.broken
	case len(s.turns) == 0:
		return errors.New("the model gave no answer")
	}
	return nil
}

// Close does nothing: a session holds no connection.
func (s *Session) Close() error { return nil }

// refuse gives an error of this package the class of a request that can't be sent;
// those of servers keep theirs.
func refuse(err error) error {
	var known *model.Error
	if errors.As(err, &known) {
		return err
	}
	return &model.Error{Kind: model.KindBadRequest, Request: "token-exact session", Message: err.Error(), Err: err}
}

// onlyText refuses messages with parts that are no text: their tokens are made inside
// the server. Messages that were looked at before, being the same bytes, are not again.
func (s *Session) onlyText(messages []chat.Message) error {
	for i, m := range messages {
		raw := m.JSON()
		if i < len(s.checked) && len(raw) == len(s.checked[i]) && len(raw) > 0 && &raw[0] == &s.checked[i][0] {
			continue
		}
		if kind := foreignPart(m); kind != "" {
			return fmt.Errorf("message %d holds a part of type %q; token-exact sessions carry text only", i, kind)
		}
		s.checked = append(s.checked[:min(i, len(s.checked))], raw)
	}
	return nil
}

// foreignPart is the type of the first part that is no text, or "".
func foreignPart(m chat.Message) string {
	raw := m.Get("content")
	if len(raw) == 0 || raw[0] != '[' {
		return ""
	}
	foreign := ""
	gjson.ParseBytes(raw).ForEach(func(_, part gjson.Result) bool {
		if kind := part.Get("type").String(); part.IsObject() && kind != "text" {
			foreign = kind
		}
		return foreign == ""
	})
	return foreign
}

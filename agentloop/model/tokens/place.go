package tokens

import (
	"context"
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
)

// place is where a prompt joins the tree.
type place struct {
	parent *turn  // nil: a new root
	from   int    // offset in the rendered text of what follows the parent's answer
	fork   string // why the parent is not the newest answer
}

// place finds the answer that a rendered conversation continues. The newest one does
// when the text begins with its prompt, and what follows is its answer: character by
// character as sampled, or written otherwise by the template but saying the same. Else
// the conversation forks at the newest answer whose place the text still has.
func (s *Session) place(ctx context.Context, req *model.Request, text string) (place, error) {
	if len(s.path) == 0 {
		if len(s.turns) > 0 || s.broken != nil {
			return place{fork: "a new conversation"}, nil
		}
		return place{}, nil
	}
	last := s.path[len(s.path)-1]
	same := commonPrefix(s.rendered, text)
	why := ""
	switch {
	case last.end >= 0 && last.end <= same:
		return place{parent: last, from: last.end}, nil
	case last.start <= same:
		end, drift, reason, err := s.locate(ctx, req, last, text)
		if err != nil {
			return place{}, err
		}
		if reason == "" {
			last.end, last.drift = end, drift
			return place{parent: last, from: end}, nil
		}
		why = fmt.Sprintf("the chat template rewrites answer %d: %s", len(s.path), reason)
	default:
		why = s.rewritten(same)
	}
	for i := len(s.path) - 2; i >= 0; i-- {
		if end := s.path[i].end; end >= 0 && end <= same {
			s.path = s.path[:i+1]
			return place{parent: s.path[i], from: end, fork: why}, nil
		}
	}
	s.path = nil
	return place{fork: why}, nil
}

// rewritten says which part of the conversation is no longer what it was.
func (s *Session) rewritten(same int) string {
	for i, t := range s.path {
		if same < t.start {
			return fmt.Sprintf("what stands before answer %d was rewritten", i+1)
		}
		if t.end < 0 || same < t.end {
			return fmt.Sprintf("answer %d was rewritten", i+1)
		}
	}
	return "the conversation was rewritten"
}

// locate finds where the answer of the newest turn ends in a text that begins with its
// prompt. reason says what keeps the text from continuing it.
func (s *Session) locate(ctx context.Context, req *model.Request, t *turn, text string) (end int, drift bool, reason string, err error) {
	rest := text[t.start:]
	if strings.HasPrefix(rest, t.text) {
		return t.start + len(t.text), false, "", nil
	}
	if t.index >= len(req.Messages) || req.Messages[t.index].Role() != chat.RoleAssistant {
		return 0, false, "it is missing", nil
	}
	if t.stop == "" && strings.HasPrefix(t.text, rest) {
		return 0, false, "it leaves out its end", nil
	}
	// The template writes the answer in other characters. It is rendered once more with
	// other words in its place: what both texts end with comes after the answer.
	other, ok, err := s.renderOther(ctx, req, t.index)
	if err != nil {
		return 0, false, "", err
	}
	if !ok || commonPrefix(text, other) < t.start {
		return 0, false, "where it ends can't be told", nil
	}
	after := len(text) - commonSuffix(rest, other[t.start:])
	switch {
	case t.stop != "":
		at := strings.Index(text[after:], t.stop)
		if at < 0 {
			return 0, false, fmt.Sprintf("it leaves out %q, which was sampled", t.stop), nil
		}
		end = after + at + len(t.stop)
	case len(req.Messages[t.index].ToolCalls()) > 0:
		return 0, false, "a call that was cut off is written otherwise", nil
	default:
		end = after
	}
	tools := s.toolsOf(req.Tools)
	sampled := read(s.cfg.Parser, strings.TrimSuffix(t.text, t.stop), t.open, tools)
	written := read(s.cfg.Parser, strings.TrimSuffix(text[t.start:end], t.stop), t.open, tools)
	if differs := sampled.differs(written); differs != "" {
		return 0, false, differs, nil
	}
	return end, true, "", nil
}

// placeholder is no text that anything says. Its ends are characters of a private use
// area.
const placeholder = "\ue0a7placeholder\ue0a8"

// renderOther renders the conversation with the placeholder in place of the end of an
// answer: its text, or the arguments of its last call.
func (s *Session) renderOther(ctx context.Context, req *model.Request, index int) (string, bool, error) {
	m := req.Messages[index]
	calls := append([]chat.ToolCall(nil), m.ToolCalls()...)
	content := placeholder
	if len(calls) > 0 {
		calls[len(calls)-1].Arguments = `{"` + placeholder + `":"` + placeholder + `"}`
		content = m.Text()
	}
	asked := *req
	asked.Messages = append([]chat.Message(nil), req.Messages...)
	asked.Messages[index] = chat.Assistant(content, m.NativeReasoning(), calls...)
	text, _, err := s.cfg.Renderer.Render(ctx, &asked)
	if err != nil {
		if model.KindOf(err) == "" {
			return "", false, nil // the template refuses the placeholder
		}
		return "", false, err
	}
	return text, true, nil
}

// continuation returns the ids of what follows an answer. The token that ended the
// answer is encoded with it and taken off again: tokenizers treat the beginning of a
// text unlike its middle.
func (s *Session) continuation(ctx context.Context, parent *turn, text string) ([]int, error) {
	if parent != nil && parent.stop != "" {
		ids, err := s.cfg.Renderer.Encode(ctx, parent.stop+text)
		if err != nil {
			return nil, err
		}
		if len(ids) > 0 && ids[0] == parent.sampled[len(parent.sampled)-1] {
			return ids[1:], nil
		}
	}
	return s.cfg.Renderer.Encode(ctx, text)
}

// commonPrefix is the number of bytes that two texts begin with alike.
func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	const step = 256
	i := 0
	for i+step <= n && a[i:i+step] == b[i:i+step] {
		i += step
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// commonSuffix is the number of bytes that two texts end with alike.
func commonSuffix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

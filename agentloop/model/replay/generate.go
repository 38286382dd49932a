package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/chattemplate"
	"github.com/hermes-env/hermes-env/internal/textutil"
)

// generate answers POST /generate: a prompt in the tokens of WriteFolder, answered in
// tokens. What is played is certain, so that every token has the log-probability 0.
func (s *Server) generate(ctx context.Context, w http.ResponseWriter, body []byte) {
	prompt, limit, problem := readGenerate(body)
	if problem != "" {
		refuse(w, http.StatusBadRequest, "invalid_request", problem)
		return
	}
	r, problem := readTokens(prompt)
	if problem != "" {
		refuse(w, http.StatusBadRequest, "invalid_request", problem)
		return
	}
	p, ok := s.play(ctx, w, &r)
	if !ok {
		return
	}
	text, err := s.text(p.turn)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "unreadable_turn", err.Error())
		return
	}
	ids := make([]int, 0, len(text)+1)
	for i := range len(text) {
		ids = append(ids, int(text[i]))
	}
	ids = append(ids, endID)
	finish := "stop"
	if p.turn.FinishReason == "length" {
		finish, ids = "length", ids[:len(ids)-1]
	}
	if limit > 0 && len(ids) > limit {
		finish, ids = "length", ids[:limit]
		text = text[:min(len(text), limit)]
	}
	write(w, http.StatusOK, generated(prompt, ids, strings.ToValidUTF8(text, "\uFFFD"), finish))
}

func generated(prompt, ids []int, text, finish string) []byte {
	out := append(chat.AppendString([]byte(`{"text":[`), text), `],"finish_reasons":[`...)
	out = append(chat.AppendString(out, finish), `],"logprobs":[[`...)
	for i, id := range ids {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(strconv.AppendInt(append(out, `[{"`...), int64(id), 10), `":0.0}]`...)
	}
	out = append(out, `]],"prompt_token_ids":`...)
	out = append(appendIDs(out, prompt), `,"token_ids":[`...)
	return append(appendIDs(out, ids), `]}`...)
}

func appendIDs(dst []byte, ids []int) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}

// readGenerate reads the ids of the prompt and the limit of the answer, 0 for none.
func readGenerate(body []byte) (prompt []int, limit int, problem string) {
	if !json.Valid(body) {
		return nil, 0, "the body is not valid JSON"
	}
	root := gjson.ParseBytes(body)
	list := root.Get("prompt.prompt_token_ids")
	if !list.IsArray() {
		return nil, 0, "\"prompt\" holds no \"prompt_token_ids\""
	}
	list.ForEach(func(_, v gjson.Result) bool {
		id, err := strconv.Atoi(v.Raw)
		if err != nil || id < 0 || id > endID {
			problem = "the replay model has no token " + textutil.Shorten(v.Raw, 40)
			return false
		}
		prompt = append(prompt, id)
		return true
	})
	return prompt, int(root.Get("max_tokens").Int()), problem
}

// readTokens finds the messages in a prompt.
func readTokens(prompt []int) (request, string) {
	var r request
	asked := false
	for start := 0; start < len(prompt); start++ {
		if prompt[start] != startID {
			continue
		}
		end := start + 1
		text := []byte{}
		for ; end < len(prompt) && prompt[end] != endID && prompt[end] != startID; end++ {
			text = append(text, byte(prompt[end]))
		}
		if end == len(prompt) || prompt[end] != endID {
			break // what is asked for
		}
		role, content, _ := strings.Cut(string(text), "\n")
		switch {
		case role == string(chat.RoleAssistant):
			r.sampled = append(r.sampled, content)
		case role == string(chat.RoleUser) && !asked:
			r.prompt, asked = strings.TrimSpace(content), true
		}
		start = end
	}
	r.turns = len(r.sampled)
	if !asked {
		return r, "the prompt holds no message of a user in the chat template of the replay model"
	}
	return r, ""
}

// text is a turn as the model writes it.
func (s *Server) text(t *Turn) (string, error) {
	content := strings.Join(strings.Fields(t.Reasoning), " ")
	if content != "" && t.Content != "" {
		content += "\n\n"
	}
	content += t.Content
	if len(t.Calls) == 0 {
		return strings.ToValidUTF8(content, string(utf8.RuneError)), nil
	}
	calls := make([]chat.ToolCall, len(t.Calls))
	broken := false
	for i, c := range t.Calls {
		calls[i] = chat.ToolCall{ID: "call", Name: c.Name, Arguments: c.Arguments}
		broken = broken || !gjson.Valid(c.Arguments) || !gjson.Parse(c.Arguments).IsObject()
	}
	if broken {
		parts := make([]string, 0, len(calls)+1)
		if content != "" {
			parts = append(parts, content)
		}
		for _, c := range calls {
			parts = append(parts, fmt.Sprintf("<tool_call>\n{\"name\": %s, \"arguments\": %s}\n</tool_call>", chat.AppendString(nil, c.Name), c.Arguments))
		}
		return strings.Join(parts, "\n"), nil
	}
	// In the way of the template, so that what was sampled is what is rendered later.
	rendered, err := s.template.Render(chattemplate.Input{Messages: []chat.Message{chat.Assistant(content, "", calls...)}})
	if err != nil {
		return "", fmt.Errorf("write a turn of the replay script: %w", err)
	}
	text := strings.TrimPrefix(rendered.Text, startOfMessage+"assistant\n")
	text, _, _ = strings.Cut(text, endOfMessage)
	return text, nil
}

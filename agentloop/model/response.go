package model

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/tidwall/gjson"
)

// decode reads a successful answer. The messages of the request tell which call ids are taken.
func (t *target) decode(resp *http.Response, raw []byte, messages []chat.Message, mint func() string) (_ *Response, useless *Error) {
	var reported chat.Usage
	defer func() {
		if useless != nil {
			useless.Usage = reported // paid for all the same
		}
	}()
	malformed := func(format string, args ...any) *Error {
		e := t.failure(KindInvalidResponse, fmt.Sprintf(format, args...), "")
		e.Status = resp.StatusCode
		e.RequestID = t.requestID(resp)
		return e
	}
	raw = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("\ufeff"))
	if len(raw) == 0 {
		e := malformed("the body is empty")
		e.Kind = KindEmptyResponse
		return nil, e
	}
	if !chat.Valid(raw) {
		return nil, t.unreadable(resp, raw)
	}
	if !utf8.Valid(raw) {
		// Valid JSON has foreign bytes only inside strings.
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	var id, model, choices, usage, failure gjson.Result
	root := gjson.ParseBytes(raw)
	if !root.IsObject() {
		return nil, malformed("want a JSON object, got %s", t.excerpt(root.Raw))
	}
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id":
			id = value
		case "model":
			model = value
		case "choices":
			choices = value
		case "usage":
			usage = value
		case "error":
			failure = value
		}
		return true
	})
	if usage.IsObject() {
		reported = chat.ParseUsage([]byte(usage.Raw))
	}
	if failure.Exists() && failure.Type != gjson.Null && failure.Type != gjson.False {
		return nil, t.embeddedFailure(resp, failure)
	}
	if !choices.IsArray() {
		if choices.Exists() && choices.Type != gjson.Null {
			return nil, malformed(`"choices" is not a list: %s`, t.excerpt(choices.Raw))
		}
		if message := errorText(root); message != "" && !choices.Exists() {
			return nil, t.embeddedFailure(resp, root)
		}
		e := malformed(`the answer has no "choices": %s`, t.excerpt(root.Raw))
		e.Kind = KindEmptyResponse
		return nil, e
	}
	var first, message, finish, choiceError gjson.Result
	choices.ForEach(func(_, choice gjson.Result) bool { first = choice; return false })
	first.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "message":
			message = value
		case "finish_reason":
			finish = value
		case "error":
			choiceError = value
		}
		return true
	})
	if choiceError.Exists() && choiceError.Type != gjson.Null {
		return nil, t.embeddedFailure(resp, choiceError)
	}
	if !message.IsObject() {
		e := malformed(`"choices" is an empty list`)
		e.Kind = KindEmptyResponse
		switch {
		case first.Get("text").Exists():
			e.Kind = KindInvalidResponse
			e.Message = "the choice holds a text instead of a message: this is a completions endpoint, not a chat endpoint"
			e.permanent = true
		case first.Exists():
			e.Message = "the choice holds no message: " + t.excerpt(first.Raw)
		}
		return nil, e
	}
	normal, err := chat.Normalize([]byte(message.Raw), takenIn(messages), mint)
	if err != nil {
		return nil, malformed("%s", t.redact(err.Error()))
	}
	answer := &Response{
		Message: normal, FinishReason: strings.Clone(finish.String()), ID: strings.Clone(id.String()),
		Model: strings.Clone(model.String()), Server: t.server, Attempts: 1, Usage: reported,
	}
	return answer, nil
}

// takenIn reports ids that calls of the conversation already carry. It scans
// instead of keeping a set: a set would have to be built anew on every turn.
func takenIn(messages []chat.Message) func(string) bool {
	return func(id string) bool {
		for _, m := range messages {
			for _, call := range m.ToolCalls() {
				if call.ID == id {
					return true
				}
			}
		}
		return false
	}
}

// unreadable describes a body that is not JSON.
func (t *target) unreadable(resp *http.Response, raw []byte) *Error {
	e := t.failure(KindInvalidResponse, "", "")
	e.Status = resp.StatusCode
	e.RequestID = t.requestID(resp)
	switch {
	case looksLikeHTML(resp, raw):
		e.Message = "a web page instead of JSON: " + t.excerpt(pageText(raw))
		e.Hint = t.pathHint("this address serves web pages, not the API")
	case bytes.HasPrefix(raw, []byte("data:")) || bytes.HasPrefix(raw, []byte("event:")):
		e.Message = "the server streamed events although a whole answer was asked for: " + t.excerpt(string(raw))
	case raw[0] == '{' || raw[0] == '[':
		e.Message = "truncated or invalid JSON (" + strconv.Itoa(len(raw)) + " bytes) that ends in " + t.excerptEnd(raw)
	default:
		e.Message = "not JSON: " + t.excerpt(string(raw))
	}
	return e
}

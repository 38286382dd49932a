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

// answerParts are the parts of an answer that count, as the server wrote them.
type answerParts struct {
	id, model, finish, message []byte
	usage                      chat.Usage
}

// decode reads a successful answer. The messages of the request tell which call ids are taken.
func (t *target) decode(resp *http.Response, raw []byte, messages []chat.Message, mint func() string) (*Response, *Error) {
	var p answerParts
	if useless := t.takeApart(resp, raw, &p); useless != nil {
		useless.Usage = p.usage // paid for all the same
		return nil, useless
	}
	normal, err := chat.Normalize(p.message, takenIn(messages), mint)
	if err != nil {
		useless := t.malformed(resp, "%s", t.redact(err.Error()))
		useless.Usage = p.usage
		return nil, useless
	}
	return t.response(&p, normal), nil
}

func (t *target) response(p *answerParts, message chat.Message) *Response {
	return &Response{
		Message: message, FinishReason: textOf(p.finish, FinishStop, "tool_calls"), ID: textOf(p.id),
		Model: textOf(p.model, t.model), Server: t.server, Attempts: 1, Usage: p.usage,
	}
}

func (t *target) malformed(resp *http.Response, format string, args ...any) *Error {
	e := t.failure(KindInvalidResponse, fmt.Sprintf(format, args...), "")
	e.Status = resp.StatusCode
	e.RequestID = t.requestID(resp)
	return e
}

// takeApart finds the parts of an answer, or says why it is of no use.
func (t *target) takeApart(resp *http.Response, raw []byte, p *answerParts) *Error {
	raw = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("\ufeff"))
	if len(raw) == 0 {
		e := t.malformed(resp, "the body is empty")
		e.Kind = KindEmptyResponse
		return e
	}
	if !chat.Valid(raw) {
		return t.unreadable(resp, raw)
	}
	if !utf8.Valid(raw) {
		// Valid JSON has foreign bytes only inside strings.
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	if raw[0] != '{' {
		return t.malformed(resp, "want a JSON object, got %s", t.excerpt(string(raw)))
	}
	var choices, usage, failure []byte
	chat.EachMember(raw, func(key string, value []byte) bool {
		switch key {
		case "id":
			p.id = value
		case "model":
			p.model = value
		case "choices":
			choices = value
		case "usage":
			usage = value
		case "error":
			failure = value
		}
		return true
	})
	if len(usage) > 0 && usage[0] == '{' {
		p.usage = chat.ParseUsage(usage)
	}
	if !isNull(failure) && string(failure) != "false" {
		return t.embedded(resp, failure)
	}
	if len(choices) == 0 || choices[0] != '[' {
		return t.withoutChoices(resp, raw, choices)
	}
	var first, choiceError []byte
	chat.EachElement(choices, func(choice []byte) bool { first = choice; return false })
	chat.EachMember(first, func(key string, value []byte) bool {
		switch key {
		case "message":
			p.message = value
		case "finish_reason":
			p.finish = value
		case "error":
			choiceError = value
		}
		return true
	})
	if !isNull(choiceError) {
		return t.embedded(resp, choiceError)
	}
	if len(p.message) == 0 || p.message[0] != '{' {
		return t.withoutMessage(resp, first)
	}
	return nil
}

// embedded describes an error inside a successful answer.
func (t *target) embedded(resp *http.Response, failure []byte) *Error {
	return t.embeddedFailure(resp, gjson.ParseBytes(failure))
}

// textOf returns a value as a text, which is one of those known if it is equal.
func textOf(value []byte, known ...string) string {
	if n := len(value); n >= 2 && value[0] == '"' {
		for _, text := range known {
			if string(value[1:n-1]) == text && strings.IndexByte(text, '\\') < 0 {
				return text
			}
		}
		return chat.Unquote(value)
	}
	return gjson.ParseBytes(value).String()
}

// withoutChoices describes an answer whose "choices" are no list.
func (t *target) withoutChoices(resp *http.Response, raw, choices []byte) *Error {
	if !isNull(choices) {
		return t.malformed(resp, `"choices" is not a list: %s`, t.excerpt(string(choices)))
	}
	root := gjson.ParseBytes(raw)
	if message := errorText(root); message != "" && choices == nil {
		return t.embeddedFailure(resp, root)
	}
	e := t.malformed(resp, `the answer has no "choices": %s`, t.excerpt(root.Raw))
	e.Kind = KindEmptyResponse
	return e
}

// withoutMessage describes an answer whose first choice, nil without one, has no message.
func (t *target) withoutMessage(resp *http.Response, first []byte) *Error {
	e := t.malformed(resp, `"choices" is an empty list`)
	e.Kind = KindEmptyResponse
	switch {
	case gjson.GetBytes(first, "text").Exists():
		e.Kind = KindInvalidResponse
		e.Message = "the choice holds a text instead of a message: this is a completions endpoint, not a chat endpoint"
		e.permanent = true
	case first != nil:
		e.Message = "the choice holds no message: " + t.excerpt(string(first))
	}
	return e
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

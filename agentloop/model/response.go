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
func (t *target) decode(resp *http.Response, raw []byte, messages []chat.Message, mint func() string) (*Response, *Error) {
	var reported chat.Usage
	answer, useless := t.decodeAnswer(resp, raw, messages, mint, &reported)
	if useless != nil {
		useless.Usage = reported // paid for all the same
	}
	return answer, useless
}

func (t *target) malformed(resp *http.Response, format string, args ...any) *Error {
	e := t.failure(KindInvalidResponse, fmt.Sprintf(format, args...), "")
	e.Status = resp.StatusCode
	e.RequestID = t.requestID(resp)
	return e
}

func (t *target) decodeAnswer(resp *http.Response, raw []byte, messages []chat.Message, mint func() string, reported *chat.Usage) (*Response, *Error) {
	raw = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("\ufeff"))
	if len(raw) == 0 {
		e := t.malformed(resp, "the body is empty")
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
	if raw[0] != '{' {
		return nil, t.malformed(resp, "want a JSON object, got %s", t.excerpt(string(raw)))
	}
	var id, model, choices, usage, failure []byte
	chat.EachMember(raw, func(key string, value []byte) bool {
		switch key {
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
	if len(usage) > 0 && usage[0] == '{' {
		*reported = chat.ParseUsage(usage)
	}
	if !isNull(failure) && string(failure) != "false" {
		return nil, t.embedded(resp, failure)
	}
	if len(choices) == 0 || choices[0] != '[' {
		return nil, t.withoutChoices(resp, raw, choices)
	}
	var first, message, finish, choiceError []byte
	chat.EachElement(choices, func(choice []byte) bool { first = choice; return false })
	chat.EachMember(first, func(key string, value []byte) bool {
		switch key {
		case "message":
			message = value
		case "finish_reason":
			finish = value
		case "error":
			choiceError = value
		}
		return true
	})
	if !isNull(choiceError) {
		return nil, t.embedded(resp, choiceError)
	}
	if len(message) == 0 || message[0] != '{' {
		return nil, t.withoutMessage(resp, first)
	}
	normal, err := chat.Normalize(message, takenIn(messages), mint)
	if err != nil {
		return nil, t.malformed(resp, "%s", t.redact(err.Error()))
	}
	return &Response{
		Message: normal, FinishReason: textOf(finish, FinishStop, "tool_calls"), ID: textOf(id),
		Model: textOf(model, t.model), Server: t.server, Attempts: 1, Usage: *reported,
	}, nil
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

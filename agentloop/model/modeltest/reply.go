package modeltest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/tidwall/gjson"
)

// Reply is one answer of the mock, made by a builder such as Text or Status and
// refined by its methods, each of which returns a changed copy.
type Reply struct {
	status      int
	contentType string
	header      http.Header
	body        []byte // the whole body; nil when it is made from message

	message []byte // JSON of the assistant message
	finish  string
	usage   chat.Usage // zero means estimated
	noUsage bool

	delay time.Duration
	pause time.Duration
	fault fault
}

// Text answers with plain text.
func Text(text string) Reply { return completion(chat.Assistant(text, "").JSON(), "stop") }

// Calls answers with tool calls. A call without an ID is sent without one.
func Calls(calls ...chat.ToolCall) Reply { return TextAndCalls("", calls...) }

// TextAndCalls answers with text and tool calls.
func TextAndCalls(text string, calls ...chat.ToolCall) Reply {
	var message chat.Object
	message.Set("role", json.RawMessage(`"assistant"`))
	message.Set("content", json.RawMessage("null"))
	if text != "" {
		message.Set("content", chat.AppendString(nil, text))
	}
	list := []byte{'['}
	for i, c := range calls {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, '{')
		if c.ID != "" {
			list = append(chat.AppendString(append(list, `"id":`...), c.ID), ',')
		}
		list = chat.AppendString(append(list, `"type":"function","function":{"name":`...), c.Name)
		list = chat.AppendString(append(list, `,"arguments":`...), c.Arguments)
		list = append(list, "}}"...)
	}
	message.Set("tool_calls", append(list, ']'))
	return completion(message.Append(nil), "tool_calls")
}

// Parts answers with content as a list of text parts.
func Parts(texts ...string) Reply {
	raw := []byte(`{"role":"assistant","content":[`)
	for i, text := range texts {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(chat.AppendString(append(raw, `{"type":"text","text":`...), text), '}')
	}
	return completion(append(raw, "]}"...), "stop")
}

// Refusal answers as a model that declines: null content and a refusal text.
func Refusal(text string) Reply {
	raw := chat.AppendString([]byte(`{"role":"assistant","content":null,"refusal":`), text)
	return completion(append(raw, '}'), "stop")
}

// Message answers with the given JSON as the assistant message.
func Message(raw string) Reply { return completion([]byte(raw), "stop") }

// NullMessage answers with a choice whose message is null.
func NullMessage() Reply { return completion([]byte("null"), "stop") }

// EmptyChoices answers with an empty list of choices.
func EmptyChoices() Reply {
	return Raw(http.StatusOK, "application/json", `{"id":"chatcmpl-0","object":"chat.completion","model":"mock","choices":[]}`)
}

func completion(message []byte, finish string) Reply {
	return Reply{status: http.StatusOK, contentType: "application/json", message: message, finish: finish}
}

// Status answers with an error in the OpenAI shape. Without a message the text
// of the status is used.
func Status(code int, message ...string) Reply {
	text := http.StatusText(code)
	if len(message) > 0 {
		text = message[0]
	}
	return ErrorCode(code, "", text)
}

// ErrorCode answers with an error that has a code, for example
// (400, "context_length_exceeded", "…").
func ErrorCode(status int, code, message string) Reply {
	raw := chat.AppendString([]byte(`{"error":{"message":`), message)
	raw = append(raw, `,"type":"mock_error","param":null,"code":`...)
	if code == "" {
		raw = append(raw, "null"...)
	} else {
		raw = chat.AppendString(raw, code)
	}
	return Raw(status, "application/json", string(append(raw, "}}"...)))
}

// RateLimited answers 429 and asks to come back after the given time, in whole seconds.
func RateLimited(after time.Duration) Reply {
	return Status(http.StatusTooManyRequests, "rate limit reached").
		WithHeader("Retry-After", strconv.Itoa(int(after/time.Second)))
}

// HTML answers 200 with a web page, as a wrong address or a captive portal does.
func HTML(title string) Reply {
	return Raw(http.StatusOK, "text/html; charset=utf-8",
		"<!DOCTYPE html><html><head><title>"+title+"</title></head><body><p>Not the API.</p></body></html>")
}

// InvalidJSON answers 200 with a body that is no JSON.
func InvalidJSON() Reply {
	return Raw(http.StatusOK, "application/json", `{"id":"chatcmpl-0","choices":[{]}`)
}

// Raw answers with any status, content type and body.
func Raw(status int, contentType, body string) Reply {
	return Reply{status: status, contentType: contentType, body: []byte(body)}
}

// After waits before the headers are sent.
func (r Reply) After(delay time.Duration) Reply { r.delay = delay; return r }

// WithHeader adds a response header.
func (r Reply) WithHeader(name, value string) Reply {
	r.header = r.header.Clone()
	if r.header == nil {
		r.header = make(http.Header)
	}
	r.header.Set(name, value)
	return r
}

// WithContentType replaces the content type.
func (r Reply) WithContentType(contentType string) Reply { r.contentType = contentType; return r }

// WithFinish replaces the finish reason, for example by "length"; "" sends null.
func (r Reply) WithFinish(reason string) Reply { r.finish = reason; return r }

// WithUsage replaces the estimated token counts.
func (r Reply) WithUsage(prompt, completion int) Reply {
	r.usage = chat.Usage{PromptTokens: int64(prompt), CompletionTokens: int64(completion), TotalTokens: int64(prompt + completion)}
	return r
}

// WithoutUsage leaves the token counts out.
func (r Reply) WithoutUsage() Reply { r.noUsage = true; return r }

// With sets a field of the message to a JSON value.
func (r Reply) With(field, value string) Reply {
	message, err := chat.ParseObject(r.message)
	if err != nil {
		return Raw(http.StatusInternalServerError, "text/plain", "modeltest: With on a reply that has no message")
	}
	message.Set(field, json.RawMessage(value))
	r.message = message.Append(nil)
	return r
}

// WithObjectArguments sends the arguments of all calls as JSON objects instead
// of strings, as some servers do. Arguments that are not JSON stay strings.
func (r Reply) WithObjectArguments() Reply {
	list := []byte{'['}
	for i, item := range gjson.GetBytes(r.message, "tool_calls").Array() {
		call, _ := chat.ParseObject([]byte(item.Raw))
		function, _ := chat.ParseObject(call.Get("function"))
		if text := item.Get("function.arguments").Str; gjson.Valid(text) {
			function.Set("arguments", json.RawMessage(text))
		}
		call.Set("function", function.Append(nil))
		if i > 0 {
			list = append(list, ',')
		}
		list = call.Append(list)
	}
	return r.With("tool_calls", string(append(list, ']')))
}

// ReasoningShape is one of the ways in which servers send reasoning.
type ReasoningShape int

// The shapes of reasoning found in the wild.
const (
	ReasoningContent ReasoningShape = iota // "reasoning_content": text
	ReasoningField                         // "reasoning": text
	ReasoningObject                        // "reasoning": {"text": text}
	ReasoningDetails                       // "reasoning_details": [{"type":"reasoning.text","text": text}]
	ThinkingParts                          // content parts of type thinking before the text
	ThinkTags                              // <think>text</think> at the start of the content
)

// WithReasoning adds reasoning to the message in the given shape.
func (r Reply) WithReasoning(shape ReasoningShape, text string) Reply {
	quoted := string(chat.AppendString(nil, text))
	content := gjson.GetBytes(r.message, "content").String()
	switch shape {
	case ReasoningField:
		return r.With("reasoning", quoted)
	case ReasoningObject:
		return r.With("reasoning", `{"text":`+quoted+`}`)
	case ReasoningDetails:
		return r.With("reasoning_details", `[{"type":"reasoning.text","text":`+quoted+`,"index":0}]`)
	case ThinkingParts:
		parts := `[{"type":"thinking","thinking":` + quoted + `}`
		if content != "" {
			parts += `,{"type":"text","text":` + string(chat.AppendString(nil, content)) + `}`
		}
		return r.With("content", parts+"]")
	case ThinkTags:
		return r.With("content", string(chat.AppendString(nil, "<think>"+text+"</think>\n"+content)))
	default:
		return r.With("reasoning_content", quoted)
	}
}

// appendBody writes the body of the reply to a request.
func (r *Reply) appendBody(dst []byte, req *Request) []byte {
	if r.message == nil {
		return append(dst, r.body...)
	}
	dst = append(dst, `{"id":"chatcmpl-`...)
	dst = strconv.AppendInt(dst, int64(req.Number), 10)
	dst = append(dst, `","object":"chat.completion","created":1700000000,"model":`...)
	dst = chat.AppendString(dst, req.Model())
	dst = append(dst, `,"choices":[{"index":0,"message":`...)
	dst = append(dst, r.message...)
	dst = append(dst, `,"finish_reason":`...)
	if r.finish == "" {
		dst = append(dst, "null"...)
	} else {
		dst = chat.AppendString(dst, r.finish)
	}
	dst = append(dst, "}]"...)
	if !r.noUsage {
		usage := r.usage
		if usage == (chat.Usage{}) {
			usage.PromptTokens, usage.CompletionTokens = int64(len(req.Body)/4), int64(len(r.message)/4)
			usage.TotalTokens = usage.PromptTokens + usage.CompletionTokens
		}
		dst = strconv.AppendInt(append(dst, `,"usage":{"prompt_tokens":`...), usage.PromptTokens, 10)
		dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), usage.CompletionTokens, 10)
		dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), usage.TotalTokens, 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

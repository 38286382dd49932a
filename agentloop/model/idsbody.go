package model

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// chatOnly are the fields of a chat request that say how a conversation is rendered
// or read. They have done their work where token ids are sent.
var chatOnly = [...]string{"tools", "tool_choice", "parallel_tool_calls", "chat_template", "chat_template_kwargs", "add_generation_prompt", "continue_final_message", "reasoning_effort", "stream", "n"}

func isChatOnly(key string) bool {
	for _, name := range chatOnly {
		if key == name {
			return true
		}
	}
	return false
}

// object writes the members of a JSON object one after the other.
type object struct {
	buf []byte
	err error
}

func newObject(size int) *object { return &object{buf: append(make([]byte, 0, size), '{')} }

func (o *object) key(name string) {
	if last := o.buf[len(o.buf)-1]; last != '{' {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(chat.AppendString(o.buf, name), ':')
}

func (o *object) raw(name, value string) {
	o.key(name)
	o.buf = append(o.buf, value...)
}

func (o *object) text(name, value string) {
	o.key(name)
	o.buf = chat.AppendString(o.buf, value)
}

func (o *object) integer(name string, value int) {
	o.key(name)
	o.buf = strconv.AppendInt(o.buf, int64(value), 10)
}

func (o *object) number(name string, value *float64) {
	switch {
	case value == nil:
		return
	case math.IsNaN(*value) || math.IsInf(*value, 0):
		o.err = fmt.Errorf("%s is %v, which JSON can't carry", name, *value)
		return
	}
	o.key(name)
	o.buf = strconv.AppendFloat(o.buf, *value, 'g', -1, 64)
}

func (o *object) ids(name string, list []int) {
	o.key(name)
	o.buf = append(o.buf, '[')
	for i, id := range list {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		o.buf = strconv.AppendInt(o.buf, int64(id), 10)
	}
	o.buf = append(o.buf, ']')
}

func (o *object) texts(name string, list []string) {
	o.key(name)
	o.buf = append(o.buf, '[')
	for i, s := range list {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		o.buf = chat.AppendString(o.buf, s)
	}
	o.buf = append(o.buf, ']')
}

// sampling writes how to sample, the further fields of the request winning over its
// own. The names of limits differ between servers.
func (o *object) sampling(req *Request, maxTokens string, keep func(key string) bool) {
	given := func(key string) bool { return req.Extra.Get(key) != nil }
	if !given("temperature") {
		o.number("temperature", req.Temperature)
	}
	if !given("top_p") {
		o.number("top_p", req.TopP)
	}
	if req.MaxTokens > 0 && !given("max_tokens") && !given("max_new_tokens") && !given("max_completion_tokens") {
		o.integer(maxTokens, req.MaxTokens)
	}
	if len(req.Stop) > 0 && !given("stop") {
		o.texts("stop", req.Stop)
	}
	if len(req.StopTokens) > 0 && !given("stop_token_ids") {
		o.ids("stop_token_ids", req.StopTokens)
	}
	for _, f := range req.Extra {
		name := f.Key
		if isChatOnly(name) || !keep(name) {
			continue
		}
		if name == "max_tokens" || name == "max_new_tokens" || name == "max_completion_tokens" {
			name = maxTokens
		}
		o.raw(name, string(f.Value))
	}
}

func (o *object) close() []byte { return append(o.buf, '}') }

// reader returns what opens a body in memory.
func reader(body []byte) func() io.ReadCloser {
	return func() io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }
}

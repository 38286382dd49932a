package modeltest

import (
	"net/http"

	"github.com/tidwall/gjson"
)

// Request is one chat completion request as a Script sees it. It is valid only
// until the script returns; nothing in it may be kept or changed.
type Request struct {
	Number int // how many requests the handler received before this one
	Header http.Header
	Body   []byte

	turn int // assistant messages + 1, 0 while not counted
}

// Get returns a value of the body by its gjson path, for example "max_tokens".
func (r *Request) Get(path string) gjson.Result { return gjson.GetBytes(r.Body, path) }

// Model returns the model that was asked for.
func (r *Request) Model() string { return gjson.GetBytes(r.Body, "model").String() }

// Turn returns the number of assistant messages in the request: 0 opens a conversation.
func (r *Request) Turn() int {
	if r.turn == 0 {
		r.turn = 1
		gjson.GetBytes(r.Body, "messages").ForEach(func(_, message gjson.Result) bool {
			if message.Get("role").Str == "assistant" {
				r.turn++
			}
			return true
		})
	}
	return r.turn - 1
}

// Prompt returns the text of the first user message, or "" when it is not plain text.
func (r *Request) Prompt() string {
	var text string
	gjson.GetBytes(r.Body, "messages").ForEach(func(_, message gjson.Result) bool {
		if message.Get("role").Str != "user" {
			return true
		}
		text = message.Get("content").Str
		return false
	})
	return text
}

package parsers

import (
	"encoding/json"
	"strings"
)

// Tool is what a parser may know about one tool the model was offered. Formats
// that carry untyped values read Parameters to find each argument's type.
type Tool struct {
	// Name is the name the model calls the tool by.
	Name string `json:"name"`
	// Description is only used by people; parsers ignore it.
	Description string `json:"description,omitempty"`
	// Parameters is the JSON schema of the arguments object; nil when unknown.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// Call is one tool call as the model wrote it.
type Call struct {
	// ID is unique within a response. Kimi K2 and Mistral ids are the model's
	// own when it wrote one; all others are random.
	ID string `json:"id"`
	// Name is the tool's name, trimmed; it may name a tool that does not exist.
	Name string `json:"name"`
	// Arguments is JSON text, or whatever the model wrote in place of JSON (see
	// InvalidArguments). Key order and the digits of numbers are the model's.
	Arguments string `json:"arguments"`
	// Truncated says that the text ended inside this call, before its own end
	// marker: the arguments may be incomplete and should not be executed when
	// the response stopped for its length.
	Truncated bool `json:"truncated,omitempty"`
	// InvalidArguments says that Arguments is not a JSON object: refuse to
	// execute the call and tell the model.
	InvalidArguments bool `json:"invalid_arguments,omitempty"`
}

// Parsed is one response taken apart.
type Parsed struct {
	// Content is the text before, between and after the calls, nil if that is
	// only white space. Outer white space is removed, so is white space directly
	// behind a call; a newline parts pieces that would run together. Without
	// calls it is the whole text, unchanged.
	Content *string `json:"content"`
	// Calls are in the order of the text.
	Calls []Call `json:"calls"`
}

// Parser reads one tool-call format. Implementations hold no state between
// calls of Parse and may be used from several goroutines.
type Parser interface {
	// Name is the name the parser is registered under.
	Name() string
	// Parse takes a whole response apart. It never fails: what cannot be read
	// as a call is content.
	Parse(text string, tools []Tool) Parsed
	// Stream starts reading one response piece by piece.
	Stream(tools []Tool) Stream
}

// Stream reads one response that arrives in pieces. It is used from one
// goroutine. However the text is cut, [Assemble] of all the events gives what
// [Parser.Parse] gives for the whole text. Content is reported at once, but for
// what may become a marker; a call as soon as it has a name or, where a later
// error in its block would make it text, when its block is complete.
type Stream interface {
	// Feed takes the next piece of text and returns what became certain by it.
	Feed(delta string) []Event
	// Finish says that no more text will come and returns the last events. Feed
	// and Finish return nothing afterwards.
	Finish() []Event
}

// EventKind says what an [Event] reports.
type EventKind string

// The kinds of events, in the order in which they occur.
const (
	// ContentDelta carries the next piece of content in Text.
	ContentDelta EventKind = "content"
	// CallStart opens call Index and carries its whole ID and Name.
	CallStart EventKind = "call_start"
	// ArgsDelta carries the next piece of the arguments of call Index in Text.
	ArgsDelta EventKind = "args"
	// CallEnd closes call Index and carries its Truncated and InvalidArguments.
	CallEnd EventKind = "call_end"
	// Revised comes last and only from Finish. The end of the text showed that
	// something reported before was not so, for example that a later malformed
	// block makes the whole response plain text. Parsed is what holds instead.
	Revised EventKind = "revised"
)

// Event is one step of a streamed response.
type Event struct {
	Kind EventKind `json:"kind"`
	// Index counts calls from 0 in order of appearance.
	Index            int     `json:"index"`
	ID               string  `json:"id,omitempty"`
	Name             string  `json:"name,omitempty"`
	Text             string  `json:"text,omitempty"`
	Truncated        bool    `json:"truncated,omitempty"`
	InvalidArguments bool    `json:"invalid_arguments,omitempty"`
	Parsed           *Parsed `json:"parsed,omitempty"`
}

// Assemble puts the events of one stream together again. Given all events of
// the stream it returns what Parse returns for the whole text.
func Assemble(events []Event) Parsed {
	var content strings.Builder
	var calls []Call
	var args []*strings.Builder
	for _, e := range events {
		switch e.Kind {
		case ContentDelta:
			content.WriteString(e.Text)
		case CallStart:
			calls = append(calls, Call{ID: e.ID, Name: e.Name})
			args = append(args, new(strings.Builder))
		case ArgsDelta:
			if e.Index < len(args) {
				args[e.Index].WriteString(e.Text)
			}
		case CallEnd:
			if e.Index < len(calls) {
				calls[e.Index].Truncated = e.Truncated
				calls[e.Index].InvalidArguments = e.InvalidArguments
			}
		case Revised:
			if e.Parsed != nil {
				return *e.Parsed
			}
		}
	}
	for i := range calls {
		calls[i].Arguments = args[i].String()
	}
	return parsed(content.String(), calls)
}

// parsed applies the content rules: the whole text without calls, the trimmed
// text around the calls or nil with calls.
func parsed(content string, calls []Call) Parsed {
	if len(calls) == 0 {
		return Parsed{Content: &content, Calls: []Call{}}
	}
	if content = strings.TrimSpace(content); content == "" {
		return Parsed{Calls: calls}
	}
	return Parsed{Content: &content, Calls: calls}
}

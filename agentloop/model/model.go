package model

import (
	"context"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Client completes conversations. Complete may be called from many goroutines at
// once; it returns when the answer is whole, when ctx ends, or with an error that
// wraps *Error. Implementations don't keep the request after returning.
type Client interface {
	Complete(ctx context.Context, req *Request) (*Response, error)
}

// Request is one model call. Zero values leave the field out of the request.
type Request struct {
	Messages    []chat.Message
	Tools       *chat.Toolset
	Temperature *float64
	TopP        *float64
	MaxTokens   int         // completion tokens
	Stop        []string    // stop sequences
	Extra       chat.Object // further top-level fields; they win over the ones above

	// Affinity names the rollout. A pool keeps the requests of one rollout on one
	// server as long as that server is healthy, so that its prefix cache is used.
	Affinity string

	// Prompt are token ids to generate from. Only clients of servers that take ids
	// understand it (NewVLLM, NewSGLang, NewGenerate); Messages and Tools are then
	// left out of what is sent.
	Prompt []int
	// StopTokens are token ids that end the answer beside those the server knows of.
	StopTokens []int
}

// Response is a model's whole answer.
type Response struct {
	Message      chat.Message // normalised: see chat.Normalize
	FinishReason string       // stop, length, tool_calls, content_filter, … as the server wrote it
	Usage        chat.Usage
	ID           string        // the server's id of the answer
	Model        string        // the model name the server reported
	Server       string        // base URL of the server that answered, without credentials
	Attempts     int           // requests sent for this answer, 1 without retries
	Wait         time.Duration // time spent in queues and back-off, part of the caller's wall time

	// Capture is what the server told about tokens; nil from servers that were not
	// asked. An answer to Request.Prompt has a Capture and no Message.
	Capture *Capture
}

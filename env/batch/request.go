package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
)

// Ephemeral is what is sent with every request of a run and never recorded.
type Ephemeral struct {
	SystemPrompt string         // "" sends none
	Prefill      []chat.Message // after the system prompt, before the conversation
	MaxTokens    int            // completion tokens per call; 0 leaves it to the server
	// KeepTemperature sends the configured temperature; otherwise the server chooses.
	KeepTemperature bool
}

// Client returns a client that adds what is ephemeral to each request.
func (e Ephemeral) Client(next model.Client) model.Client {
	return ephemeralClient{next: next, settings: e, head: e.head()}
}

func (e Ephemeral) head() []chat.Message {
	var head []chat.Message
	if e.SystemPrompt != "" {
		head = append(head, chat.System(e.SystemPrompt))
	}
	return append(head, e.Prefill...)
}

type ephemeralClient struct {
	next     model.Client
	settings Ephemeral
	head     []chat.Message
}

// Complete sends the request with the ephemeral messages before its own.
func (c ephemeralClient) Complete(ctx context.Context, req *model.Request) (*model.Response, error) {
	changed := *req
	changed.MaxTokens = c.settings.MaxTokens
	if !c.settings.KeepTemperature {
		changed.Temperature = nil
	}
	if len(c.head) > 0 {
		changed.Messages = slices.Concat(c.head, req.Messages)
	}
	return c.next.Complete(ctx, &changed)
}

// ReadPrefill reads a JSON array of chat messages.
func ReadPrefill(file string) ([]chat.Message, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the prefill messages: %w", err)
	}
	messages, err := parsePrefill(raw)
	if err != nil {
		return nil, fmt.Errorf("read the prefill messages in %s: %w", file, err)
	}
	return messages, nil
}

func parsePrefill(raw []byte) ([]chat.Message, error) {
	if !json.Valid(raw) {
		return nil, errors.New("it is not valid JSON: want an array of messages")
	}
	array := gjson.ParseBytes(raw)
	if !array.IsArray() {
		return nil, errors.New(`want an array of messages such as [{"role": "user", "content": "hi"}]`)
	}
	var messages []chat.Message
	for i, item := range array.Array() {
		m, err := chat.Decode([]byte(item.Raw))
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// ReasoningEfforts are the values of --reasoning_effort.
func ReasoningEfforts() []string {
	return []string{"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"}
}

// Routing is what OpenRouter is asked for beside the conversation.
type Routing struct {
	Allowed, Ignored, Order []string // names of providers
	Sort                    string   // price, throughput, latency; "" leaves it to the router
	ReasoningEffort         string   // one of ReasoningEfforts; "" sends nothing
	ReasoningDisabled       bool     // wins over ReasoningEffort
}

// Fields returns the request fields, provider and reasoning, in the original's form.
func (r Routing) Fields() (chat.Object, error) {
	var fields chat.Object
	var provider chat.Object
	for _, list := range []struct {
		key   string
		names []string
	}{{"only", r.Allowed}, {"ignore", r.Ignored}, {"order", r.Order}} {
		if len(list.names) == 0 {
			continue
		}
		encoded, err := chat.Marshal(list.names)
		if err != nil {
			return nil, err
		}
		provider.Set(list.key, encoded)
	}
	switch r.Sort {
	case "":
	case "price", "throughput", "latency":
		provider.Set("sort", chat.AppendString(nil, r.Sort))
	default:
		return nil, fmt.Errorf("--provider_sort is %q: want price, throughput or latency", r.Sort)
	}
	if len(provider) > 0 {
		fields.Set("provider", provider.Append(nil))
	}
	switch {
	case r.ReasoningDisabled || r.ReasoningEffort == "none":
		fields.Set("reasoning", json.RawMessage(`{"effort":"none"}`))
	case r.ReasoningEffort == "":
	case slices.Contains(ReasoningEfforts(), r.ReasoningEffort):
		fields.Set("reasoning", json.RawMessage(`{"enabled":true,"effort":"`+r.ReasoningEffort+`"}`))
	}
	if r.ReasoningEffort != "" && !slices.Contains(ReasoningEfforts(), r.ReasoningEffort) {
		return nil, fmt.Errorf("--reasoning_effort is %q: want %s", r.ReasoningEffort, strings.Join(ReasoningEfforts(), ", "))
	}
	return fields, nil
}

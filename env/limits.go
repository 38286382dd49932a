package env

import (
	"context"
	"encoding/json"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// slots bounds how many of something happen at once. A nil slots is unbounded.
type slots chan struct{}

func newSlots(n int) slots {
	if n <= 0 {
		return nil
	}
	return make(slots, n)
}

// acquire waits for a slot; it fails only when ctx ends first.
func (s slots) acquire(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s slots) release() {
	if s != nil {
		<-s
	}
}

// limitedTools bounds the tool calls that execute at once in the whole run.
type limitedTools struct {
	agentloop.Tools
	slots slots
}

func (t limitedTools) Call(ctx context.Context, name string, arguments json.RawMessage) (string, error) {
	if err := t.slots.acquire(ctx); err != nil {
		return "", err
	}
	defer t.slots.release()
	return t.Tools.Call(ctx, name, arguments)
}

// limitedProvider bounds how many sandboxes start at once, apart from how many run.
type limitedProvider struct {
	sandbox.Provider
	slots slots
}

func (p limitedProvider) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := p.slots.acquire(ctx); err != nil {
		return nil, err
	}
	defer p.slots.release()
	return p.Provider.Create(ctx, spec)
}

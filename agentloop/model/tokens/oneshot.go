package tokens

import (
	"context"

	"github.com/hermes-env/hermes-env/agentloop/model"
)

// OneShot is a client that opens a session for every request and drops it: for callers
// that want an answer from a server that takes token ids, and no tokens.
type OneShot struct{ cfg Config }

// NewOneShot checks the config as New does.
func NewOneShot(cfg Config) (*OneShot, error) {
	_, err := New(cfg)
	return &OneShot{cfg}, err
}

// Complete answers one conversation. Many goroutines may call it at once.
func (o *OneShot) Complete(ctx context.Context, req *model.Request) (*model.Response, error) {
	session, err := New(o.cfg)
	if err != nil {
		return nil, err
	}
	return session.Complete(ctx, req)
}

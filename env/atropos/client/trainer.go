package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// ErrNotRegistered is returned by Batch when no trainer has registered.
var ErrNotRegistered = errors.New("no trainer is registered with the server: register first")

// Register registers a trainer and returns the integer it is given, in decimal
// digits: it may have 128 bits.
func (c *Client) Register(ctx context.Context, r atropos.Registration) (string, error) {
	var reply struct {
		UUID json.Number `json:"uuid"`
	}
	if err := c.post(ctx, "/register", r, &reply); err != nil {
		return "", err
	}
	if reply.UUID == "" {
		return "", &ReplyError{Method: http.MethodPost, URL: c.base + "/register", Err: errors.New("the reply has no uuid")}
	}
	return reply.UUID.String(), nil
}

// Reset makes the server forget trainer, workers and data.
func (c *Client) Reset(ctx context.Context) error {
	_, _, err := c.do(ctx, request{method: http.MethodGet, path: "/reset_data"})
	return err
}

// Batch is groups to train on.
type Batch struct {
	ID     string            // the same whenever it is delivered; "" from servers that name none
	Groups []json.RawMessage // decode into atropos.Group
}

// BatchOptions say how a batch is taken.
type BatchOptions struct {
	// Acknowledge asks for a delivery that counts only when it is acknowledged, by the
	// next call or by Ack; until then the server delivers the same batch again. A
	// trainer that keeps the IDs of the batches it has used then uses each once.
	Acknowledge bool
	// Last is the ID of the last batch that the trainer has safely; "" when it has
	// none. Only with Acknowledge.
	Last string
}

// Batch takes the next batch; nil without an error means that none is ready.
// The context is the only time-out.
func (c *Client) Batch(ctx context.Context, options BatchOptions) (*Batch, error) {
	r := request{method: http.MethodGet, path: "/batch", limit: c.maxBatch, unlimited: true, header: http.Header{}}
	if options.Acknowledge {
		r.header.Set(atropos.HeaderAckBatch, options.Last)
	}
	content, header, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	var reply atropos.BatchMessage
	if err := c.decode(http.MethodGet, "/batch", content, &reply); err != nil {
		return nil, err
	}
	switch {
	case reply.Status == atropos.StatusError:
		return nil, fmt.Errorf("%w (%s)", ErrNotRegistered, reply.Message)
	case reply.Batch == nil:
		return nil, nil
	}
	return &Batch{ID: header.Get(atropos.HeaderBatchID), Groups: reply.Batch}, nil
}

// Ack acknowledges a batch without asking for the next.
func (c *Client) Ack(ctx context.Context, batchID string) error {
	var reply atropos.Disconnected // status and error
	if err := c.post(ctx, "/ack_batch", batchReference{batchID}, &reply); err != nil {
		return err
	}
	if reply.Status != atropos.StatusSuccess {
		return fmt.Errorf("acknowledge batch %s at %s: %s", batchID, c.base, reply.Error)
	}
	return nil
}

type batchReference struct {
	BatchID string `json:"batch_id"`
}

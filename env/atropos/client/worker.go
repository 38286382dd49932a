package client

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/klauspost/compress/gzip"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// RegisterEnv registers a worker. Its Status is atropos.StatusWait until the
// trainer has asked for its first batch: ask again then.
func (c *Client) RegisterEnv(ctx context.Context, r atropos.EnvRegistration) (atropos.EnvRegistered, error) {
	var reply atropos.EnvRegistered
	if err := c.post(ctx, "/register-env", r, &reply); err != nil {
		return reply, err
	}
	if reply.Status != atropos.StatusSuccess && reply.Status != atropos.StatusWait {
		return reply, &ReplyError{Method: http.MethodPost, URL: c.base + "/register-env", Err: fmt.Errorf("the status is %q", reply.Status)}
	}
	return reply, nil
}

// DisconnectEnv tells the server that a worker goes away. A worker the server
// doesn't know is an error.
func (c *Client) DisconnectEnv(ctx context.Context, envID int64) error {
	var reply atropos.Disconnected
	if err := c.post(ctx, "/disconnect-env", envReference{envID}, &reply); err != nil {
		return err
	}
	if reply.Status != atropos.StatusSuccess {
		return fmt.Errorf("disconnect worker %d from %s: %s", envID, c.base, reply.Error)
	}
	return nil
}

// EnvStatus asks how much is queued, as one worker sees it. A server that doesn't
// know the worker, because it was reset or lost its state, answers with a
// StatusError: of code 404 here, of code 500 the original.
func (c *Client) EnvStatus(ctx context.Context, envID int64) (atropos.EnvStatus, error) {
	const path = "/status-env"
	var reply atropos.EnvStatus
	// The body of a GET is the original's way; the query is for proxies that drop it.
	id := strconv.FormatInt(envID, 10)
	content, _, err := c.do(ctx, request{method: http.MethodGet, path: path + "?env_id=" + id, body: []byte(`{"env_id":` + id + `}`)})
	if err != nil {
		return reply, err
	}
	return reply, c.decode(http.MethodGet, path, content, &reply)
}

type envReference struct {
	EnvID int64 `json:"env_id"`
}

// Post is the data of one request: one group, or a list of groups.
type Post struct {
	List bool
	// Body is the JSON, packed with gzip if Packed is set.
	Body   []byte
	Packed bool
	// Key makes the post one that counts once however often it is sent; "" for none.
	Key string
}

// NewPost packs the JSON of a group, or of a list of groups, where that makes it
// smaller. It keeps no reference to body when it packs it.
func NewPost(body []byte, list bool, key string) (Post, error) {
	p := Post{List: list, Body: body, Key: key}
	if len(body) < minPacked {
		return p, nil
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return p, fmt.Errorf("pack a post: %w", err)
	}
	if _, err := w.Write(body); err != nil {
		return p, fmt.Errorf("pack a post: %w", err)
	}
	if err := w.Close(); err != nil {
		return p, fmt.Errorf("pack a post: %w", err)
	}
	if packed.Len() < len(body) {
		p.Body, p.Packed = packed.Bytes(), true
	}
	return p, nil
}

// minPacked is the length from which bodies are packed, in bytes.
const minPacked = 1024

// Received is the server's answer to a post.
type Received struct {
	Groups         int64 // groups taken
	Buffered       int64 // of these, waiting for others that fill up the worker's group size
	LastBufferSize int64 // sequences waiting
}

// Send posts groups. When it returns without an error the server has them, and
// keeps them if it is this project's.
func (c *Client) Send(ctx context.Context, p Post) (Received, error) {
	path := "/scored_data"
	if p.List {
		path = "/scored_data_list"
	}
	r := request{method: http.MethodPost, path: path, body: p.Body, packed: p.Packed, header: http.Header{}}
	if p.Key != "" {
		r.header.Set(atropos.HeaderIdempotencyKey, p.Key)
	}
	content, _, err := c.do(ctx, r)
	if err != nil {
		return Received{}, err
	}
	if p.List {
		var reply atropos.ListPosted
		if err := c.decode(http.MethodPost, path, content, &reply); err != nil {
			return Received{}, err
		}
		return Received{Groups: reply.GroupsProcessed, Buffered: reply.Buffered, LastBufferSize: reply.LastBufferSize}, c.taken(path, reply.Status)
	}
	var reply atropos.Posted
	if err := c.decode(http.MethodPost, path, content, &reply); err != nil {
		return Received{}, err
	}
	received := Received{Groups: 1}
	if reply.Status == atropos.StatusBuffered {
		received.Buffered, received.LastBufferSize = 1, reply.BufferSize
	}
	return received, c.taken(path, reply.Status)
}

func (c *Client) taken(path, status string) error {
	if status == atropos.StatusReceived || status == atropos.StatusBuffered {
		return nil
	}
	return &ReplyError{Method: http.MethodPost, URL: c.base + path, Err: fmt.Errorf("the status is %q", status)}
}

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/atropos"
)

// Config says which server to talk to.
type Config struct {
	URL   string // such as http://localhost:8000
	Token string // sent as bearer token; "" for none
	// HTTP makes the requests; nil means a client of its own with connections that are kept.
	HTTP *http.Client
	// Timeout ends a request that has no context to end it earlier; 0 means 60 s. Batch has no
	// time-out but its context's, since a batch may be large.
	Timeout time.Duration
	// MaxReply bounds the bytes of a reply that is not a batch; 0 means 64 MiB.
	MaxReply int64
	// MaxBatch bounds the bytes of a batch, unpacked; 0 means 8 GiB.
	MaxBatch int64
}

// Client makes requests to one server. Its methods may be called from several goroutines.
type Client struct {
	base     string
	token    string
	http     *http.Client
	timeout  time.Duration
	maxReply int64
	maxBatch int64
}

// New checks the URL and returns a client. It makes no request.
func New(config Config) (*Client, error) {
	u, err := url.Parse(config.URL)
	if err != nil {
		return nil, fmt.Errorf("server URL %q: %w", config.URL, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("server URL %q: want something like http://localhost:8000", config.URL)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("server URL %q: only scheme, host, port and path can be given", u.Redacted())
	}
	c := &Client{base: strings.TrimRight(config.URL, "/"), token: config.Token, http: config.HTTP,
		timeout: config.Timeout, maxReply: config.MaxReply, maxBatch: config.MaxBatch}
	if c.http == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.DisableCompression = true // replies are unpacked here, within a limit
		transport.MaxIdleConnsPerHost = 16
		c.http = &http.Client{Transport: transport}
	}
	if c.timeout <= 0 {
		c.timeout = time.Minute
	}
	if c.maxReply <= 0 {
		c.maxReply = 64 << 20
	}
	if c.maxBatch <= 0 {
		c.maxBatch = 8 << 30
	}
	return c, nil
}

// URL returns the server's address without a trailing slash.
func (c *Client) URL() string { return c.base }

// CloseIdle closes the connections that no request uses.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// request is one request to make.
type request struct {
	method, path string
	body         []byte // JSON, or nil
	packed       bool   // body is gzip
	header       http.Header
	limit        int64 // bytes of the reply; 0: the configured one
	unlimited    bool  // no time-out of our own
}

// StatusError is a reply with another status than 200.
type StatusError struct {
	Method, URL string
	Code        int
	Detail      string        // what the server said, shortened
	RetryAfter  time.Duration // 0 when the server named none
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s %s: status %d", e.Method, e.URL, e.Code)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Temporary says whether the same request can succeed later.
func (e *StatusError) Temporary() bool {
	return e.Code >= 500 || e.Code == http.StatusTooManyRequests || e.Code == http.StatusRequestTimeout
}

// Retryable says whether the request that failed with err can succeed later:
// connections that could not be made or broke, time-outs, and replies that say so.
func Retryable(err error) bool {
	var status *StatusError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &status):
		return status.Temporary()
	}
	var format *ReplyError
	return !errors.As(err, &format)
}

// ReplyError is a reply with status 200 that is not what the protocol promises.
type ReplyError struct {
	Method, URL string
	Err         error
}

func (e *ReplyError) Error() string {
	return fmt.Sprintf("%s %s: %v (is this an Atropos API server?)", e.Method, e.URL, e.Err)
}

func (e *ReplyError) Unwrap() error { return e.Err }

// do makes a request and returns the body of its reply, unpacked.
func (c *Client) do(ctx context.Context, r request) ([]byte, http.Header, error) {
	if !r.unlimited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s%s: %w", r.method, c.base, r.path, err)
	}
	for key, values := range r.header {
		req.Header[key] = values
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.packed {
		req.Header.Set("Content-Encoding", "gzip")
	}
	req.Header.Set("Accept-Encoding", "gzip")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err // names method and URL
	}
	defer resp.Body.Close() // nothing is read from it any more
	limit := r.limit
	if limit == 0 {
		limit = c.maxReply
	}
	content, err := readReply(resp, limit)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: read the reply: %w", r.method, req.URL.Redacted(), err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, &StatusError{Method: r.method, URL: req.URL.Redacted(), Code: resp.StatusCode,
			Detail: detail(content), RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	}
	return content, resp.Header, nil
}

// readReply reads a body of at most limit bytes, unpacked.
func readReply(resp *http.Response, limit int64) ([]byte, error) {
	var reader io.Reader = resp.Body
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		unpacked, err := gzip.NewReader(resp.Body)
		if err != nil {
			return nil, err
		}
		reader = unpacked
	}
	var buf bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= limit {
		buf.Grow(int(n) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(reader, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("it is longer than %d bytes", limit)
	}
	return buf.Bytes(), nil
}

// detail shortens what a server says about an error.
func detail(content []byte) string {
	var message struct {
		Detail json.RawMessage `json:"detail"`
	}
	text := string(content)
	if json.Unmarshal(content, &message) == nil && len(message.Detail) > 0 {
		text = string(message.Detail)
		var plain string
		if json.Unmarshal(message.Detail, &plain) == nil {
			text = plain
		}
	}
	text = strings.TrimSpace(text)
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	return text
}

func retryAfter(value string) time.Duration {
	seconds, err := strconv.ParseInt(value, 10, 32)
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// get makes a GET request for a JSON reply.
func (c *Client) get(ctx context.Context, path string, reply any) error {
	content, _, err := c.do(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return err
	}
	return c.decode(http.MethodGet, path, content, reply)
}

// post sends a JSON value for a JSON reply.
func (c *Client) post(ctx context.Context, path string, message, reply any) error {
	body, err := chat.Marshal(message)
	if err != nil {
		return fmt.Errorf("POST %s%s: encode the request: %w", c.base, path, err)
	}
	content, _, err := c.do(ctx, request{method: http.MethodPost, path: path, body: body})
	if err != nil {
		return err
	}
	return c.decode(http.MethodPost, path, content, reply)
}

func (c *Client) decode(method, path string, content []byte, reply any) error {
	if err := json.Unmarshal(content, reply); err != nil {
		return &ReplyError{Method: method, URL: c.base + path, Err: fmt.Errorf("decode the reply: %w", err)}
	}
	return nil
}

// Info asks for the trainer's batch size and longest sequence.
func (c *Client) Info(ctx context.Context) (atropos.Info, error) {
	var reply atropos.Info
	return reply, c.get(ctx, "/info", &reply)
}

// WandbInfo asks for the trainer's Weights & Biases group and project.
func (c *Client) WandbInfo(ctx context.Context) (atropos.WandbInfo, error) {
	var reply atropos.WandbInfo
	return reply, c.get(ctx, "/wandb_info", &reply)
}

// Status asks for the step and the queue.
func (c *Client) Status(ctx context.Context) (atropos.Status, error) {
	var reply atropos.Status
	return reply, c.get(ctx, "/status", &reply)
}

// Overview asks for everything a person wants to know. Servers other than this
// project's answer it with a StatusError of code 404.
func (c *Client) Overview(ctx context.Context) (*atropos.Overview, error) {
	var reply atropos.Overview
	if err := c.get(ctx, "/overview", &reply); err != nil {
		return nil, err
	}
	return &reply, nil
}

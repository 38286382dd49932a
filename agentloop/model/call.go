package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/hermes-env/hermes-env/internal/plainhttp"
)

// caller sends requests to one address of a server and reads whole answers.
type caller struct {
	target target
	// endpoint gives the URL and the header of every request, shared and never
	// changed. They hold secrets; inside a closure no print verb reaches them.
	endpoint  func() (*url.URL, http.Header)
	plain     func() *plainhttp.Endpoint // the same; nil where a connection without TLS can't be used
	transport http.RoundTripper
	timeout   time.Duration
	stall     time.Duration
	maxAnswer int64
}

// newCaller checks the description of the server. The path is added to its base URL.
func newCaller(s Server, path string) (caller, error) {
	if err := s.Validate(); err != nil {
		return caller{}, err
	}
	address, err := s.endpoint(path)
	if err != nil {
		return caller{}, err
	}
	header := requestHeader(s)
	header.Set("Content-Type", "application/json")
	plain := plainhttp.NewEndpoint(address, header)
	c := caller{
		target:    newTarget(s, http.MethodPost, path),
		endpoint:  func() (*url.URL, http.Header) { return address, header },
		plain:     func() *plainhttp.Endpoint { return plain },
		transport: s.Transport,
		timeout:   s.timeout(),
		stall:     s.stallTimeout(),
		maxAnswer: s.maxAnswer(),
	}
	if c.transport == nil {
		c.transport = NewTransport(Limits{})
	}
	return c, nil
}

func requestHeader(s Server) http.Header {
	h := http.Header{"Accept": {"application/json"}, "User-Agent": {"hermes-env"}}
	if s.APIKey != "" {
		h.Set("Authorization", "Bearer "+s.APIKey)
	}
	for name, value := range s.Headers {
		h.Set(name, value)
	}
	return h
}

// CloseIdleConnections closes connections that wait for another request. The
// client stays usable.
func (c *caller) CloseIdleConnections() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Causes with which a request's context is cancelled from inside. They don't
// wrap context.DeadlineExceeded, which stands for the caller's deadline.
var (
	errTimeout = errors.New("no whole answer within the timeout")
	errStalled = errors.New("the answer paused for too long")
)

// send posts a body and returns the whole of a successful answer.
func (c *caller) send(ctx context.Context, size int64, body func() io.ReadCloser) (*http.Response, []byte, *Error) {
	if ctx.Err() != nil {
		return nil, nil, c.target.cancelled(ctx)
	}
	call := plainhttp.Call{
		Endpoint: c.plain(), Size: size, Body: body, Timeout: c.timeout, Stall: c.stall, OnTimeout: errTimeout, OnStall: errStalled,
		MaxBody: c.maxAnswer, MaxErrorBody: maxErrorBody,
	}
	if t, ok := c.transport.(*Transport); ok && t.plain != nil && t.Proxy == nil && call.Takes(ctx) {
		return c.sendPlain(ctx, t.plain, &call)
	}
	return c.sendAny(ctx, size, inOnePiece(size, body))
}

// sendPlain is send over a connection without TLS.
func (c *caller) sendPlain(ctx context.Context, t *plainhttp.Transport, call *plainhttp.Call) (*http.Response, []byte, *Error) {
	resp, raw, err := t.Post(ctx, call)
	var cause error // of what our own timers ended
	if errors.Is(err, errTimeout) || errors.Is(err, errStalled) {
		cause = err
	}
	switch {
	case err != nil && resp == nil:
		return nil, nil, c.target.transportFailure(ctx, cause, err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		if err != nil && ctx.Err() != nil {
			return nil, nil, c.target.cancelled(ctx)
		}
		return nil, nil, c.target.statusFailure(resp, raw)
	case err != nil:
		return nil, nil, c.target.bodyFailure(ctx, cause, resp, raw, err)
	}
	return resp, raw, nil
}

// onePiece is the size up to which a body is copied together. net/http sends a body it
// knows to be in memory in one write with the headers; for any other it writes twice, which
// costs more than copying so little.
const onePiece = 8 << 10

func inOnePiece(size int64, body func() io.ReadCloser) func() io.ReadCloser {
	if size > onePiece {
		return body
	}
	return func() io.ReadCloser {
		whole := make([]byte, size)
		source := body()
		defer func() { _ = source.Close() }()
		n, _ := io.ReadFull(source, whole) // in memory: net/http says what is missing
		return io.NopCloser(bytes.NewReader(whole[:n]))
	}
}

// sendAny is send over any transport.
func (c *caller) sendAny(ctx context.Context, size int64, body func() io.ReadCloser) (*http.Response, []byte, *Error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.timeout > 0 {
		timer := time.AfterFunc(c.timeout, func() { cancel(errTimeout) })
		defer timer.Stop()
	}
	address, header := c.endpoint()
	httpReq := (&http.Request{
		Method: http.MethodPost, URL: address, Host: address.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: body(), ContentLength: size,
		GetBody: func() (io.ReadCloser, error) { return body(), nil },
	}).WithContext(inner)
	resp, err := c.transport.RoundTrip(httpReq)
	if err != nil {
		return nil, nil, c.target.transportFailure(ctx, context.Cause(inner), err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// An error's text is short; the rest of a longer one is not worth reading.
		raw, err := readAnswer(inner, resp, c.stall, maxErrorBody, cancel)
		if err != nil && ctx.Err() != nil {
			return nil, nil, c.target.cancelled(ctx)
		}
		return nil, nil, c.target.statusFailure(resp, raw)
	}
	raw, err := readAnswer(inner, resp, c.stall, c.maxAnswer, cancel)
	if err != nil {
		return nil, nil, c.target.bodyFailure(ctx, context.Cause(inner), resp, raw, err)
	}
	return resp, raw, nil
}

const maxErrorBody = 64 << 10

var errTooLarge = plainhttp.ErrTooLarge

// readAnswer reads a whole body of at most limit bytes and cancels the request
// when no byte comes for stall. What was read is returned with the error too.
func readAnswer(ctx context.Context, resp *http.Response, stall time.Duration, limit int64, cancel context.CancelCauseFunc) ([]byte, error) {
	var progress func()
	if stall > 0 {
		timer := time.AfterFunc(stall, func() { cancel(errStalled) })
		defer timer.Stop()
		progress = func() { timer.Reset(stall) }
	}
	size := 4 << 10
	if n := resp.ContentLength; n >= 0 && n < limit {
		size = int(min(n, 1<<20)) + 1 // the announced size is a claim: memory follows what really comes
	}
	raw := make([]byte, 0, size)
	for {
		if len(raw) == cap(raw) {
			raw = append(raw, 0)[:len(raw)]
		}
		n, err := resp.Body.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		if int64(len(raw)) > limit {
			return raw[:limit], errTooLarge
		}
		if errors.Is(err, io.EOF) {
			return raw, nil
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return raw, err
		}
		if n > 0 && progress != nil {
			progress()
		}
	}
}

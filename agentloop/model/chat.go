package model

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Chat is a Client for one server that speaks the OpenAI chat completions API.
// It sends exactly one request per Complete: see Retry and Pool for more.
type Chat struct {
	target target
	// endpoint gives the URL and the header of every request, shared and never
	// changed. They hold secrets; inside a closure no print verb reaches them.
	endpoint  func() (*url.URL, http.Header)
	transport http.RoundTripper
	prefixes  prefixCache
	mintID    func() string
	timeout   time.Duration
	stall     time.Duration
	maxAnswer int64
}

// target is what error messages need to know about a server. It holds the key
// only inside the closure redact.
type target struct {
	server    string // base URL to show
	request   string // method and URL to show
	model     string
	keySource string
	hasKey    bool
	versioned bool // the path of the base URL has an element like v1
	timeout   time.Duration
	stall     time.Duration
	redact    func(string) string
}

func newTarget(s Server, method, path string) target {
	base := displayURL(s.BaseURL)
	return target{
		server: base, request: method + " " + base + path, model: s.Model,
		keySource: s.KeySource, hasKey: s.APIKey != "", versioned: hasVersion(s.BaseURL),
		timeout: s.timeout(), stall: s.stallTimeout(), redact: s.redactor(),
	}
}

// hasVersion says whether the path of a base URL has an element like v1 or v1beta.
func hasVersion(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	for element := range strings.SplitSeq(u.Path, "/") {
		if len(element) >= 2 && element[0] == 'v' && element[1] >= '0' && element[1] <= '9' {
			return true
		}
	}
	return false
}

// NewChat checks the description and returns a client for it. Nothing is sent yet.
func NewChat(s Server) (*Chat, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	address, err := s.endpoint("/chat/completions")
	if err != nil {
		return nil, err
	}
	header := requestHeader(s)
	header.Set("Content-Type", "application/json")
	c := &Chat{
		target:    newTarget(s, http.MethodPost, "/chat/completions"),
		endpoint:  func() (*url.URL, http.Header) { return address, header },
		transport: s.Transport,
		mintID:    s.MintID,
		timeout:   s.timeout(),
		stall:     s.stallTimeout(),
		maxAnswer: s.maxAnswer(),
	}
	if c.transport == nil {
		c.transport = NewTransport(Limits{})
	}
	if c.mintID == nil {
		c.mintID = mintID
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

// mintID returns "call_" and 24 random hex digits.
func mintID() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return "call_" + hex.EncodeToString(random[:])
}

// String names the server and the model.
func (c *Chat) String() string { return fmt.Sprintf("model %q at %s", c.target.model, c.target.server) }

// GoString is String, so that %#v does not show the key.
func (c *Chat) GoString() string { return "*model.Chat{" + c.String() + "}" }

// CloseIdleConnections closes connections that wait for another request. The
// client stays usable.
func (c *Chat) CloseIdleConnections() {
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

// Complete sends one request. Every failure is an *Error.
func (c *Chat) Complete(ctx context.Context, req *Request) (*Response, error) {
	if ctx.Err() != nil {
		return nil, c.target.cancelled(ctx)
	}
	body, err := c.body(req)
	if err != nil {
		e := c.target.failure(KindBadRequest, err.Error(), "")
		e.Err = err
		return nil, e
	}
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
		Body: body.Reader(), ContentLength: body.Size(),
		GetBody: func() (io.ReadCloser, error) { return body.Reader(), nil },
	}).WithContext(inner)
	resp, err := c.transport.RoundTrip(httpReq)
	if err != nil {
		return nil, c.target.transportFailure(ctx, inner, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// An error's text is short; the rest of a longer one is not worth reading.
		raw, err := readAnswer(inner, resp, c.stall, maxErrorBody, cancel)
		if err != nil && ctx.Err() != nil {
			return nil, c.target.cancelled(ctx)
		}
		return nil, c.target.statusFailure(resp, raw)
	}
	raw, err := readAnswer(inner, resp, c.stall, c.maxAnswer, cancel)
	if err != nil {
		return nil, c.target.bodyFailure(ctx, inner, resp, raw, err)
	}
	answer, failure := c.target.decode(resp, raw, req.Messages, c.mintID)
	if failure != nil {
		return nil, failure
	}
	return answer, nil
}

const maxErrorBody = 64 << 10

var errTooLarge = errors.New("answer too large")

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

// looksLikeHTML says whether a body is a web page.
func looksLikeHTML(resp *http.Response, raw []byte) bool {
	text := bytes.TrimLeft(raw, " \t\r\n\ufeff")
	if len(text) > 0 && text[0] == '<' {
		return true
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == "text/html" && (len(text) == 0 || text[0] != '{')
}

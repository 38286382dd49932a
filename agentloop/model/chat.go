package model

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Chat is a Client for one server that speaks the OpenAI chat completions API.
// It sends exactly one request per Complete: see Retry and Pool for more.
type Chat struct {
	http     caller
	prefixes prefixCache
	mintID   func() string
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
	sender, err := newCaller(s, "/chat/completions")
	if err != nil {
		return nil, err
	}
	c := &Chat{http: sender, mintID: s.MintID}
	if c.mintID == nil {
		c.mintID = mintID
	}
	return c, nil
}

// mintID returns "call_" and 24 random hex digits.
func mintID() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return "call_" + hex.EncodeToString(random[:])
}

// String names the server and the model.
func (c *Chat) String() string {
	return fmt.Sprintf("model %q at %s", c.http.target.model, c.http.target.server)
}

// GoString is String, so that %#v does not show the key.
func (c *Chat) GoString() string { return "*model.Chat{" + c.String() + "}" }

// CloseIdleConnections closes connections that wait for another request. The
// client stays usable.
func (c *Chat) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Complete sends one request. Every failure is an *Error.
func (c *Chat) Complete(ctx context.Context, req *Request) (*Response, error) {
	resp, raw, err := c.exchange(ctx, req)
	if err != nil {
		return nil, err
	}
	answer, failure := c.http.target.decode(resp, raw, req.Messages, c.mintID)
	if failure != nil {
		return nil, failure
	}
	return answer, nil
}

// exchange sends one request and returns the whole of a successful answer.
func (c *Chat) exchange(ctx context.Context, req *Request) (*http.Response, []byte, error) {
	if ctx.Err() != nil {
		return nil, nil, c.http.target.cancelled(ctx)
	}
	if req.Prompt != nil {
		return nil, nil, c.http.refuse(errors.New("this server is asked in messages, not in token ids"))
	}
	body, err := c.body(req)
	if err != nil {
		return nil, nil, c.http.refuse(err)
	}
	resp, raw, failed := c.http.send(ctx, body.Size(), body.Reader)
	if failed != nil {
		return nil, nil, failed
	}
	return resp, raw, nil
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

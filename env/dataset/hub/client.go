package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Client reads from one hub into one cache folder. It may be used by several
// goroutines at once.
type Client struct {
	options  Options
	endpoint *url.URL
	http     *http.Client
	report   sync.Mutex // held while Progress or Warn is called
	inside   keyedLocks // between the goroutines of this process

	// Replaced by tests of file systems that can't do it.
	symlink func(target, name string) error
	link    func(old, name string) error
	write   func(f *os.File, p []byte) (int, error)
}

// New checks the options and returns a client.
func New(o Options) (*Client, error) {
	if o.Endpoint == "" {
		o.Endpoint = DefaultEndpoint
	}
	endpoint, err := url.Parse(strings.TrimRight(o.Endpoint, "/"))
	if err != nil || (endpoint.Scheme != "http" && endpoint.Scheme != "https") || endpoint.Host == "" ||
		endpoint.User != nil || endpoint.RawQuery != "" || endpoint.Fragment != "" {
		return nil, fmt.Errorf("the hub's address (HF_ENDPOINT) must look like %s", DefaultEndpoint)
	}
	if o.CacheDir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("find a place for the Hugging Face cache (set HF_HUB_CACHE): %w", err)
		}
		o.CacheDir = filepath.Join(home, ".cache", "huggingface", "hub")
	}
	if o.CacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return nil, fmt.Errorf("find the Hugging Face cache: %w", err)
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 4
	}
	if o.Retries == 0 {
		o.Retries = 5
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = time.Minute
	}
	if o.Wait == nil {
		o.Wait = sleep
	}
	c := &Client{options: o, endpoint: endpoint, symlink: os.Symlink, link: os.Link, write: (*os.File).Write}
	if o.Client != nil {
		given := *o.Client
		c.http = &given
	} else {
		c.http = &http.Client{}
	}
	// Redirects are followed here, where the token can be kept from other hosts.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) warn(format string, args ...any) {
	if c.options.Warn == nil {
		return
	}
	c.report.Lock()
	defer c.report.Unlock()
	c.options.Warn(fmt.Sprintf(format, args...))
}

// address returns the URL of a path below the endpoint.
func (c *Client) address(escapedPath, query string) string {
	s := c.endpoint.String() + "/" + escapedPath
	if query != "" {
		s += "?" + query
	}
	return s
}

// ours reports whether a URL is the hub's own, and so may be sent the token.
func (c *Client) ours(u *url.URL) bool {
	return u.Scheme == c.endpoint.Scheme && strings.EqualFold(u.Host, c.endpoint.Host)
}

// call is one request before its redirects.
type call struct {
	method, address string
	header          http.Header
	retries         int
	// stop, when set, ends the following of redirects at this answer.
	stop func(*http.Response) bool
}

// once sends a request and follows its redirects. The body must be closed.
func (c *Client) once(ctx context.Context, r call) (*http.Response, error) {
	u, err := url.Parse(r.address)
	if err != nil {
		return nil, permanent(fmt.Errorf("address a request to the hub: %w", withoutURL(err)))
	}
	for range 10 {
		watch := newWatch(ctx, c.options.IdleTimeout)
		req, err := http.NewRequestWithContext(watch.ctx, r.method, u.String(), nil)
		if err != nil {
			watch.end()
			return nil, permanent(withoutURL(err))
		}
		for k, v := range r.header {
			req.Header[k] = v
		}
		req.Header.Set("User-Agent", "hermes-env")
		// The size and the hash are those of the content as it is.
		req.Header.Set("Accept-Encoding", "identity")
		if c.options.Token != "" && c.ours(u) {
			req.Header.Set("Authorization", "Bearer "+string(c.options.Token))
		}
		resp, err := c.http.Do(req)
		if err != nil {
			err = watch.explain(withoutURL(err))
			watch.end()
			return nil, err
		}
		resp.Body = watchedBody{resp.Body, watch}
		location := resp.Header.Get("Location")
		if resp.StatusCode < 300 || resp.StatusCode > 399 || location == "" || (r.stop != nil && r.stop(resp)) {
			return resp, nil
		}
		closeBody(resp)
		next, err := u.Parse(location)
		switch {
		case err != nil, next.Host == "", next.Scheme != "http" && next.Scheme != "https":
			return nil, permanent(fmt.Errorf("%s redirects to an address that can't be used", u.Host))
		case u.Scheme == "https" && next.Scheme == "http":
			return nil, permanent(fmt.Errorf("%s redirects from https to http, which is not followed", u.Host))
		}
		u = next
	}
	return nil, permanent(fmt.Errorf("%s redirects more than 10 times", u.Host))
}

// watch ends a request during which nothing arrives for too long.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
}

// errIdle is the cause of a request that the watch has ended.
var errIdle = errors.New("nothing arrives")

func newWatch(ctx context.Context, idle time.Duration) *watch {
	w := &watch{idle: idle}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(idle, func() { w.cancel(errIdle) })
	return w
}

func (w *watch) end() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}

func (w *watch) explain(err error) error {
	if errors.Is(context.Cause(w.ctx), errIdle) {
		return fmt.Errorf("%w for %s", errIdle, w.idle)
	}
	return err
}

// watchedBody tells the watch of every byte that arrives.
type watchedBody struct {
	io.ReadCloser
	watch *watch
}

func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.timer.Reset(b.watch.idle)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.watch.explain(err)
	}
	return n, err
}

func (b watchedBody) Close() error {
	defer b.watch.end()
	return b.ReadCloser.Close()
}

// withoutURL takes the address out of an error of net/http: it may be signed.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// closeBody gives a connection back for further use where little is left to read.
func closeBody(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}

// permanentError marks a failure that a repetition would not cure.
type permanentError struct{ error }

func permanent(err error) error { return permanentError{err} }

func (e permanentError) Unwrap() error { return e.error }

// passing reports whether a failed request is worth repeating.
func passing(ctx context.Context, err error) bool {
	var p permanentError
	var cert *tls.CertificateVerificationError
	return ctx.Err() == nil && !errors.As(err, &p) && !errors.As(err, &cert)
}

// passingStatus reports whether an answer is worth repeating the request for.
func passingStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// answer sends a request until there is an answer that is no passing failure. A
// status of 400 and above becomes a StatusError.
func (c *Client) answer(ctx context.Context, t target, r call) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		resp, err := c.once(ctx, r)
		switch {
		case err == nil && resp.StatusCode < 400:
			return resp, nil
		case err == nil:
			closeBody(resp)
			err = c.statusError(t, resp)
			if !passingStatus(resp.StatusCode) {
				return nil, err
			}
		case !passing(ctx, err):
			return nil, c.unreachable(ctx, t, err)
		default:
			err = c.unreachable(ctx, t, err)
		}
		if attempt >= r.retries {
			return nil, err
		}
		if waitErr := c.pause(ctx, attempt, resp); waitErr != nil {
			return nil, errors.Join(waitErr, err)
		}
	}
}

// unreachable explains a request without an answer.
func (c *Client) unreachable(ctx context.Context, t target, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", t, context.Cause(ctx))
	}
	return fmt.Errorf("%s: %w at %s: %s (HF_ENDPOINT names a mirror, HF_HUB_OFFLINE=1 uses the cache alone)", t, ErrUnreachable, c.endpoint, c.redact(err.Error()))
}

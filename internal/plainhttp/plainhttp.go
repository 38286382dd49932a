// Package plainhttp makes HTTP/1.1 requests without TLS at less cost than net/http: a
// connection has no goroutines and, while it is idle, no buffers. Requests and answers are
// written and parsed by net/http, but for the ordinary answers to Post.
package plainhttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"time"
)

// MaxBody is the size of the largest request body. A larger one is written while a server
// may already answer, which needs a goroutine more.
const MaxBody = 256 << 10

const (
	readBuffer  = 4 << 10
	writeBuffer = 16 << 10
	// lateAnswer is how long an answer is waited for when the request could not be written.
	lateAnswer = 50 * time.Millisecond
	maxInterim = 5 // answers with a status of 1xx before the final one
)

// Transport is an http.RoundTripper for requests that Takes accepts. Its fields must not
// be changed once it is in use.
type Transport struct {
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)
	IdlePerHost int           // kept-alive connections to one host
	IdleTimeout time.Duration // how long one is kept
	MaxHeader   int64         // bytes of an answer's head

	mu       sync.Mutex
	idle     map[string][]*conn // by address, the longest idle first
	sweeping bool
}

// Takes reports whether the transport can send a request.
func Takes(req *http.Request) bool {
	return req.URL != nil && req.URL.Scheme == "http" && req.URL.Host != "" && req.Method != http.MethodConnect && req.Method != http.MethodHead &&
		req.ContentLength >= 0 && req.ContentLength <= MaxBody && (req.ContentLength > 0 || req.Body == nil || req.Body == http.NoBody) &&
		req.Header.Get("Expect") == "" && req.Header.Get("Upgrade") == ""
}

// conn is a connection that sends one request at a time.
type conn struct {
	net.Conn
	address string
	reused  bool
	since   time.Time // idle since
	left    int64     // bytes that may still be read of an answer's head
	written int64
	poll    poller

	x         exchange // the one that is under way
	watch     watch
	interrupt func() // ends what waits for the connection
}

func newConn(dialed net.Conn, address string) *conn {
	c := &conn{Conn: dialed, address: address}
	c.interrupt = func() { _ = c.SetDeadline(past) }
	c.watch.end = c.interrupt
	c.poll.init(dialed)
	return c
}

// Close closes the connection.
func (c *conn) Close() error {
	c.watch.stop()
	return c.Conn.Close()
}

var errHeader = errors.New("the head of the server's answer is too long")

func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeader
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written += int64(n)
	return n, err
}

var (
	readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }}
	writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }}
)

// RoundTrip sends a request and returns the answer once its head is there. As with
// http.Transport, the body has to be read to its end or closed.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
		c, err := t.connect(req)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		resp, err := t.send(c, req)
		if err == nil {
			return resp, nil
		}
		// The server has closed an idle connection: nothing of the request has reached it.
		if !c.reused || c.written > 0 || req.Context().Err() != nil || req.Body != nil && req.GetBody == nil {
			return nil, err
		}
		if req.Body != nil {
			again := *req
			if again.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
			req = &again
		}
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// past is a deadline that ends what waits for a connection.
var past = time.Unix(1, 0)

// send does a round trip on a connection, which it closes if it fails.
func (t *Transport) send(c *conn, req *http.Request) (_ *http.Response, err error) {
	ctx := req.Context()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(past) })
	var r *bufio.Reader
	defer func() {
		if err == nil {
			return
		}
		stop()
		_ = c.Close()
		if r != nil {
			release(r)
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	c.written = 0
	if err := c.write(req); err != nil {
		if c.written == 0 {
			return nil, err
		}
		// A server that refuses a request may answer without having read it all.
		_ = c.SetReadDeadline(time.Now().Add(lateAnswer))
		r = newReader()
		resp, late := t.head(c, r, req)
		if late != nil {
			return nil, err
		}
		resp.Close = true
		resp.Body = &body{ReadCloser: resp.Body, t: t, c: c, r: r, stop: stop, ctx: ctx}
		return resp, nil
	}
	c.poll.awaitData() // without a buffer: models think for long
	r = newReader()
	resp, err := t.head(c, r, req)
	if err != nil {
		return nil, err
	}
	b := &body{ReadCloser: resp.Body, t: t, c: c, r: r, stop: stop, ctx: ctx, keep: !resp.Close && !req.Close}
	if resp.Body == http.NoBody {
		b.end(true)
		return resp, nil
	}
	resp.Body = b
	return resp, nil
}

func (c *conn) write(req *http.Request) error {
	w := writers.Get().(*bufio.Writer) //nolint:forcetypeassert // the pool has nothing else
	w.Reset(c)
	err := req.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	writers.Put(w)
	return err
}

// head reads the head of the final answer.
func (t *Transport) head(c *conn, r *bufio.Reader, req *http.Request) (*http.Response, error) {
	c.left = t.MaxHeader
	r.Reset(c)
	resp, err := finalHead(r, req)
	if err == nil {
		c.left = math.MaxInt64
	}
	return resp, err
}

// finalHead reads the head of the answer that follows interim ones.
func finalHead(r *bufio.Reader, req *http.Request) (*http.Response, error) {
	for range maxInterim {
		resp, err := http.ReadResponse(r, req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
	return nil, fmt.Errorf("the server sent more than %d interim answers", maxInterim)
}

func newReader() *bufio.Reader {
	return readers.Get().(*bufio.Reader) //nolint:forcetypeassert // the pool has nothing else
}

func release(r *bufio.Reader) {
	r.Reset(nil)
	readers.Put(r)
}

// body is the body of an answer. At its end the connection can be used again.
type body struct {
	io.ReadCloser
	t    *Transport
	c    *conn
	r    *bufio.Reader
	stop func() bool
	ctx  context.Context //nolint:containedctx // of the request, for as long as that lasts
	keep bool

	mu    sync.Mutex
	ended bool
	err   error
}

var errClosed = errors.New("read from the body of an answer that was closed")

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if b.ctx.Err() != nil {
			err = context.Cause(b.ctx)
		}
		b.err = err
		b.end(false)
		return n, err
	}
	b.err = io.EOF
	b.end(true)
	return n, io.EOF
}

// Close ends the answer. A connection with more to come is closed.
func (b *body) Close() error {
	if b.stop() { // a Read that waits returns
		_ = b.c.SetReadDeadline(past)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.err = errClosed
		b.end(false)
	}
	return nil
}

// end gives the connection back, if the answer was read to its end, or closes it.
func (b *body) end(whole bool) {
	b.ended = true
	whole = whole && b.keep && b.r.Buffered() == 0
	if b.stop() && whole {
		b.t.put(b.c)
	} else {
		_ = b.c.Close()
	}
	release(b.r)
	b.r = nil
}

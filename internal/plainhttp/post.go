package plainhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Endpoint is where requests with the same head go, but for their length.
type Endpoint struct {
	address       string
	before, after []byte // of the head, around the length of the body
}

// NewEndpoint writes the head of POST requests to an address. It returns nil if a
// Transport can't send them.
func NewEndpoint(address *url.URL, header http.Header) *Endpoint {
	const length = "\r\nContent-Length: "
	req := &http.Request{
		Method: http.MethodPost, URL: address, Host: address.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader([]byte{'x'})), ContentLength: 1,
	}
	if !Takes(req) || header.Get("Connection") != "" {
		return nil
	}
	var head bytes.Buffer
	if err := req.Write(&head); err != nil { // net/http writes it, so that it is the same
		return nil
	}
	before, after, found := bytes.Cut(head.Bytes(), []byte(length+"1"))
	if !found {
		return nil
	}
	return &Endpoint{
		address: dialAddress(address),
		before:  append(bytes.Clone(before), length...),
		after:   bytes.Clone(bytes.TrimSuffix(after, []byte{'x'})),
	}
}

// Call is one request whose whole answer is wanted.
type Call struct {
	Endpoint *Endpoint
	Size     int64                // of the body; from 1 to MaxBody
	Body     func() io.ReadCloser // may be called several times, one after the other

	Timeout, Stall time.Duration // until the answer is whole; between two pieces of its body; 0 means no limit
	OnTimeout      error         // the error of a call that Timeout ended
	OnStall        error         // the same for Stall
	MaxBody        int64         // bytes of the body of an answer with a status of 2xx
	MaxErrorBody   int64         // the same for other statuses
}

// ErrTooLarge is the error of an answer that is larger than the call allows.
var ErrTooLarge = errors.New("answer too large")

// Takes reports whether the transport can send a call.
func (c *Call) Takes(ctx context.Context) bool {
	return c.Endpoint != nil && c.Size > 0 && c.Size <= MaxBody && httptrace.ContextClientTrace(ctx) == nil
}

// Post sends a request and reads the whole answer: RoundTrip with timeouts, and with less
// work. The answer's Body is empty, what it held is returned beside it. The answer is nil
// if the error came before the end of its head; with an error that came later, what was
// read is returned, too. The error is the cause of ctx if that ended.
func (t *Transport) Post(ctx context.Context, call *Call) (*http.Response, []byte, error) {
	var deadline time.Time
	if call.Timeout > 0 {
		deadline = time.Now().Add(call.Timeout)
	}
	for {
		c, err := t.connectWithin(ctx, call, deadline)
		if err != nil {
			return nil, nil, err
		}
		c.x = exchange{t: t, c: c, call: call}
		resp, raw, again, err := c.x.do(ctx, deadline)
		if !again {
			return resp, raw, err
		}
	}
}

// connectWithin returns an idle connection, or a new one that is made until the deadline.
func (t *Transport) connectWithin(ctx context.Context, call *Call, deadline time.Time) (*conn, error) {
	if c := t.take(call.Endpoint.address); c != nil {
		return c, nil // exchange finds out whether it is alive
	}
	if !deadline.IsZero() {
		within, cancel := context.WithDeadlineCause(ctx, deadline, call.OnTimeout)
		defer cancel()
		c, err := t.dial(within, call.Endpoint.address)
		if err != nil && within.Err() != nil {
			err = context.Cause(within)
		}
		return c, err
	}
	c, err := t.dial(ctx, call.Endpoint.address)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return c, err
}

// exchange is one request and its answer on a connection.
type exchange struct {
	t    *Transport
	c    *conn
	call *Call
	sent bool // the whole request is written
	keep bool // the connection can be used again
}

// do carries out the exchange. again says that the server had closed an idle connection:
// nothing of the request has reached it.
func (x *exchange) do(ctx context.Context, deadline time.Time) (resp *http.Response, raw []byte, again bool, err error) {
	c, call := x.c, x.call
	stop := context.AfterFunc(ctx, c.interrupt)
	c.watch.until(deadline, call.OnTimeout)
	resp, raw, err = x.roundTrip(deadline)
	ended := c.watch.over()
	if stop() && ended == nil && x.keep {
		t := x.t
		*x = exchange{}
		t.put(c)
		return resp, raw, false, err
	}
	_ = c.Close()
	switch {
	case err == nil || errors.Is(err, ErrTooLarge):
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case ended != nil:
		err = ended
	default:
		again = resp == nil && c.reused && c.written == 0
	}
	return resp, raw, again, err
}

var (
	inputs  = sync.Pool{New: func() any { return new([readBuffer]byte) }}
	outputs = sync.Pool{New: func() any { return new([writeBuffer]byte) }}
)

func newInput() *[readBuffer]byte {
	return inputs.Get().(*[readBuffer]byte) //nolint:forcetypeassert // the pool has nothing else
}

func (x *exchange) roundTrip(deadline time.Time) (*http.Response, []byte, error) {
	c := x.c
	c.written = 0
	in, n, err := c.poll.exchange(x)
	if in == nil {
		in = newInput()
	}
	defer inputs.Put(in)
	if err != nil {
		if c.written == 0 || x.sent {
			return nil, nil, err
		}
		// A server that refuses a request may answer without having read it all.
		_ = c.SetReadDeadline(time.Now().Add(lateAnswer))
		if n, _ = c.Conn.Read(in[:]); n <= 0 {
			return nil, nil, err
		}
	}
	var raw []byte
	resp, start, length := parseHead(in[:n])
	if resp == nil {
		var bad error
		if resp, raw, bad = x.slowly(in[:n], deadline); resp == nil && err != nil {
			bad = err
		}
		err = bad
	} else {
		raw, err = x.body(resp, in[start:n], length, deadline)
	}
	x.keep = x.keep && x.sent
	return resp, raw, err
}

// blocking sends the request and reads the first bytes of the answer.
func (x *exchange) blocking() (in *[readBuffer]byte, n int, err error) {
	if err := x.write(); err != nil {
		return nil, 0, err
	}
	x.sent = true
	in = newInput()
	n, err = x.c.Conn.Read(in[:])
	if n > 0 {
		err = nil
	}
	return in, n, err
}

// write sends the request: its head and its body, in one piece if they are small.
func (x *exchange) write() error {
	buffer := outputs.Get().(*[writeBuffer]byte) //nolint:forcetypeassert // the pool has nothing else
	defer outputs.Put(buffer)
	e := x.call.Endpoint
	out := append(buffer[:0], e.before...)
	out = strconv.AppendInt(out, x.call.Size, 10)
	out = append(out, e.after...)
	body := x.call.Body()
	defer body.Close()
	var size int64
	for {
		if len(out) == cap(out) || cap(out) != writeBuffer { // the latter after a long head
			if _, err := x.c.Write(out); err != nil {
				return err
			}
			out = buffer[:0]
		}
		n, err := body.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		size += int64(n)
		if size > x.call.Size || errors.Is(err, io.EOF) && size < x.call.Size {
			return fmt.Errorf("the request has a body of %d bytes or more, not of %d as its head says", size, x.call.Size)
		}
		if errors.Is(err, io.EOF) || err == nil && size == x.call.Size {
			break
		}
		if err != nil {
			return err
		}
	}
	if len(out) == 0 {
		return nil
	}
	_, err := x.c.Write(out)
	return err
}

func (x *exchange) limit(resp *http.Response) int64 {
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return x.call.MaxBody
	}
	return x.call.MaxErrorBody
}

// body reads a body of a known length of which a part was read with the head.
func (x *exchange) body(resp *http.Response, part []byte, length int64, deadline time.Time) ([]byte, error) {
	limit := x.limit(resp)
	wanted := min(length, limit+1)
	x.keep = int64(len(part)) <= length && wanted == length
	part = part[:min(int64(len(part)), wanted)]
	// The announced length is a claim: memory follows what really comes.
	raw := append(make([]byte, 0, max(int(min(wanted, 1<<20)), len(part))), part...)
	for int64(len(raw)) < wanted {
		x.awaitPiece(deadline)
		if len(raw) == cap(raw) {
			raw = append(raw, 0)[:len(raw)]
		}
		n, err := x.c.Conn.Read(raw[len(raw):min(int64(cap(raw)), wanted)])
		raw = raw[:len(raw)+n]
		if err != nil && int64(len(raw)) < wanted {
			x.keep = false
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return raw, err
		}
	}
	if length > limit {
		return raw[:limit], ErrTooLarge
	}
	return raw, nil
}

// awaitPiece gives the next piece of a body its time.
func (x *exchange) awaitPiece(deadline time.Time) {
	if x.call.Stall <= 0 {
		return
	}
	next, why := time.Now().Add(x.call.Stall), x.call.OnStall
	if !deadline.IsZero() && deadline.Before(next) {
		next, why = deadline, x.call.OnTimeout
	}
	x.c.watch.until(next, why)
}

// slowly reads an answer with net/http, whatever its form.
func (x *exchange) slowly(begun []byte, deadline time.Time) (*http.Response, []byte, error) {
	c := x.c
	c.left = x.t.MaxHeader - int64(len(begun))
	start := bytes.NewReader(bytes.Clone(begun))
	r := newReader()
	defer release(r)
	r.Reset(io.MultiReader(start, c))
	resp, err := finalHead(r, &http.Request{Method: http.MethodPost})
	if err != nil {
		return nil, nil, err
	}
	c.left = math.MaxInt64
	defer resp.Body.Close()
	limit := x.limit(resp)
	raw := make([]byte, 0, readBuffer)
	for {
		if r.Buffered() == 0 && start.Len() == 0 {
			x.awaitPiece(deadline)
		}
		if len(raw) == cap(raw) {
			raw = append(raw, 0)[:len(raw)]
		}
		n, err := resp.Body.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		switch {
		case int64(len(raw)) > limit:
			return resp, raw[:limit], ErrTooLarge
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			x.keep = !resp.Close && r.Buffered() == 0 && start.Len() == 0
			return resp, raw, nil
		case err != nil:
			return resp, raw, err
		}
	}
}

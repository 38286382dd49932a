package model

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/internal/plainhttp"
)

// Limits tunes a transport; the zero value suits thousands of concurrent
// requests to a few hosts.
type Limits struct {
	ConnsPerHost     int           // connections to one host; 0 means no limit
	IdleConnsPerHost int           // kept-alive connections to one host; 0 means 16,384
	IdleTimeout      time.Duration // how long one is kept; 0 means 30 s
	DialTimeout      time.Duration // for connecting and for the TLS handshake, each; 0 means 15 s

	// Proxy chooses a proxy per request; nil means none, whatever HTTP_PROXY says.
	// http.ProxyFromEnvironment follows the usual variables.
	Proxy func(*http.Request) (*url.URL, error)
}

// Transport sends requests. It is an http.Transport, except that small requests without
// TLS and proxy, as those to a server of one's own, go over connections that need less
// memory and time.
type Transport struct {
	*http.Transport
	plain *plainhttp.Transport // nil where connections are limited
}

// RoundTrip sends a request; see http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.plain == nil || !plainhttp.Takes(req) {
		return t.Transport.RoundTrip(req)
	}
	if t.Proxy != nil {
		if proxy, err := t.Proxy(req); err != nil || proxy != nil {
			return t.Transport.RoundTrip(req)
		}
	}
	return t.plain.RoundTrip(req)
}

// CloseIdleConnections closes the connections that wait for another request.
func (t *Transport) CloseIdleConnections() {
	t.Transport.CloseIdleConnections()
	if t.plain != nil {
		t.plain.CloseIdleConnections()
	}
}

// NewTransport returns a transport for many concurrent requests to few hosts:
// keep-alive over HTTP/1.1, HTTP/2 over TLS, no compression (an answer's size is
// what was sent) and no proxy unless asked for.
func NewTransport(l Limits) *Transport {
	if l.IdleConnsPerHost == 0 {
		l.IdleConnsPerHost = 16384
	}
	if l.IdleTimeout == 0 {
		l.IdleTimeout = 30 * time.Second
	}
	if l.DialTimeout == 0 {
		l.DialTimeout = 15 * time.Second
	}
	dialer := &net.Dialer{Timeout: l.DialTimeout, KeepAlive: 30 * time.Second}
	t := &Transport{}
	if l.ConnsPerHost == 0 {
		t.plain = &plainhttp.Transport{Dial: dialer.DialContext, IdlePerHost: l.IdleConnsPerHost, IdleTimeout: l.IdleTimeout, MaxHeader: maxHeader}
	}
	t.Transport = &http.Transport{
		Proxy:                 l.Proxy,
		DialContext:           pooledDial(dialer),
		ForceAttemptHTTP2:     true,
		MaxConnsPerHost:       l.ConnsPerHost,
		MaxIdleConnsPerHost:   l.IdleConnsPerHost,
		IdleConnTimeout:       l.IdleTimeout,
		TLSHandshakeTimeout:   l.DialTimeout,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
		// Small buffers: there are as many as connections, and large bodies
		// bypass them. What fits into the write buffer is sent in one piece.
		ReadBufferSize:         2 << 10,
		WriteBufferSize:        8 << 10,
		MaxResponseHeaderBytes: maxHeader,
		// Finds a dead connection that many requests share.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
	return t
}

// maxHeader bounds the head of an answer.
const maxHeader = 256 << 10

// pooledDial returns a dial function whose connections share copy buffers.
func pooledDial(dialer *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	buffers := &sync.Pool{New: func() any { return new(copyBuffer) }}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &pooledConn{conn, buffers}, nil
	}
}

type copyBuffer [32 << 10]byte

// pooledConn sends request bodies through shared buffers. net/http hands bodies
// to ReadFrom, and that of a TCP connection allocates 32 KB for each of them.
type pooledConn struct {
	net.Conn
	buffers *sync.Pool
}

// ReadFrom sends all that r has.
func (c *pooledConn) ReadFrom(r io.Reader) (int64, error) {
	buffer, ok := c.buffers.Get().(*copyBuffer)
	if !ok {
		buffer = new(copyBuffer)
	}
	defer c.buffers.Put(buffer)
	return io.CopyBuffer(writerOnly{c.Conn}, r, buffer[:])
}

// writerOnly hides the ReadFrom of the connection below.
type writerOnly struct{ io.Writer }

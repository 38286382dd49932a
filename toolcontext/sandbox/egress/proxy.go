package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Config says what a proxy lets through. The zero value lets nothing.
type Config struct {
	// Hosts are those that can be reached.
	Hosts sandbox.Hosts
	// Resolve returns the addresses of a name. Default: the system's resolver.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to a checked address. Default: TCP.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// AnyAddress takes addresses of this machine and of private networks for public
	// ones, for tests with servers of their own.
	AnyAddress bool
	// HeaderBytes bounds a request's head. Default: 64 KiB.
	HeaderBytes int
	// HeaderWait bounds the wait for it. Default: 30 s.
	HeaderWait time.Duration
	// DialWait bounds resolving a name and connecting. Default: 20 s.
	DialWait time.Duration
	// Silence ends a connection on which nothing was passed on for so long. Default: 5 min.
	Silence time.Duration
}

// Proxy serves connections. Its methods may be called from many goroutines at once.
type Proxy struct{ config Config }

// New returns a proxy.
func New(c Config) *Proxy {
	if c.Resolve == nil {
		c.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", to.String())
		}
	}
	if c.HeaderBytes <= 0 {
		c.HeaderBytes = 64 << 10
	}
	for _, d := range []struct {
		field    *time.Duration
		standard time.Duration
	}{{&c.HeaderWait, 30 * time.Second}, {&c.DialWait, 20 * time.Second}, {&c.Silence, 5 * time.Minute}} {
		if *d.field <= 0 {
			*d.field = d.standard
		}
	}
	return &Proxy{c}
}

// Conn is a client's connection. CloseWrite ends what is sent to the client, Close both
// directions, and makes calls under way return.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// refusal is an answer other than the one the client wanted.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

// Serve carries out the one request of a connection, and closes it. It returns when
// both directions have ended, nothing was passed on for Config.Silence, or ctx ends.
func (p *Proxy) Serve(ctx context.Context, client Conn) {
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	err := p.serve(ctx, client)
	var r *refusal
	if errors.As(err, &r) {
		answer(client, r)
	}
}

func answer(w Conn, r *refusal) {
	body := "hermes-env: " + r.text + "\n"
	// A client that has left misses it.
	_, _ = fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		r.code, http.StatusText(r.code), len(body), body)
	_ = w.CloseWrite() // so that Close does not take it back
}

func (p *Proxy) serve(ctx context.Context, client Conn) error {
	limited := &io.LimitedReader{R: client, N: int64(p.config.HeaderBytes)}
	in := bufio.NewReader(limited)
	late := time.AfterFunc(p.config.HeaderWait, func() { _ = client.Close() })
	request, err := http.ReadRequest(in)
	late.Stop()
	switch {
	case err != nil && limited.N <= 0:
		return &refusal{http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("the head of the request has more than %d bytes", p.config.HeaderBytes)}
	case err != nil:
		return &refusal{http.StatusBadRequest, "this proxy of the sandbox takes HTTP requests with a whole URL, and CONNECT host:port"}
	}
	limited.N = math.MaxInt64
	host, port, err := target(request)
	if err != nil {
		return err
	}
	server, err := p.connect(ctx, host, port)
	if err != nil {
		return err
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	x := newExchange(client, server, p.config.Silence)
	if request.Method == http.MethodConnect {
		if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			return err
		}
		x.run(func(w io.Writer) error { _, err := copyTo(w, in); return err })
		return nil
	}
	x.run(func(w io.Writer) error { return forward(w, request) })
	return nil
}

// target returns the host and port that a request names.
func target(r *http.Request) (host string, port uint16, err error) {
	bad := &refusal{http.StatusBadRequest, "this proxy of the sandbox takes HTTP requests with a whole URL, and CONNECT host:port"}
	standard, where := "", r.URL.Host
	switch {
	case r.Method == http.MethodConnect:
		where = r.RequestURI
	case r.URL.Scheme == "http":
		standard = "80"
	default:
		return "", 0, bad
	}
	host, text, err := net.SplitHostPort(where)
	if err != nil && standard != "" {
		host, text, err = net.SplitHostPort(where + ":" + standard)
	}
	if err == nil && text == "" {
		text = standard
	}
	n, convErr := strconv.ParseUint(text, 10, 16)
	if err != nil || convErr != nil || n == 0 || host == "" {
		return "", 0, bad
	}
	return host, uint16(n), nil
}

// connect checks a host, resolves it and connects to the first address that answers
// and may be reached. The name is looked up once: what it stands for a moment later
// does not matter.
func (p *Proxy) connect(ctx context.Context, host string, port uint16) (net.Conn, error) {
	if !p.config.Hosts.Contains(host) {
		return nil, &refusal{http.StatusForbidden, fmt.Sprintf("the network of this sandbox does not reach %.253q: it is not among its allowed hosts", host)}
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.DialWait)
	defer cancel()
	addresses, err := p.resolve(ctx, host)
	if err != nil {
		return nil, &refusal{http.StatusBadGateway, fmt.Sprintf("the name %.253q can't be resolved", host)}
	}
	var last error
	for _, a := range addresses {
		if !p.config.AnyAddress && (!isPublic(a) || isOwn(a)) {
			continue
		}
		conn, err := p.config.Dial(ctx, netip.AddrPortFrom(a, port))
		if err == nil {
			return conn, nil
		}
		last = err
	}
	if last == nil {
		return nil, &refusal{http.StatusForbidden, fmt.Sprintf("%.253q is allowed, but its addresses are none of the public Internet", host)}
	}
	return nil, &refusal{http.StatusBadGateway, fmt.Sprintf("%.253q can't be reached on port %d", host, port)}
}

func (p *Proxy) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	// The dot keeps the search list of this machine's network out of it.
	found, err := p.config.Resolve(ctx, strings.TrimSuffix(strings.ToLower(host), ".")+".")
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, err
}

// hopHeaders concern one connection only.
var hopHeaders = [...]string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// forward sends a request to its server, as the only one of the connection.
func forward(w io.Writer, r *http.Request) error {
	for _, listed := range r.Header.Values("Connection") {
		for name := range strings.SplitSeq(listed, ",") {
			r.Header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopHeaders {
		r.Header.Del(name)
	}
	if _, ok := r.Header["User-Agent"]; !ok {
		r.Header["User-Agent"] = []string{""} // none of this program's
	}
	r.Close = true
	return r.Write(w)
}

package egress_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// half is one end of an in-memory connection whose directions end apart.
type half struct {
	io.Reader
	w      *io.PipeWriter
	closer func()
}

func (h half) Write(p []byte) (int, error) { return h.w.Write(p) }
func (h half) CloseWrite() error           { return h.w.Close() }
func (h half) Close() error                { h.closer(); return nil }

func pair() (client, proxy half) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	end := func(r *io.PipeReader, w *io.PipeWriter) func() {
		return func() { _, _ = r.CloseWithError(io.ErrClosedPipe), w.Close() }
	}
	return half{r2, w1, end(r2, w1)}, half{r1, w2, end(r1, w2)}
}

// hosts parses a list of allowed hosts.
func hosts(t testing.TB, list ...string) sandbox.Hosts {
	h, err := sandbox.ParseHosts(list)
	require.NoError(t, err)
	return h
}

// names resolves a few names, and counts how often.
type names struct {
	mu    sync.Mutex
	table map[string][]string
	asked []string
}

func (n *names) resolve(_ context.Context, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, name)
	list, ok := n.table[strings.TrimSuffix(name, ".")]
	if !ok {
		return nil, errors.New("no such host")
	}
	var found []netip.Addr
	for _, text := range list {
		found = append(found, netip.MustParseAddr(text))
	}
	return found, nil
}

// exchange sends bytes to a proxy and returns all it answers.
func exchange(t *testing.T, c egress.Config, request string) string {
	t.Helper()
	client, end := pair()
	done := make(chan struct{})
	go func() { defer close(done); egress.New(c).Serve(t.Context(), end) }()
	go func() { _, _ = io.WriteString(client, request) }()
	all, err := io.ReadAll(client)
	require.NoError(t, err)
	require.NoError(t, client.Close())
	<-done
	return string(all)
}

func TestAllowedHostsAreReachedAndOthersRefusedWithTheReason(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s host=%s agent=%q proxy=%q body=%s", r.Method, r.RequestURI, r.Host, r.UserAgent(), r.Header.Get("Proxy-Authorization")+r.Header.Get("X-Hop"), body)
	}))
	defer upstream.Close()
	where, err := url.Parse(upstream.URL)
	require.NoError(t, err)
	port := where.Port()
	known := &names{table: map[string][]string{
		"good.test": {"127.0.0.1"}, "a.wild.test": {"127.0.0.1"}, "evil.test": {"127.0.0.1"}, "wild.test": {"127.0.0.1"},
	}}
	open := egress.Config{Hosts: hosts(t, "good.test", "*.wild.test", "127.0.0.1", "gone.test"), Resolve: known.resolve, AnyAddress: true}
	guarded := open
	guarded.AnyAddress = false
	long := strings.Repeat("x", 70_000)
	for name, c := range map[string]struct {
		config  egress.Config
		request string
		want    []string
	}{
		"a whole URL": {open, "GET http://good.test:" + port + "/p?q=1 HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: secret\r\nConnection: X-Hop\r\nX-Hop: yes\r\n\r\n",
			[]string{"HTTP/1.1 200", "GET /p?q=1 host=good.test:" + port + ` agent="" proxy="" body=`}},
		"a body":                      {open, "POST http://GOOD.test.:" + port + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", []string{"200", "body=hello"}},
		"a body in chunks":            {open, "POST http://good.test:" + port + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", []string{"200", "body=hello"}},
		"a wildcard":                  {open, "GET http://a.wild.test:" + port + "/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"200"}},
		"an address":                  {open, "GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"200"}},
		"a tunnel":                    {open, "CONNECT good.test:" + port + " HTTP/1.1\r\nHost: good.test\r\n\r\nGET / HTTP/1.0\r\n\r\n", []string{"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.0 200"}},
		"another name":                {open, "GET http://evil.test:" + port + "/ HTTP/1.1\r\nHost: good.test\r\n\r\n", []string{"403", "evil.test", "not among its allowed hosts"}},
		"another name, tunnelled":     {open, "CONNECT evil.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n", []string{"403", "evil.test"}},
		"the wildcard's parent":       {open, "GET http://wild.test/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"403"}},
		"another address":             {open, "CONNECT 127.0.0.2:443 HTTP/1.1\r\nHost: x\r\n\r\n", []string{"403"}},
		"an address in disguise":      {open, "CONNECT 2130706433:443 HTTP/1.1\r\nHost: x\r\n\r\n", []string{"403"}},
		"a name that is not there":    {open, "CONNECT gone.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", []string{"502", "can't be resolved"}},
		"a closed port":               {open, "CONNECT good.test:1 HTTP/1.1\r\nHost: x\r\n\r\n", []string{"502", "can't be reached"}},
		"loopback by its address":     {guarded, "CONNECT 127.0.0.1:" + port + " HTTP/1.1\r\nHost: x\r\n\r\n", []string{"403", "none of the public Internet"}},
		"loopback by a name":          {guarded, "GET http://good.test:" + port + "/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"403", "none of the public Internet"}},
		"a path alone":                {open, "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n", []string{"400"}},
		"another scheme":              {open, "GET ftp://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", []string{"400"}},
		"a tunnel without a port":     {open, "CONNECT good.test HTTP/1.1\r\nHost: good.test\r\n\r\n", []string{"400"}},
		"a tunnel to a strange port":  {open, "CONNECT good.test:99999 HTTP/1.1\r\nHost: good.test\r\n\r\n", []string{"400"}},
		"a name and password":         {open, "GET http://good.test@evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", []string{"403", "evil.test"}},
		"no HTTP":                     {open, "\x16\x03\x01\x02\x00\r\n\r\n", []string{"400"}},
		"a huge header":               {open, "GET http://good.test/ HTTP/1.1\r\nX: " + long + "\r\n\r\n", []string{"431", "65536 bytes"}},
		"a header without an end":     {open, "GET http://good.test/ HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 20_000), []string{"431"}},
		"a request line without end":  {open, long, []string{"431"}},
		"a refusal does not say more": {open, "CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", []string{"Connection: close"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := exchange(t, c.config, c.request)
			for _, want := range c.want {
				require.Contains(t, got, want)
			}
		})
	}
	for _, asked := range known.asked {
		require.NotContains(t, asked, "evil", "a name that is not allowed is not even looked up")
		require.True(t, strings.HasSuffix(asked, "."), "the search list of the machine stays out of it")
	}
}

func TestAnAddressThatChangesAfterItWasCheckedIsNotFollowed(t *testing.T) {
	var dialed []netip.AddrPort
	asked := 0
	c := egress.Config{
		Hosts: hosts(t, "rebind.test"),
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			asked++
			if asked == 1 {
				return []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("8.8.8.8")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			dialed = append(dialed, to)
			return nil, errors.New("refused")
		},
	}
	require.Contains(t, exchange(t, c, "CONNECT rebind.test:80 HTTP/1.1\r\nHost: x\r\n\r\n"), "502")
	require.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("8.8.8.8:80")}, dialed, "one look, and only the public address of it")
	require.Contains(t, exchange(t, c, "CONNECT rebind.test:80 HTTP/1.1\r\nHost: x\r\n\r\n"), "403")
	require.Len(t, dialed, 1)
}

func TestAddressesOfThisMachineAndOfPrivateNetworksAreNeverDialed(t *testing.T) {
	own, err := net.InterfaceAddrs()
	require.NoError(t, err)
	list := []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.17.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254", "100.64.0.1", "100.100.100.200",
		"192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "fe80::1", "fc00::1", "fd00:ec2::254",
		"64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "ff02::1",
	}
	for _, a := range own {
		list = append(list, a.(*net.IPNet).IP.String())
	}
	c := egress.Config{Hosts: hosts(t, "x.test"), Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
		t.Errorf("%v was dialed", to)
		return nil, errors.New("refused")
	}}
	for _, a := range list {
		c.Resolve = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr(a)}, nil }
		require.Contains(t, exchange(t, c, "CONNECT x.test:80 HTTP/1.1\r\nHost: x\r\n\r\n"), "403", a)
	}
}

func TestASilentClientIsHungUpOn(t *testing.T) {
	for name, begin := range map[string]string{"before the request": "", "in its head": "GET http://x.test/ HTTP/1.1\r\nA", "in a tunnel": "CONNECT x.test:80 HTTP/1.1\r\nHost: x\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				far, near := net.Pipe()
				defer far.Close()
				c := egress.Config{Hosts: hosts(t, "x.test"), AnyAddress: true,
					Resolve: func(context.Context, string) ([]netip.Addr, error) {
						return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
					},
					Dial: func(context.Context, netip.AddrPort) (net.Conn, error) { return near, nil },
				}
				client, end := pair()
				go func() {
					_, _ = io.WriteString(client, begin)
					_, _ = io.Copy(io.Discard, client)
				}()
				started := time.Now()
				egress.New(c).Serve(t.Context(), end)
				require.LessOrEqual(t, time.Since(started), 5*time.Minute)
				require.NoError(t, client.Close())
			})
		})
	}
}

func TestTheEndOfTheContextEndsEveryConnection(t *testing.T) {
	far, near := net.Pipe()
	defer far.Close()
	c := egress.Config{Hosts: hosts(t, "x.test"), AnyAddress: true,
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) { return near, nil },
	}
	client, end := pair()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); egress.New(c).Serve(ctx, end) }()
	_, err := io.WriteString(client, "CONNECT x.test:80 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(client).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "200")
	cancel()
	<-done
	_, err = far.Write([]byte("x"))
	require.Error(t, err, "the server's side is closed too")
}

func FuzzTheProxySurvivesWhatClientsSend(f *testing.F) {
	f.Add("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
	f.Add("CONNECT a.test:443 HTTP/1.1\r\n\r\n\x16\x03\x01")
	f.Add("POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n")
	f.Add("\x00\xff\r\n\r\n")
	allowed, err := sandbox.ParseHosts([]string{"a.test"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, request string) {
		c := egress.Config{Hosts: allowed, HeaderBytes: 4 << 10, Silence: time.Second,
			Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
				if name != "a.test." {
					t.Errorf("%q is looked up", name)
				}
				return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
			},
			Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
				if to.Addr() != netip.MustParseAddr("8.8.8.8") {
					t.Errorf("%v is dialed", to)
				}
				far, near := net.Pipe()
				go func() {
					defer far.Close()
					_, _ = far.Read(make([]byte, 512))
				}()
				return near, nil
			},
		}
		client, end := pair()
		go func() {
			_, _ = io.WriteString(client, request)
			_ = client.CloseWrite()
		}()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		egress.New(c).Serve(context.Background(), end)
		_ = client.Close()
	})
}

package plainhttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	errLate  = errors.New("it took too long")
	errPause = errors.New("it paused for too long")
)

func newCall(t *testing.T, address, body string) *Call {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	e := NewEndpoint(u, http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}, "X-Key": {"secret"}})
	require.NotNil(t, e)
	return &Call{
		Endpoint: e, Size: int64(len(body)), Body: func() io.ReadCloser { return io.NopCloser(strings.NewReader(body)) },
		OnTimeout: errLate, OnStall: errPause, MaxBody: 1 << 20, MaxErrorBody: 1 << 10,
	}
}

// posted does a whole call that succeeds.
func posted(t *testing.T, tr *Transport, address, body string) (int, string) {
	t.Helper()
	resp, raw, err := tr.Post(t.Context(), newCall(t, address, body))
	require.NoError(t, err)
	return resp.StatusCode, string(raw)
}

func TestPost_SendsWhatNetHTTPSends(t *testing.T) {
	for _, address := range []string{"http://127.0.0.1:1/v1/chat/completions", "http://host/a%20b?x=y", "http://[::1]:80"} {
		for _, size := range []int{1, 1000, 100_000} {
			body := strings.Repeat("b", size)
			here, there := net.Pipe()
			tr := newTransport(t)
			dialed := ""
			tr.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
				dialed = address
				return here, nil
			}
			got := make(chan []byte, 1)
			go func() {
				var sent bytes.Buffer
				req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(there, &sent)))
				if err == nil {
					_, _ = io.Copy(io.Discard, req.Body)
				}
				_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				got <- sent.Bytes()
			}()
			call := newCall(t, address, body)
			_, _, err := tr.Post(t.Context(), call)
			require.NoError(t, err)
			req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
			require.NoError(t, err)
			req.Header = http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}, "X-Key": {"secret"}}
			var want bytes.Buffer
			require.NoError(t, req.Write(&want))
			require.Equal(t, want.String(), string(<-got))
			require.Equal(t, dialAddress(req.URL), dialed)
		}
	}
}

func TestPost_UsesConnectionsAgain(t *testing.T) {
	url, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(body)%2 == 1 {
			w.(http.Flusher).Flush() // in chunks
		}
		_, _ = fmt.Fprintf(w, "%s %s", r.URL, body)
	})
	tr := newTransport(t)
	for i := range 20 {
		body := "x" + strings.Repeat("x", i*10_000+i)
		status, answer := posted(t, tr, url+"/path?a=b", body)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "/path?a=b "+body, answer)
		ask(t, tr, url, body) // both ways share connections
	}
	require.EqualValues(t, 1, connections.Load())
}

func TestPost_LeavesConnectionsThatTheServerHasClosed(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	tr := newTransport(t)
	url := raw(t, ok, ok) // and closes it
	for range 9 {
		_, answer := posted(t, tr, url, "x")
		require.Equal(t, "ok", answer)
		require.Eventually(t, func() bool { // the end of the connection may still be under way
			tr.mu.Lock()
			defer tr.mu.Unlock()
			for _, list := range tr.idle {
				for _, c := range list {
					if c.reused && c.poll.alive() {
						return false
					}
				}
			}
			return true
		}, 10*time.Second, time.Millisecond)
	}
}

func TestPost_ReadsAnswersOfAnyForm(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		keep   bool
	}{
		"plain":              {"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok", true},
		"lower case":         {"HTTP/1.1 201 Created\r\ncontent-type: text/plain\r\ncontent-length:2\r\n\r\nok", true},
		"keep-alive":         {"HTTP/1.1 201 Created\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", true},
		"chunks":             {"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", true},
		"after interims":     {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok", true},
		"a long head":        {"HTTP/1.1 201 Created\r\nX: " + strings.Repeat("x", 10_000) + "\r\nContent-Length: 2\r\n\r\nok", true},
		"HTTP/1.0":           {"HTTP/1.0 201 Created\r\nContent-Length: 2\r\n\r\nok", false},
		"close":              {"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false},
		"until the end":      {"HTTP/1.1 201 Created\r\n\r\nok", false},
		"more than it has":   {"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", false},
		"length given twice": {"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", true},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t)
			status, body := posted(t, tr, raw(t, c.answer), "x")
			require.Equal(t, http.StatusCreated, status)
			require.Equal(t, "ok", body)
			require.Equal(t, c.keep, len(tr.idle) == 1)
		})
	}
}

// oneByOne is a connection that gives one byte at a time and can't be polled.
type oneByOne struct {
	net.Conn
	slow io.Reader
}

func (c oneByOne) Read(p []byte) (int, error) { return c.slow.Read(p) }

func TestPost_ReadsAnswersInPieces(t *testing.T) {
	url := raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	tr := newTransport(t)
	dial := tr.Dial
	tr.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return oneByOne{c, iotest.OneByteReader(c)}, err
	}
	_, body := posted(t, tr, url, "x")
	require.Equal(t, "ok", body)
}

func TestPost_BoundsTheAnswer(t *testing.T) {
	large := strings.Repeat("x", 2<<20)
	for name, c := range map[string]struct {
		answer string
		want   int
	}{
		"of a known length": {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(large), large), 1 << 20},
		"until the end":     {"HTTP/1.1 200 OK\r\n\r\n" + large, 1 << 20},
		"of an error":       {fmt.Sprintf("HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n%s", len(large), large), 1 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t)
			_, body, err := tr.Post(t.Context(), newCall(t, raw(t, c.answer), "x"))
			require.ErrorIs(t, err, ErrTooLarge)
			require.Equal(t, large[:c.want], string(body))
			require.Empty(t, tr.idle)
		})
	}
}

func TestPost_SaysWhatIsWrongWithAnAnswer(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"nothing":       {"", "EOF"},
		"half a head":   {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", "unexpected EOF"},
		"half a body":   {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "unexpected EOF"},
		"half a chunk":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", "unexpected EOF"},
		"no HTTP":       {"SSH-2.0-OpenSSH_9\r\n", "malformed HTTP"},
		"too long":      {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100_000) + "\r\n\r\n", errHeader.Error()},
		"two lengths":   {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", "Content-Length"},
		"only interims": {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20), "interim answers"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t)
			_, _, err := tr.Post(t.Context(), newCall(t, raw(t, c.answer), "x"))
			require.ErrorContains(t, err, c.want)
			require.Empty(t, tr.idle)
		})
	}
}

func TestPost_ReadsAnAnswerToARequestThatWasNotReadWhole(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = c.Read(make([]byte, 100))
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}()
	status, body := posted(t, newTransport(t), "http://"+listener.Addr().String(), strings.Repeat("x", MaxBody))
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	require.Equal(t, "big", body)
}

func TestPost_EndsWithTheContext(t *testing.T) {
	reason := errors.New("enough")
	block := make(chan struct{})
	arrived := make(chan struct{}, 10)
	url, _ := counted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
		}
		arrived <- struct{}{}
		<-block
	})
	defer close(block)
	tr := newTransport(t)
	for _, path := range []string{"/head", "/body"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { <-arrived; cancel(reason) }()
		_, _, err := tr.Post(ctx, newCall(t, url+path, "x"))
		require.ErrorIs(t, err, reason, path)
		_, _, err = tr.Post(ctx, newCall(t, url+path, "x"))
		require.ErrorIs(t, err, reason, path)
	}
	tr.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	go cancel(reason)
	_, _, err := tr.Post(ctx, newCall(t, url, "x"))
	require.ErrorIs(t, err, reason, "while dialing")
	require.Empty(t, tr.idle)
}

func TestPost_EndsAtItsTimeout(t *testing.T) {
	block := make(chan struct{})
	url, _ := counted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/head" {
			<-block
		}
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		<-block
	})
	defer close(block)
	for name, c := range map[string]struct {
		path           string
		timeout, stall time.Duration
		want           error
	}{
		"before the head":         {"/head", 20 * time.Millisecond, time.Millisecond, errLate},
		"in the body":             {"/body", 50 * time.Millisecond, time.Hour, errLate},
		"a pause":                 {"/body", time.Hour, 20 * time.Millisecond, errPause},
		"a pause without timeout": {"/body", 0, 20 * time.Millisecond, errPause},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t)
			call := newCall(t, url+c.path, "x")
			call.Timeout, call.Stall = c.timeout, c.stall
			_, body, err := tr.Post(t.Context(), call)
			require.ErrorIs(t, err, c.want)
			require.True(t, strings.HasPrefix("begun", string(body)), "%q", body)
			require.Empty(t, tr.idle)
		})
	}
	t.Run("while dialing", func(t *testing.T) {
		tr := newTransport(t)
		tr.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		call := newCall(t, url, "x")
		call.Timeout = 10 * time.Millisecond
		_, _, err := tr.Post(t.Context(), call)
		require.ErrorIs(t, err, errLate)
	})
}

func TestWatch_EndsWhatWaitsAtTheLastDeadline(t *testing.T) {
	ends := 0
	w := &watch{end: func() { ends++ }}
	defer w.stop()
	w.until(time.Now().Add(time.Hour), errPause)
	w.ring() // that of an earlier deadline
	require.NoError(t, w.over())
	w.ring() // with nothing to end
	require.Zero(t, ends)
	w.until(time.Now().Add(time.Hour), errPause)
	w.deadline, w.why = time.Now().Add(-time.Second), errLate
	w.ring()
	w.ring()
	require.Equal(t, 1, ends)
	require.Equal(t, errLate, w.over())
}

func TestNewEndpoint_LeavesTheRestToNetHTTP(t *testing.T) {
	for address, header := range map[string]http.Header{
		"https://host/": {},
		"http://host/1": {"Expect": {"100-continue"}},
		"http://host/2": {"Upgrade": {"websocket"}},
		"http://host/3": {"Connection": {"close"}},
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Nil(t, NewEndpoint(u, header), address)
	}
}

func FuzzParseHead(f *testing.F) {
	for _, head := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 \r\ncontent-type: text/plain; x=\"y\"\r\nX: a\r\nx: b \r\nConnection: Keep-Alive\r\nContent-Length:2\r\n\r\n",
		"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nContent-Length: 2",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\nX: y\r\n\r\n",
	} {
		f.Add([]byte(head))
	}
	f.Fuzz(func(t *testing.T, begun []byte) {
		resp, start, length := parseHead(begun)
		if resp == nil {
			return
		}
		r := bufio.NewReader(bytes.NewReader(begun))
		want, err := http.ReadResponse(r, &http.Request{Method: http.MethodPost})
		require.NoError(t, err)
		require.Equal(t, want.StatusCode, resp.StatusCode)
		require.Equal(t, want.Status, resp.Status)
		require.Equal(t, want.Header, resp.Header)
		require.Equal(t, want.ContentLength, length)
		require.Equal(t, want.Close, resp.Close)
		require.Equal(t, len(begun)-start, r.Buffered())
	})
}

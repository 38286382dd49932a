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
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newTransport(t *testing.T) *Transport {
	t.Helper()
	tr := &Transport{Dial: (&net.Dialer{}).DialContext, IdlePerHost: 100, IdleTimeout: time.Minute, MaxHeader: 64 << 10}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func post(t *testing.T, ctx context.Context, url, body string) *http.Request { //nolint:revive // the test comes first
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	require.True(t, Takes(req))
	return req
}

// ask does a whole request.
func ask(t *testing.T, tr *Transport, url, body string) (int, string) {
	t.Helper()
	resp, err := tr.RoundTrip(post(t, t.Context(), url, body))
	require.NoError(t, err)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(raw)
}

// counted is a server that counts its connections.
func counted(t *testing.T, handler http.HandlerFunc) (url string, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, connections
}

// raw is a server that answers each request on a connection with given bytes. It closes the
// connection after the last.
func raw(t *testing.T, answers ...string) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for _, answer := range answers {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = io.WriteString(c, answer)
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

func TestTransport_UsesConnectionsAgain(t *testing.T) {
	url, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(body)%2 == 1 {
			w.(http.Flusher).Flush() // in chunks
		}
		_, _ = fmt.Fprintf(w, "%s %s %s", r.URL, r.Host, body)
	})
	tr := newTransport(t)
	for i := range 20 {
		body := strings.Repeat("x", i*10_000)
		status, answer := ask(t, tr, url+"/path?a=b", body)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "/path?a=b "+strings.TrimPrefix(url, "http://")+" "+body, answer)
	}
	require.EqualValues(t, 1, connections.Load())
}

func TestTransport_OpensAConnectionForEachRequestUnderWay(t *testing.T) {
	var wg sync.WaitGroup
	wg.Add(8)
	url, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
		wg.Done()
		wg.Wait() // all are there
		_, _ = io.WriteString(w, r.Header.Get("X-Number"))
	})
	tr := newTransport(t)
	var asked sync.WaitGroup
	for i := range 8 {
		asked.Go(func() {
			req := post(t, t.Context(), url, "x")
			req.Header.Set("X-Number", fmt.Sprint(i))
			resp, err := tr.RoundTrip(req)
			if err == nil {
				answer, _ := io.ReadAll(resp.Body)
				if string(answer) != fmt.Sprint(i) {
					err = fmt.Errorf("another's answer: %s", answer)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	asked.Wait()
	require.EqualValues(t, 8, connections.Load())
}

func TestTransport_LeavesConnectionsThatTheServerHasClosed(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	tr := newTransport(t)
	url := raw(t, ok, ok) // and closes it
	for range 9 {
		status, answer := ask(t, tr, url, "x")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "ok", answer)
		// The end of the connection may still be under way.
		require.Eventually(t, func() bool {
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

func TestTransport_KeepsNoConnectionWithMoreToCome(t *testing.T) {
	for name, answer := range map[string]string{
		"HTTP/1.0":         "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"close":            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"until the end":    "HTTP/1.1 200 OK\r\n\r\nok",
		"more than it has": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t)
			url := raw(t, answer)
			for range 3 {
				_, body := ask(t, tr, url, "x")
				require.Equal(t, "ok", body)
				require.Empty(t, tr.idle)
			}
		})
	}
}

func TestTransport_DoesNotKeepAnAnswerThatWasNotRead(t *testing.T) {
	url, connections := counted(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
	tr := newTransport(t)
	for range 2 {
		resp, err := tr.RoundTrip(post(t, t.Context(), url, "x"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		_, err = resp.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, errClosed)
		require.NoError(t, resp.Body.Close())
	}
	require.EqualValues(t, 2, connections.Load())
	require.Empty(t, tr.idle)
}

func TestTransport_EndsWithTheContext(t *testing.T) {
	reason := errors.New("enough")
	block := make(chan struct{})
	arrived := make(chan struct{}, 10)
	url, _ := counted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
		}
		arrived <- struct{}{}
		<-block
	})
	defer close(block)
	tr := newTransport(t)
	t.Run("before the head", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { <-arrived; cancel(reason) }()
		_, err := tr.RoundTrip(post(t, ctx, url+"/head", "x"))
		require.ErrorIs(t, err, reason)
	})
	t.Run("in the body", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		resp, err := tr.RoundTrip(post(t, ctx, url+"/body", "x"))
		require.NoError(t, err)
		cancel(reason)
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, reason)
	})
	t.Run("at the start", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(reason)
		_, err := tr.RoundTrip(post(t, ctx, url+"/head", "x"))
		require.Error(t, err)
	})
	require.Empty(t, tr.idle)
}

func TestTransport_ClosesAReaderThatWaits(t *testing.T) {
	block := make(chan struct{})
	url, _ := counted(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		<-block
	})
	defer close(block)
	resp, err := newTransport(t).RoundTrip(post(t, t.Context(), url, "x"))
	require.NoError(t, err)
	read := make(chan error)
	go func() { _, err := io.ReadAll(resp.Body); read <- err }()
	require.NoError(t, resp.Body.Close())
	require.Error(t, <-read)
}

func TestTransport_ReadsWhatComesBeforeTheAnswer(t *testing.T) {
	url := raw(t, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok")
	status, body := ask(t, newTransport(t), url, "x")
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, "ok", body)
}

func TestTransport_ReadsAnAnswerToARequestThatWasNotReadWhole(t *testing.T) {
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
	status, body := ask(t, newTransport(t), "http://"+listener.Addr().String(), strings.Repeat("x", MaxBody))
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	require.Equal(t, "big", body)
}

func TestTransport_SaysWhatIsWrongWithAnAnswer(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"nothing":       {"", "unexpected EOF"},
		"half a head":   {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", "unexpected EOF"},
		"no HTTP":       {"SSH-2.0-OpenSSH_9\r\n", "malformed HTTP"},
		"too long":      {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100_000) + "\r\n\r\n", errHeader.Error()},
		"only interims": {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20), "interim answers"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t)
			_, err := tr.RoundTrip(post(t, t.Context(), raw(t, c.answer), "x"))
			require.ErrorContains(t, err, c.want)
			require.Empty(t, tr.idle)
		})
	}
	resp, err := newTransport(t).RoundTrip(post(t, t.Context(), raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), "x"))
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestTransport_ClosesIdleConnections(t *testing.T) {
	url, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {})
	tr := newTransport(t)
	ask(t, tr, url, "x")
	tr.CloseIdleConnections()
	ask(t, tr, url, "x")
	require.EqualValues(t, 2, connections.Load())
	tr.IdleTimeout = 0
	tr.sweep() // with nothing to wait for
	require.Empty(t, tr.idle)
}

func TestTakes_LeavesTheRestToNetHTTP(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"TLS":            func(r *http.Request) { r.URL.Scheme = "https" },
		"HEAD":           func(r *http.Request) { r.Method = http.MethodHead },
		"a large body":   func(r *http.Request) { r.ContentLength = MaxBody + 1 },
		"no known size":  func(r *http.Request) { r.ContentLength = -1 },
		"a body of zero": func(r *http.Request) { r.ContentLength = 0; r.Body = io.NopCloser(new(bytes.Buffer)) },
		"Expect":         func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
		"Upgrade":        func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
	} {
		req, err := http.NewRequest(http.MethodPost, "http://host/", strings.NewReader("x"))
		require.NoError(t, err)
		require.True(t, Takes(req))
		change(req)
		require.False(t, Takes(req), name)
	}
}

package inside

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// relayed returns a client whose sandbox's connections are served, and where its
// programs find the proxy.
func relayed(t *testing.T, o Options) (c *Client, address string) {
	t.Helper()
	mine, theirs := streams(t)
	ended := serveOver(t, theirs)
	c, err := Dial(mine, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close(context.Background()))
		require.NoError(t, <-ended)
	})
	r, err := c.Exec(t.Context(), sandbox.Command{Script: `echo "$http_proxy $HTTPS_PROXY $no_proxy"`})
	require.NoError(t, err)
	fields := strings.Fields(r.Stdout.String())
	require.Len(t, fields, 3)
	require.Equal(t, fields[0], fields[1])
	address, ok := strings.CutPrefix(fields[0], "http://")
	require.True(t, ok)
	return c, address
}

// reverse answers with what it got, backwards, after its end.
func reverse(_ context.Context, c *Connection) {
	all, err := io.ReadAll(c)
	if err != nil {
		return
	}
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	_, _ = c.Write(all)
	_ = c.CloseWrite()
}

// ask writes to an address, ends its input and returns all of the answer.
func ask(address string, request []byte) ([]byte, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(request)
		if err == nil {
			err = conn.(*net.TCPConn).CloseWrite()
		}
		sent <- err
	}()
	answer, err := io.ReadAll(conn)
	if sendErr := <-sent; err == nil {
		err = sendErr
	}
	return answer, err
}

func TestConnectionsOfTheSandboxReachTheHarnessBothWaysToTheEnd(t *testing.T) {
	_, address := relayed(t, Options{Connections: reverse})
	for _, n := range []int{0, 1, 70_000, 3_000_000} {
		request := make([]byte, n)
		for i := range request {
			request[i] = byte(i * 7)
		}
		answer, err := ask(address, request)
		require.NoError(t, err)
		require.Len(t, answer, n)
		for i, j := 0, len(answer)-1; i < j; i, j = i+1, j-1 {
			answer[i], answer[j] = answer[j], answer[i]
		}
		require.True(t, bytes.Equal(request, answer))
	}
}

func TestThousandsOfConnectionsAreServedAFewAtATime(t *testing.T) {
	slowtest.Require(t)
	var (
		mu        sync.Mutex
		now, most int
	)
	c, address := relayed(t, Options{MaxConnections: 8, Connections: func(ctx context.Context, conn *Connection) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		reverse(ctx, conn)
		mu.Lock()
		now--
		mu.Unlock()
	}})
	var g errgroup.Group
	g.SetLimit(100)
	for range 3000 {
		g.Go(func() error {
			answer, err := ask(address, []byte("abc"))
			if err == nil && string(answer) != "cba" {
				t.Errorf("the answer is %q", answer)
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.LessOrEqual(t, most, 8)
	require.NoError(t, c.Ping(t.Context()))
}

func TestConnectionsThatNobodyReadsHoldNoCommandUp(t *testing.T) {
	ended := make(chan struct{}, 200)
	c, address := relayed(t, Options{MaxConnections: 20, Connections: func(ctx context.Context, conn *Connection) {
		defer func() { ended <- struct{}{} }()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		_, _ = io.Copy(conn, zeroes{}) // for ever
	}})
	for range 150 { // more than are served, more than are accepted
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer conn.Close()
		go func() { _, _ = io.Copy(conn, zeroes{}) }() // and reads nothing
	}
	for range 20 {
		r, err := c.Exec(t.Context(), sandbox.Command{Script: "echo well", Timeout: time.Minute})
		require.NoError(t, err)
		require.Equal(t, "well\n", r.Stdout.String())
	}
	require.Empty(t, ended)
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestARefusalArrivesAlthoughTheProgramGoesOnSending(t *testing.T) {
	_, address := relayed(t, Options{Connections: func(_ context.Context, conn *Connection) {
		_, _ = io.ReadFull(conn, make([]byte, 3))
		_, _ = io.WriteString(conn, "refused")
		_ = conn.CloseWrite()
		_ = conn.Close()
	}})
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "abcdef")
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "refused", string(answer))
}

func TestASandboxWithoutAProxyHasNone(t *testing.T) {
	mine, theirs := streams(t)
	ended := serveOver(t, theirs)
	c, err := Dial(mine, Options{})
	require.NoError(t, err)
	d, err := c.ask(t.Context(), newRequest(requestConnection), 0)
	require.ErrorIs(t, err, sandbox.ErrUnsupported)
	require.Nil(t, d)
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, <-ended)
}

package inside

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Limits of the connections that a sandbox opens to its proxy.
const (
	maxRelays    = 128              // at once, those that are ending included
	relayChunk   = 16 << 10         // bytes of one piece
	relayLook    = 2 * time.Second  // how soon it shows that the harness reads no more
	relayEnding  = 30 * time.Second // for what the harness has sent last
	relayPause   = 50 * time.Millisecond
	relayPort    = 3129 // where it is free, so that it is the same after a restart
	relayAddress = "127.0.0.1"
)

// relay is the server's part of a sandbox's proxy: it accepts connections on loopback
// and hands each to the harness, which alone decides what becomes of it.
type relay struct {
	listener net.Listener
	slots    chan struct{}
}

func listenRelay() (*relay, error) {
	var errs []error
	for _, port := range []int{relayPort, 0} {
		l, err := net.Listen("tcp4", net.JoinHostPort(relayAddress, strconv.Itoa(port)))
		if err == nil {
			return &relay{l, make(chan struct{}, maxRelays)}, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("listen for connections to the proxy: %w", errors.Join(errs...))
}

// environ returns the variables that programs find their proxy by.
func (r *relay) environ() []string {
	var list []string
	for name, value := range map[string]string{
		"http_proxy": "http://" + r.listener.Addr().String(), "https_proxy": "http://" + r.listener.Addr().String(),
		"no_proxy": "localhost,127.0.0.1,::1",
	} {
		list = append(list, name+"="+value, strings.ToUpper(name)+"="+value)
	}
	slices.Sort(list)
	return list
}

// accept waits for a connection.
func (r *relay) accept(ctx context.Context) (net.Conn, error) {
	for {
		conn, err := r.listener.Accept()
		if err == nil || ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		timer := time.NewTimer(relayPause) // out of files: the sandbox's own doing
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// answerConnection waits for a connection, says so and passes its bytes on: to the
// harness in pieces with their length (2 bytes) before, of which an empty one is the
// end; from the harness as they are. The two directions end apart.
func (s *server) answerConnection(ctx context.Context, ch *channel) error {
	if s.relay == nil {
		return fmt.Errorf("wait for a connection: %w: the sandbox has no proxy", sandbox.ErrUnsupported)
	}
	select {
	case s.relay.slots <- struct{}{}:
		defer func() { <-s.relay.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	conn, err := s.relay.accept(ctx)
	if err != nil {
		return fmt.Errorf("wait for a connection: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() {
		_ = conn.Close()
		ch.abortInput(context.Cause(ctx))
	})()
	if _, err := ch.Write(newMessage().message()); err != nil {
		return err
	}
	var outgoing sync.WaitGroup
	outgoing.Go(func() { passOut(ch, conn) })
	_, err = copyBytes(conn, ch)
	if half, ok := conn.(*net.TCPConn); ok && err == nil {
		err = half.CloseWrite()
	}
	if err != nil {
		_ = conn.Close() // ends the other direction
	}
	outgoing.Wait()
	return ch.finish(nil)
}

// passOut sends what a connection's client writes, until its end or until the harness
// reads no more.
func passOut(ch *channel, conn net.Conn) {
	buf := make([]byte, 2+relayChunk)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(relayLook)) // fails only where reading does
		n, err := conn.Read(buf[2:])
		if n > 0 {
			binary.BigEndian.PutUint16(buf, uint16(n))
			if _, sendErr := ch.Write(buf[:2+n]); sendErr != nil {
				break
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if ch.unwanted() {
				break
			}
			continue
		}
		if err != nil {
			_, _ = ch.Write([]byte{0, 0}) // a harness that has left does not miss it
			return
		}
	}
	_ = conn.SetDeadline(time.Now().Add(relayEnding))
}

// unwanted reports whether the other side reads no more.
func (ch *channel) unwanted() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.outEnd != nil
}

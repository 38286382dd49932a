package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Server is an API server. It serves any number of listeners.
type Server struct {
	config  Config
	store   *store
	pack    packer
	memory  *budget
	rates   rates
	begun   time.Time
	private string // a temporary directory to remove, or ""

	counters counters
	asked    atomic.Pointer[time.Time] // when a batch was last asked for; nil: not since the start
	closing  chan struct{}
	once     sync.Once
}

// counters are totals since the server started.
type counters struct {
	groups, sequences, tokens         atomic.Int64
	duplicates, rejected, refused     atomic.Int64
	batches, redelivered, interrupted atomic.Int64
	received, sent                    atomic.Int64 // bytes of bodies of groups and batches, as they were on the wire
}

// New opens the state and returns a server that does not listen yet. Close it.
func New(config Config) (*Server, error) {
	config = config.withDefaults()
	s := &Server{config: config, memory: newBudget(config.MaxMemory, perByte*(config.MaxBody+1)), begun: config.now(), closing: make(chan struct{})}
	if config.Dir == "" {
		s.sweep(os.TempDir())
		dir, err := os.MkdirTemp("", temporary)
		if err != nil {
			return nil, fmt.Errorf("make a temporary state directory: %w", err)
		}
		s.private = dir
		s.config.Dir, s.config.NoSync = dir, true
	}
	store, err := openStore(s.config)
	if err != nil {
		return nil, errors.Join(err, s.removePrivate())
	}
	s.store = store
	s.rates.begin(s.begun)
	return s, nil
}

func (s *Server) removePrivate() error {
	if s.private == "" {
		return nil
	}
	return os.RemoveAll(s.private)
}

// Dir is where the state lies.
func (s *Server) Dir() string {
	if dir, err := filepath.Abs(s.config.Dir); err == nil {
		return dir
	}
	return s.config.Dir
}

// Close writes what was taken and closes the state. Requests that are still being
// served fail.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closing)
		s.memory.timer.Stop()
		err = errors.Join(s.store.close(), s.removePrivate())
	})
	return err
}

// Serve serves the listeners until ctx ends, then waits up to grace for the
// requests that are being served, and closes the listeners and the state.
func (s *Server) Serve(ctx context.Context, listeners []net.Listener, grace time.Duration) error {
	web := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: min(10*time.Second, s.config.Stall),
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- web.Serve(l) }()
	}
	var err error
	running := len(listeners)
	select {
	case <-ctx.Done():
	case err = <-ended:
		running--
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if stopErr := web.Shutdown(patience); stopErr != nil {
		s.config.Log.Warn("cut off requests that were still being served", "after", grace)
		err = errors.Join(err, web.Close())
	}
	for range running {
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, s.Close())
}

// Listen opens the listeners of a host: for "localhost" both of IPv4 and IPv6, with
// one port, as far as the machine has them. Port 0 takes a free one.
func Listen(ctx context.Context, host string, port int) ([]net.Listener, error) {
	var config net.ListenConfig
	if host != "localhost" {
		l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return nil, fmt.Errorf("listen on %s port %d: %w", host, port, err)
		}
		return []net.Listener{l}, nil
	}
	const tries = 8 // a free port of IPv4 may be taken on IPv6
	var lastErr error
	for range tries {
		four, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, fmt.Errorf("listen on 127.0.0.1 port %d: %w", port, err)
		}
		actual := four.Addr().(*net.TCPAddr).Port
		six, err := config.Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(actual)))
		if err == nil {
			return []net.Listener{four, six}, nil
		}
		if !inUse(err) {
			return []net.Listener{four}, nil // no IPv6 here
		}
		lastErr = errors.Join(fmt.Errorf("listen on ::1 port %d: %w", actual, err), four.Close())
		if port != 0 {
			break
		}
	}
	return nil, lastErr
}

// Loopback says whether only this machine can reach what listens on a host.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

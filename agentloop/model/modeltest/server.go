package modeltest

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// Server is a mock that listens on a loopback port of its own.
type Server struct {
	*Handler
	URL string // base URL for a client, ends in /v1

	listening *listening
}

// TB is the part of testing.TB that NewServer needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// NewServer starts a recording server for a test and closes it at the test's end.
func NewServer(t TB, script Script) *Server {
	t.Helper()
	return NewServerWith(t, Config{Script: script, Record: true})
}

// NewServerWith starts a server for a test and closes it at the test's end.
func NewServerWith(t TB, config Config) *Server {
	t.Helper()
	s, err := Start(config)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start starts a server on 127.0.0.1; the caller closes it.
func Start(config Config) (*Server, error) {
	handler := New(config)
	l, err := listen(handler, handler.Release)
	if err != nil {
		return nil, err
	}
	return &Server{Handler: handler, URL: "http://" + l.address + "/v1", listening: l}, nil
}

// Close ends hanging replies, drops all connections and waits for them. A second
// call does nothing.
func (s *Server) Close() { s.listening.close() }

// listening is a handler on a loopback port and everything that runs for it.
type listening struct {
	address string
	release func() // ends replies that wait
	http    *http.Server
	serving sync.WaitGroup // the accept loop, open connections and requests
}

func listen(handler http.Handler, release func()) (*listening, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the mock model server on 127.0.0.1: %w", err)
	}
	l := &listening{address: listener.Addr().String(), release: release}
	// Requests are counted: one that took its connection over is none of the server's any more.
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.serving.Add(1)
		defer l.serving.Done()
		handler.ServeHTTP(w, r)
	})
	l.http = &http.Server{Handler: counted, ErrorLog: log.New(io.Discard, "", 0), ConnState: l.track}
	l.serving.Go(func() {
		if err := l.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			l.release() // the listener broke: nothing will ever be answered again
		}
	})
	return l, nil
}

// track counts open connections, so that close can wait for their goroutines.
func (l *listening) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		l.serving.Add(1)
	case http.StateClosed, http.StateHijacked:
		l.serving.Done()
	}
}

func (l *listening) close() {
	l.release()
	_ = l.http.Close()
	l.serving.Wait()
}

// RefusedURL returns a base URL on which nothing listens: connections are refused.
func RefusedURL(t TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer func() { _ = listener.Close() }()
	return "http://" + listener.Addr().String() + "/v1"
}

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

	http    *http.Server
	serving sync.WaitGroup // the accept loop, open connections and requests
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the mock model server on 127.0.0.1: %w", err)
	}
	s := &Server{Handler: New(config), URL: "http://" + listener.Addr().String() + "/v1"}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: log.New(io.Discard, "", 0), ConnState: s.track}
	s.serving.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.Release() // the listener broke: nothing will ever be answered again
		}
	})
	return s, nil
}

// serve counts requests: one that took its connection over is none of the server's any more.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.serving.Add(1)
	defer s.serving.Done()
	s.ServeHTTP(w, r)
}

// track counts open connections, so that Close can wait for their goroutines.
func (s *Server) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.serving.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.serving.Done()
	}
}

// Close ends hanging replies, drops all connections and waits for them. A second
// call does nothing.
func (s *Server) Close() {
	s.Release()
	_ = s.http.Close()
	s.serving.Wait()
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

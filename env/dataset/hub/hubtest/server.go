// Package hubtest is a double of the Hugging Face hub: a real HTTP server on the
// loopback interface with the routes, headers, redirects, paging and error codes
// that clients of the hub rely on, for datasets and models kept in memory.
//
// A second server plays the content delivery network that large files are redirected to; like
// the real one it refuses requests that carry the hub's token. Faults can be injected into both. The
// package is for tests and for trying things by hand; it stores nothing on disk.
package hubtest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
)

// Server is a hub under way.
type Server struct {
	// URL is the endpoint to give to clients, CDN the address of the second server.
	URL, CDN string

	mu       sync.Mutex
	repos    map[string]*repo
	tokens   map[string]bool
	pageSize int
	large    func(path string, size int) bool
	faults   []*Fault
	requests []Request
	servers  []*http.Server
	done     sync.WaitGroup
}

// Request is one request that a server has had.
type Request struct {
	// CDN is true for the second server.
	CDN           bool
	Method, Path  string
	Query         string
	Authorization string
	Range         string
	Status        int
}

// New starts a hub on the address, "127.0.0.1:0" for any free port. Close ends it.
func New(address string) (*Server, error) {
	s := &Server{
		repos: map[string]*repo{}, tokens: map[string]bool{}, pageSize: 1000,
		large: func(name string, size int) bool {
			switch path.Ext(name) {
			case ".parquet", ".gz", ".zst", ".zip", ".tar", ".arrow", ".bin", ".safetensors", ".model":
				return true
			}
			return size > 1<<20
		},
	}
	for i, handler := range []http.Handler{http.HandlerFunc(s.hub), http.HandlerFunc(s.cdn)} {
		if i == 1 {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("start a hub: %w", err), s.Close())
			}
			address = net.JoinHostPort(host, "0")
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start a hub: %w", err), s.Close())
		}
		at := "http://" + listener.Addr().String()
		if i == 0 {
			s.URL = at
		} else {
			s.CDN = at
		}
		server := &http.Server{Handler: s.observe(i == 1, handler)}
		s.servers = append(s.servers, server)
		s.done.Go(func() { _ = server.Serve(listener) })
	}
	return s, nil
}

// Start starts a hub that ends with the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s, err := New("127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Close ends both servers and the requests they are in.
func (s *Server) Close() error {
	var errs []error
	for _, server := range s.servers {
		errs = append(errs, server.Close())
	}
	s.done.Wait()
	return errors.Join(errs...)
}

// SetPageSize bounds the entries of one page of a listing. Default: 1000, as on the hub.
func (s *Server) SetPageSize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = n
}

// SetLarge says which files are in large-file storage. Default: by the usual extensions,
// and everything above 1 MiB.
func (s *Server) SetLarge(large func(path string, size int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.large = large
}

// AllowToken makes a token valid. Requests with any other are refused.
func (s *Server) AllowToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[token] = true
}

// Requests returns what both servers were asked so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Count returns how many requests so far had the method (any if empty) and a path that
// contains the text.
func (s *Server) Count(method, inPath string) int {
	n := 0
	for _, r := range s.Requests() {
		if (method == "" || r.Method == method) && strings.Contains(r.Path, inPath) {
			n++
		}
	}
	return n
}

// observe notes requests and puts faults into answers.
func (s *Server) observe(cdn bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := s.nextFault(r)
		out := &faultyWriter{ResponseWriter: w, fault: fault, status: http.StatusOK}
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.requests = append(s.requests, Request{
				CDN: cdn, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
				Authorization: r.Header.Get("Authorization"), Range: r.Header.Get("Range"), Status: out.status,
			})
		}()
		switch {
		case fault == nil:
		case fault.Hang:
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		case fault.Status != 0:
			for k, v := range fault.Header {
				out.Header().Set(k, v)
			}
			out.WriteHeader(fault.Status)
			_, _ = out.ResponseWriter.Write([]byte(fault.Body))
			return
		}
		next.ServeHTTP(out, r)
	})
}

// key is a repository's place in the map.
func key(kind, id string) string { return kind + "s/" + id }

package hubtest

import (
	"net/http"
	"slices"
	"strconv"
)

// Fault is something that goes wrong with an answer.
type Fault struct {
	// Match picks the requests. Default: all.
	Match func(*http.Request) bool
	// Times is how many of them are struck. Default: 1. Negative: all.
	Times int

	// Status answers with a status, and Header and Body, instead of what is asked for.
	Status int
	Header map[string]string
	Body   string
	// Hang never answers.
	Hang bool
	// DropAfter cuts the connection after so many bytes of the body. Default: not.
	DropAfter int
	// ShortBy announces and sends so many bytes fewer than there are.
	ShortBy int
	// Corrupt changes the first byte of the body.
	Corrupt bool
}

// Inject adds a fault. Several that match strike one after the other.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults = append(s.faults, &f)
}

// nextFault returns the fault that strikes a request, nil for none.
func (s *Server) nextFault(r *http.Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Match == nil || f.Match(r) {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
			return f
		}
	}
	return nil
}

// faultyWriter spoils an answer on its way.
type faultyWriter struct {
	http.ResponseWriter
	fault   *Fault
	status  int
	written int
	limit   int // bytes of the body that are sent; -1: all
	started bool
}

func (w *faultyWriter) WriteHeader(status int) {
	if w.started {
		return
	}
	w.started, w.status, w.limit = true, status, -1
	if w.fault != nil && w.fault.ShortBy > 0 && status < 300 {
		if n, err := strconv.Atoi(w.Header().Get("Content-Length")); err == nil {
			w.limit = max(n-w.fault.ShortBy, 0)
			w.Header().Set("Content-Length", strconv.Itoa(w.limit))
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	out := p
	if f := w.fault; f != nil && w.status < 300 && len(p) > 0 {
		if f.Corrupt && w.written == 0 {
			out = append([]byte{p[0] ^ 0xff}, p[1:]...)
		}
		if f.DropAfter > 0 && w.written+len(out) > f.DropAfter {
			_, _ = w.ResponseWriter.Write(out[:max(f.DropAfter-w.written, 0)])
			w.flush()
			panic(http.ErrAbortHandler)
		}
		if w.limit >= 0 && w.written+len(out) > w.limit {
			out = out[:max(w.limit-w.written, 0)]
		}
	}
	if _, err := w.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	w.written += len(out)
	return len(p), nil
}

func (w *faultyWriter) flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

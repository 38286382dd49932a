package modeltest

import (
	"bytes"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/tidwall/gjson"
)

// Config describes a mock server.
type Config struct {
	Script Script   // nil answers "ok" to everything
	Models []string // what GET /v1/models lists; nil means "mock". Every name may be asked for
	Key    string   // when set, requests without it as a bearer token get 401
	Record bool     // keep every request, and refuse bodies that are not JSON
}

// Handler is the mock as an http.Handler. It serves POST /v1/chat/completions and
// GET /v1/models; all else is 404.
type Handler struct {
	config      Config
	models      []byte
	buffers     sync.Pool
	requests    atomic.Int64
	inFlight    atomic.Int64
	maxInFlight atomic.Int64

	closing   chan struct{}
	closeOnce sync.Once

	mu       sync.Mutex
	recorded []Recorded
}

// Recorded is one request the mock received.
type Recorded struct {
	Method string
	Path   string // with query
	Header http.Header
	Body   []byte
	Remote string // the client's address, one per connection
	At     time.Time
}

// New returns a handler.
func New(config Config) *Handler {
	if config.Script == nil {
		config.Script = Always(Text("ok"))
	}
	if config.Models == nil {
		config.Models = []string{"mock"}
	}
	models := []byte(`{"object":"list","data":[`)
	for i, name := range config.Models {
		if i > 0 {
			models = append(models, ',')
		}
		models = chat.AppendString(append(models, `{"id":`...), name)
		models = append(models, `,"object":"model","owned_by":"mock"}`...)
	}
	return &Handler{
		config:  config,
		models:  append(models, "]}"...),
		buffers: sync.Pool{New: func() any { return new(buffers) }},
		closing: make(chan struct{}),
	}
}

// buffers holds the two bodies of one exchange for reuse.
type buffers struct {
	in  bytes.Buffer
	out []byte
}

// Release ends every reply that waits or hangs, now and later. A server calls it
// before it closes.
func (h *Handler) Release() { h.closeOnce.Do(func() { close(h.closing) }) }

// RequestCount returns how many chat completion requests arrived.
func (h *Handler) RequestCount() int { return int(h.requests.Load()) }

// InFlight returns how many chat completion requests are being answered.
func (h *Handler) InFlight() int { return int(h.inFlight.Load()) }

// MaxInFlight returns the largest InFlight so far.
func (h *Handler) MaxInFlight() int { return int(h.maxInFlight.Load()) }

// Requests returns the recorded requests of all paths in order of arrival.
func (h *Handler) Requests() []Recorded {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.recorded)
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	buf, ok := h.buffers.Get().(*buffers)
	if !ok {
		buf = new(buffers)
	}
	defer h.buffers.Put(buf)
	buf.in.Reset()
	if r.ContentLength > 0 && r.ContentLength < 16<<20 {
		buf.in.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	if _, err := buf.in.ReadFrom(r.Body); err != nil {
		return // the client left
	}
	if h.config.Record {
		h.mu.Lock()
		h.recorded = append(h.recorded, Recorded{r.Method, r.URL.RequestURI(), r.Header.Clone(), bytes.Clone(buf.in.Bytes()), r.RemoteAddr, time.Now()})
		h.mu.Unlock()
	}
	var reply Reply
	request := Request{Header: r.Header, Body: buf.in.Bytes()}
	switch {
	case h.config.Key != "" && r.Header.Get("Authorization") != "Bearer "+h.config.Key:
		reply = ErrorCode(http.StatusUnauthorized, "invalid_api_key", "Incorrect API key provided")
	case r.URL.Path == "/v1/models" && r.Method == http.MethodGet:
		reply = Reply{status: http.StatusOK, contentType: "application/json", body: h.models}
	case r.URL.Path != "/v1/chat/completions":
		reply = Raw(http.StatusNotFound, "application/json", `{"detail":"Not Found"}`)
	case r.Method != http.MethodPost:
		reply = Raw(http.StatusMethodNotAllowed, "application/json", `{"detail":"Method Not Allowed"}`)
	case h.config.Record && !gjson.ValidBytes(request.Body):
		reply = Status(http.StatusBadRequest, "the body is not JSON")
	default:
		request.Number = int(h.requests.Add(1)) - 1
		h.enter()
		defer h.inFlight.Add(-1)
		reply = h.config.Script(&request)
	}
	if reply.delay > 0 && !h.sleep(r.Context(), reply.delay) {
		drop(w, false)
		return
	}
	buf.out = reply.appendBody(buf.out[:0], &request)
	h.play(r.Context(), w, &reply, buf.out)
}

func (h *Handler) enter() {
	n := h.inFlight.Add(1)
	for {
		seen := h.maxInFlight.Load()
		if n <= seen || h.maxInFlight.CompareAndSwap(seen, n) {
			return
		}
	}
}

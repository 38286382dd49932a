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
	bodies      sync.Pool // of *bytes.Buffer
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
		bodies:  sync.Pool{New: func() any { return new(bytes.Buffer) }},
		closing: make(chan struct{}),
	}
}

// buffer returns an empty buffer for reuse; it goes back with bodies.Put.
func (h *Handler) buffer() *bytes.Buffer {
	b, ok := h.bodies.Get().(*bytes.Buffer)
	if !ok {
		b = new(bytes.Buffer)
	}
	b.Reset()
	return b
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
	if r.URL.Path == "/v1/chat/completions" && r.Method == http.MethodPost {
		h.enter()
		defer h.inFlight.Add(-1)
	}
	reply, body, err := h.prepare(r)
	if err != nil {
		return // the client left in the middle of its request
	}
	// From here on the request's body is free again: ten thousand conversations
	// that wait out their latency hold only their answers.
	if reply.delay > 0 && !h.sleep(r.Context(), reply.delay) {
		drop(w, false)
		return
	}
	h.play(r.Context(), w, &reply, body)
}

// prepare reads a request and makes the answer.
func (h *Handler) prepare(r *http.Request) (reply Reply, body []byte, err error) {
	in := h.buffer()
	defer h.bodies.Put(in)
	if r.ContentLength > 0 && r.ContentLength < 16<<20 {
		in.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	if _, err := in.ReadFrom(r.Body); err != nil {
		return Reply{}, nil, err
	}
	if h.config.Record {
		h.mu.Lock()
		h.recorded = append(h.recorded, Recorded{r.Method, r.URL.RequestURI(), r.Header.Clone(), bytes.Clone(in.Bytes()), r.RemoteAddr, time.Now()})
		h.mu.Unlock()
	}
	request := Request{Header: r.Header, Body: in.Bytes()}
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
		reply = h.config.Script(&request)
	}
	return reply, reply.appendBody(make([]byte, 0, len(reply.message)+len(reply.body)+256), &request), nil
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

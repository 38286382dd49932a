package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/journal"
)

// route is one endpoint.
type route struct {
	method string
	serve  func(http.ResponseWriter, *http.Request) error
	open   bool // needs no token
}

// Handler serves the protocol.
func (s *Server) Handler() http.Handler {
	routes := map[string]route{
		"/":                 {http.MethodGet, s.alive, false},
		"/register":         {http.MethodPost, s.register, false},
		"/register-env":     {http.MethodPost, s.registerEnv, false},
		"/disconnect-env":   {http.MethodPost, s.disconnectEnv, false},
		"/wandb_info":       {http.MethodGet, s.wandbInfo, false},
		"/info":             {http.MethodGet, s.info, false},
		"/batch":            {http.MethodGet, s.batch, false},
		"/ack_batch":        {http.MethodPost, s.ackBatch, false},
		"/latest_example":   {http.MethodGet, s.latestExample, false},
		"/scored_data":      {http.MethodPost, s.scoredData, false},
		"/scored_data_list": {http.MethodPost, s.scoredDataList, false},
		"/status":           {http.MethodGet, s.status, false},
		"/status-env":       {http.MethodGet, s.statusEnv, false},
		"/reset_data":       {http.MethodGet, s.resetData, false},
		"/overview":         {http.MethodGet, s.overview, false},
		"/metrics":          {http.MethodGet, s.metrics, false},
		"/healthz":          {http.MethodGet, s.healthz, true},
	}
	token := sha256.Sum256([]byte(s.config.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.config.NoCORS && cors(w, r) {
			return
		}
		found, ok := routes[r.URL.Path]
		if !ok {
			if shorter := strings.TrimRight(r.URL.Path, "/"); shorter != r.URL.Path {
				if _, ok := routes[shorter]; ok {
					target := *r.URL
					target.Path, target.RawPath = shorter, ""
					w.Header().Set("Location", target.RequestURI())
					w.WriteHeader(http.StatusTemporaryRedirect)
					return
				}
			}
			s.fail(w, r, &statusError{code: http.StatusNotFound, detail: "Not Found"})
			return
		}
		if s.config.Token != "" && !found.open {
			given := sha256.Sum256([]byte(bearer(r.Header.Get("Authorization"))))
			if subtle.ConstantTimeCompare(given[:], token[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				s.fail(w, r, &statusError{code: http.StatusUnauthorized, detail: "this server asks for a token: send it as Authorization: Bearer TOKEN"})
				return
			}
		}
		if r.Method != found.method {
			w.Header().Set("Allow", found.method)
			s.fail(w, r, &statusError{code: http.StatusMethodNotAllowed, detail: "Method Not Allowed"})
			return
		}
		if err := found.serve(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// cors lets pages of any origin make requests, and answers their preflights.
func cors(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Credentials", "true")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Allow-Origin", "*")
		if r.Header.Get("Cookie") != "" { // a browser takes no star for these
			h.Set("Access-Control-Allow-Origin", origin)
			h.Add("Vary", "Origin")
		}
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Methods", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
	h.Set("Access-Control-Max-Age", "600")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("OK")) // the browser went away
	return true
}

// statusError is an error with the reply it leads to.
type statusError struct {
	code   int
	detail string
	plain  bool // the body is the detail itself
	retry  time.Duration
}

func (e *statusError) Error() string { return e.detail }

// fail answers a request that could not be served.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var status *statusError
	var invalid *atropos.InvalidError
	switch {
	case errors.As(err, &invalid):
		writeJSON(w, http.StatusUnprocessableEntity, invalid.AppendJSON(nil))
		return
	case errors.As(err, &status):
	case errors.Is(err, atropos.ErrNotUTF8):
		status = &statusError{code: http.StatusBadRequest, detail: "There was an error parsing the body"}
	case errors.Is(err, atropos.ErrConflict):
		status = &statusError{code: http.StatusConflict, detail: err.Error()}
	case errors.Is(err, atropos.ErrUnknownWorker):
		status = &statusError{code: http.StatusNotFound, detail: err.Error()}
	case errors.Is(err, atropos.ErrOtherPost):
		status = &statusError{code: http.StatusUnprocessableEntity, detail: err.Error()}
	case errors.Is(err, journal.ErrFailed), errors.Is(err, journal.ErrClosed):
		s.store.rollBack() // what is refused must not show
		status = &statusError{code: http.StatusServiceUnavailable, detail: err.Error(), retry: 5 * time.Second}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return // the client went away
	default:
		s.config.Log.Error("could not serve a request", "method", r.Method, "path", r.URL.Path, "error", err)
		status = &statusError{code: http.StatusInternalServerError, detail: "Internal Server Error", plain: true}
	}
	if status.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.retry/time.Second)))
	}
	if status.plain {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status.code)
		_, _ = w.Write([]byte(status.detail)) // nobody is left to tell
		return
	}
	writeJSON(w, status.code, append(chat.AppendString([]byte(`{"detail":`), status.detail), '}'))
}

func writeJSON(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that went away asks again
}

func reply(w http.ResponseWriter, message any) error {
	body, err := chat.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode a reply: %w", err)
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func (s *Server) alive(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, struct {
		Message string `json:"message"`
	}{"AtroposLib API"})
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) error {
	body, done, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer done()
	registration, err := s.config.Rules.DecodeRegistration(body)
	if err != nil {
		return err
	}
	s.pack.plain.Store(!wantsGzip(r))
	err = s.store.decide(r.Context(), func(state *atropos.State) (*atropos.Event, error) {
		event, err := state.Register(registration)
		if event != nil {
			s.config.Log.Info("a trainer registered", "batch_size", registration.BatchSize, "max_token_len", registration.MaxTokenLen, "step", state.Status().CurrentStep)
		}
		return event, err
	})
	if err != nil {
		return err
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return fmt.Errorf("make a number for a trainer: %w", err)
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // a random UUID
	return reply(w, struct {
		UUID json.Number `json:"uuid"`
	}{json.Number(new(big.Int).SetBytes(id).String())})
}

func (s *Server) registerEnv(w http.ResponseWriter, r *http.Request) error {
	body, done, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer done()
	registration, err := s.config.Rules.DecodeEnvRegistration(body)
	if err != nil {
		return err
	}
	var registered atropos.EnvRegistered
	err = s.store.decide(r.Context(), func(state *atropos.State) (event *atropos.Event, _ error) {
		registered, event = state.RegisterWorker(registration, s.config.now())
		return event, nil
	})
	if err != nil {
		return err
	}
	if registered.Status == atropos.StatusWait {
		return reply(w, struct {
			Status string `json:"status"`
		}{registered.Status})
	}
	s.config.Log.Info("a worker registered", "env_id", registered.EnvID, "name", registered.WandbName)
	return reply(w, registered)
}

func (s *Server) disconnectEnv(w http.ResponseWriter, r *http.Request) error {
	body, done, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer done()
	id, err := s.config.Rules.DecodeEnvID(body)
	if err != nil {
		return err
	}
	var known bool
	err = s.store.decide(r.Context(), func(state *atropos.State) (event *atropos.Event, _ error) {
		event, known = state.Disconnect(id)
		return event, nil
	})
	if err != nil {
		return err
	}
	if !known {
		return reply(w, atropos.Disconnected{Status: atropos.StatusFailure, Error: "list index out of range"})
	}
	return replySuccess(w)
}

func replySuccess(w http.ResponseWriter) error {
	return reply(w, struct {
		Status string `json:"status"`
	}{atropos.StatusSuccess})
}

func (s *Server) wandbInfo(w http.ResponseWriter, _ *http.Request) error {
	var info atropos.WandbInfo
	s.store.look(func(state *atropos.State) { info = state.WandbInfo() })
	return reply(w, info)
}

func (s *Server) info(w http.ResponseWriter, _ *http.Request) error {
	var info atropos.Info
	s.store.look(func(state *atropos.State) { info = state.Info() })
	return reply(w, info)
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) error {
	var status atropos.Status
	s.store.look(func(state *atropos.State) { status = state.Status() })
	return reply(w, status)
}

func (s *Server) statusEnv(w http.ResponseWriter, r *http.Request) error {
	var id int64
	if query := r.URL.Query(); query.Has("env_id") {
		n, err := atropos.ParseEnvID(query.Get("env_id"))
		if err != nil {
			return err
		}
		id = n
	} else {
		body, done, err := s.read(w, r)
		if err != nil {
			return err
		}
		defer done()
		if id, err = s.config.Rules.DecodeEnvID(body); err != nil {
			return err
		}
	}
	var status atropos.EnvStatus
	_, err := s.store.change(func(state *atropos.State) (event *atropos.Event, err error) {
		status, event, err = state.WorkerStatus(id, s.config.now())
		return event, err
	})
	if err != nil {
		return err
	}
	return reply(w, status)
}

func (s *Server) resetData(w http.ResponseWriter, r *http.Request) error {
	err := s.store.decide(r.Context(), func(state *atropos.State) (*atropos.Event, error) {
		event := state.Reset()
		if event != nil {
			s.config.Log.Warn("reset: trainer, workers and data are forgotten")
		}
		return event, nil
	})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("Reset successful")) // a client that went away asks again
	return nil
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	if err := s.store.problem(); err != nil {
		return err
	}
	return reply(w, struct {
		Status string `json:"status"`
	}{"ok"})
}

// bearer returns the token of an Authorization header, or "". The name of the scheme
// is written in any case (RFC 9110, 11.1).
func bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

package replay

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/chattemplate"
	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/tidwall/gjson"
)

// Options tunes a server; zero values give the defaults.
type Options struct {
	Model   string        // the name GET /v1/models lists; "" means "replay". Every name may be asked for
	Latency time.Duration // waited before every answer, so that a demo can be watched
}

// Server plays a script over HTTP. It keeps one counter per prompt and no state
// per conversation: the ids of tool calls ("replay-<conversation>-<variant>-<turn>-<call>")
// tell later requests of the same conversation apart. For the same sequence of
// requests the answers are the same.
//
// Token counts are estimates: the bytes of JSON divided by four, rounded up. They are
// exact for /generate, whose tokens are bytes (WriteFolder).
type Server struct {
	script   *Script
	matchers []matcher
	template *chattemplate.Template // of WriteFolder
	options  Options

	mu     sync.Mutex
	opened map[[sha256.Size]byte]int // conversations per prompt

	listener net.Listener
	http     *http.Server
	serving  sync.WaitGroup // the accept loop and every open connection
	stop     func() bool
	closing  chan struct{}
	closed   sync.Once
}

// New checks the script and returns a server for it, which is not started yet.
func New(script *Script, options Options) (*Server, error) {
	if options.Model == "" {
		options.Model = "replay"
	}
	if options.Latency < 0 {
		return nil, fmt.Errorf("replay: the latency %s is negative", options.Latency)
	}
	matchers, err := script.compile()
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	template, err := chattemplate.Parse("default", folderTemplate)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return &Server{
		script: script, matchers: matchers, template: template, options: options,
		opened: make(map[[sha256.Size]byte]int), closing: make(chan struct{}),
	}, nil
}

// Start listens on a free port of 127.0.0.1 and serves until Close or the end of ctx.
// It is called once.
func (s *Server) Start(ctx context.Context) error {
	if s.listener != nil {
		return errors.New("replay: the server was started before")
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("replay: listen on 127.0.0.1: %w", err)
	}
	s.listener = listener
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.serving.Add(1)
			case http.StateClosed, http.StateHijacked:
				s.serving.Done()
			}
		},
	}
	s.serving.Go(func() {
		_ = s.http.Serve(listener) // ends with ErrServerClosed; a broken listener shows as refused connections
	})
	s.stop = context.AfterFunc(ctx, s.shut)
	return nil
}

// BaseURL returns the address for a client, which ends in /v1; "" before Start.
func (s *Server) BaseURL() string {
	if s.listener == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String() + "/v1"
}

// Close drops all connections and waits until nothing of the server runs. A
// second call does nothing.
func (s *Server) Close() error {
	if s.listener == nil {
		return nil
	}
	s.stop()
	s.shut()
	s.serving.Wait()
	return nil
}

func (s *Server) shut() {
	s.closed.Do(func() {
		// Sockets first, so that no answer that is cut short looks like one.
		_ = s.http.Close() // there is nothing to be done about a failure
		close(s.closing)
	})
}

const maxRequest = 256 << 20 // bytes

// ServeHTTP answers POST /v1/chat/completions, POST /generate and GET /v1/models.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/models" && r.Method == http.MethodGet:
		body := chat.AppendString([]byte(`{"object":"list","data":[{"id":`), s.options.Model)
		write(w, http.StatusOK, append(body, `,"object":"model","owned_by":"replay"}]}`...))
	case r.URL.Path != "/v1/chat/completions" && r.URL.Path != "/generate":
		refuse(w, http.StatusNotFound, "unknown_path", "the replay server has /v1/chat/completions, /generate and /v1/models, not "+r.URL.Path)
	case r.Method != http.MethodPost:
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "use POST")
	default:
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			refuse(w, http.StatusRequestEntityTooLarge, "request_too_large", "the request could not be read: "+err.Error())
			return
		}
		if r.URL.Path == "/generate" {
			s.generate(r.Context(), w, body)
			return
		}
		s.answer(r.Context(), w, body)
	}
}

// request is what the choice of an answer depends on.
type request struct {
	prompt    string
	messages  int          // bytes of JSON
	assistant []string     // raw assistant messages so far
	sampled   []string     // in place of these, their texts
	turns     int          // of the assistant so far
	stamp     *[2]int      // conversation and variant, from the ids of earlier calls
	model     gjson.Result // as asked for
}

func readRequest(body []byte) (request, string) {
	var r request
	if !json.Valid(body) {
		return r, "the body is not valid JSON"
	}
	root := gjson.ParseBytes(body)
	if root.Get("stream").Bool() {
		return r, "the replay server does not stream: leave \"stream\" out"
	}
	messages := root.Get("messages")
	if !messages.IsArray() {
		return r, "\"messages\" is missing or not a list"
	}
	r.model, r.messages = root.Get("model"), len(messages.Raw)
	asked := false
	messages.ForEach(func(_, item gjson.Result) bool {
		switch item.Get("role").String() {
		case string(chat.RoleUser):
			if m, err := chat.Decode([]byte(item.Raw)); err == nil && !asked {
				r.prompt, asked = promptText(m), true
			}
		case string(chat.RoleAssistant):
			r.assistant = append(r.assistant, item.Raw)
			item.Get("tool_calls.#.id").ForEach(func(_, id gjson.Result) bool {
				if stamp, ok := readStamp(id.String()); ok {
					r.stamp = &stamp
				}
				return true
			})
		}
		return true
	})
	if !asked {
		return r, "\"messages\" holds no user message"
	}
	r.turns = len(r.assistant)
	return r, ""
}

// promptText is the form in which prompts are compared: a text does not lose or
// gain its last line break on the way through a file.
func promptText(m chat.Message) string { return strings.TrimSpace(m.Text()) }

func (s *Server) answer(ctx context.Context, w http.ResponseWriter, body []byte) {
	r, problem := readRequest(body)
	if problem != "" {
		refuse(w, http.StatusBadRequest, "invalid_request", problem)
		return
	}
	if p, ok := s.play(ctx, w, &r); ok {
		write(w, http.StatusOK, completion(&r, p.turn, s.options.Model, p.number, p.variant, r.turns))
	}
}

// played is the turn that answers a request.
type played struct {
	turn            *Turn
	number, variant int
}

// play finds the turn that answers a request and waits for as long as it takes; false
// when the request was refused.
func (s *Server) play(ctx context.Context, w http.ResponseWriter, r *request) (played, bool) {
	conversation := -1
	for i := range s.matchers {
		if s.matchers[i].matches(r.prompt) {
			conversation = i
			break
		}
	}
	if conversation < 0 {
		// Not 404: that would tell clients that the model or the path is wrong.
		refuse(w, http.StatusUnprocessableEntity, "no_matching_conversation", "the replay script has no conversation for the prompt "+strconv.Quote(textutil.Shorten(r.prompt, 200)))
		return played{}, false
	}
	variants := s.script.Conversations[conversation].Variants
	number, variant := s.choose(r, variants)
	turn := r.turns
	if turn >= len(variants[variant].Turns) {
		refuse(w, http.StatusUnprocessableEntity, "script_ended", fmt.Sprintf("variant %d of the replay script for the prompt %q has %d turns and was asked for turn %d",
			variant+1, textutil.Shorten(r.prompt, 80), len(variants[variant].Turns), turn+1))
		return played{}, false
	}
	t := &variants[variant].Turns[turn]
	if wait := s.options.Latency + t.Delay; wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		ended := false
		select {
		case <-timer.C:
		case <-ctx.Done():
			ended = true
		case <-s.closing:
			ended = true
		}
		if ended {
			refuse(w, http.StatusServiceUnavailable, "closing", "the replay server is closing")
			return played{}, false
		}
	}
	return played{t, number, variant}, true
}

// choose gives the number of the conversation among those with its prompt, and its variant.
func (s *Server) choose(r *request, variants []Variant) (number, variant int) {
	switch {
	case r.turns == 0:
		key := sha256.Sum256([]byte(r.prompt))
		s.mu.Lock()
		defer s.mu.Unlock()
		number = s.opened[key]
		s.opened[key]++
		return number, number % len(variants)
	case r.stamp != nil && r.stamp[1] < len(variants):
		return r.stamp[0], r.stamp[1]
	}
	// A conversation without calls so far, or with an opening that was given:
	// its texts tell the variant.
	for i, v := range variants {
		same := len(v.Turns) >= r.turns
		for j := 0; same && j < len(r.sampled); j++ {
			text, err := s.text(&v.Turns[j])
			same = err == nil && text == r.sampled[j]
		}
		for j := 0; same && j < len(r.assistant); j++ {
			m, err := chat.Decode([]byte(r.assistant[j]))
			same = err == nil && m.Text() == v.Turns[j].Content
		}
		if same {
			return 0, i
		}
	}
	return 0, 0
}

func stamp(number, variant, turn, call int) string {
	return fmt.Sprintf("replay-%d-%d-%d-%d", number, variant, turn, call)
}

// readStamp reads conversation and variant back from the id of a call.
func readStamp(id string) (numbers [2]int, ok bool) {
	rest, ok := strings.CutPrefix(id, "replay-")
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 4 {
		return numbers, false
	}
	for i := range numbers {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 {
			return numbers, false
		}
		numbers[i] = n
	}
	return numbers, true
}

func completion(r *request, t *Turn, name string, number, variant, turn int) []byte {
	calls := make([]chat.ToolCall, len(t.Calls))
	for i, c := range t.Calls {
		calls[i] = chat.ToolCall{ID: stamp(number, variant, turn, i), Name: c.Name, Arguments: c.Arguments}
	}
	message := chat.Assistant(t.Content, t.Reasoning, calls...).JSON()
	finish := t.FinishReason
	switch {
	case finish != "":
	case len(calls) > 0:
		finish = "tool_calls"
	default:
		finish = "stop"
	}
	if r.model.String() != "" {
		name = r.model.String()
	}
	prompt, answer := (r.messages+3)/4, (len(message)+3)/4
	body := chat.AppendString([]byte(`{"id":`), fmt.Sprintf("replay-%d-%d-%d", number, variant, turn))
	body = append(body, `,"object":"chat.completion","created":0,"model":`...)
	body = chat.AppendString(body, name)
	body = append(body, `,"choices":[{"index":0,"message":`...)
	body = append(body, message...)
	body = append(body, `,"finish_reason":`...)
	body = chat.AppendString(body, finish)
	return fmt.Appendf(body, `}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, prompt, answer, prompt+answer)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	body := chat.AppendString([]byte(`{"error":{"message":`), message)
	body = append(body, `,"type":"replay_error","param":null,"code":`...)
	body = chat.AppendString(body, code)
	write(w, status, append(body, "}}"...))
}

func write(w http.ResponseWriter, status int, body []byte) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left is not the server's problem
}

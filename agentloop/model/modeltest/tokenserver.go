package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/chattemplate"
	"github.com/hermes-env/hermes-env/agentloop/tokenizer"
	"github.com/tidwall/gjson"
)

// API says whose endpoints a token server has.
type API int

// The servers there are doubles of, built from their public descriptions:
// docs.vllm.ai (OpenAI-compatible server), docs.sglang.io (native API), and the
// /generate server that the Atropos framework was used with.
const (
	VLLM API = iota
	SGLang
	Generate
)

// TokenConfig describes a token server.
type TokenConfig struct {
	API    API
	Dir    string      // folder of the model: tokenizer.json, its configuration, a chat template
	Script TokenScript // nil samples "ok" for everything
	// MaxModelLen is how many tokens prompt and answer may have; 0 means 32768.
	MaxModelLen int
	Key         string // when set, requests without it as a bearer token get 401
	// Without names paths that the server does not have, for example "/tokenize".
	Without []string
	Record  bool
}

// TokenServer is a double of a server that takes and gives token ids, on a loopback
// port of its own.
type TokenServer struct {
	URL  string // base URL for a client, ends in /v1
	Root string // the same without /v1

	config    TokenConfig
	tokenizer *tokenizer.Tokenizer
	settings  tokenizer.Config
	template  *chattemplate.Template
	end       int // id of the token that ends an answer
	faults    *Handler
	listening *listening

	mu       sync.Mutex
	requests int
	weights  string
	restart  chan struct{} // closed when new weights come
	recorded []Recorded
}

// NewTokenServer starts a recording token server for a test and closes it at the test's end.
func NewTokenServer(t TB, config TokenConfig) *TokenServer {
	t.Helper()
	config.Record = true
	s, err := StartTokens(config)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// StartTokens starts a token server on 127.0.0.1; the caller closes it.
func StartTokens(config TokenConfig) (*TokenServer, error) {
	s := &TokenServer{config: config, faults: New(Config{}), weights: "default", restart: make(chan struct{})}
	if s.config.Script == nil {
		s.config.Script = SampleInOrder(Sample("ok"))
	}
	if s.config.MaxModelLen == 0 {
		s.config.MaxModelLen = 32768
	}
	var err error
	if s.tokenizer, err = tokenizer.Load(config.Dir); err != nil {
		return nil, err
	}
	if s.settings, err = tokenizer.LoadConfig(config.Dir); err != nil {
		return nil, err
	}
	if s.template, err = chattemplate.Parse("default", s.settings.ChatTemplates["default"]); err != nil {
		return nil, err
	}
	var ok bool
	if s.end, ok = s.tokenizer.ID(s.settings.EOSToken); !ok {
		return nil, fmt.Errorf("start a token server: the tokenizer has no token %q", s.settings.EOSToken)
	}
	if s.listening, err = listen(http.HandlerFunc(s.serve), s.faults.Release); err != nil {
		return nil, err
	}
	s.Root = "http://" + s.listening.address
	s.URL = s.Root + "/v1"
	return s, nil
}

// Close ends hanging replies, drops all connections and waits for them.
func (s *TokenServer) Close() { s.listening.close() }

// Restart loads new weights: what is being generated is broken off.
func (s *TokenServer) Restart(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weights = version
	close(s.restart)
	s.restart = make(chan struct{})
}

// RequestCount returns how many answers were asked for.
func (s *TokenServer) RequestCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Requests returns the recorded requests of all paths in order of arrival.
func (s *TokenServer) Requests() []Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.recorded)
}

func (s *TokenServer) serve(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	if s.config.Record {
		s.mu.Lock()
		s.recorded = append(s.recorded, Recorded{r.Method, r.URL.RequestURI(), r.Header.Clone(), raw, r.RemoteAddr, time.Now()})
		s.mu.Unlock()
	}
	reply := s.route(r, raw)
	body := reply.appendBody(nil, &Request{Header: r.Header, Body: raw})
	if reply.delay > 0 && !s.faults.sleep(r.Context(), reply.delay) {
		drop(w, false)
		return
	}
	s.faults.play(r.Context(), w, &reply, body)
}

func (s *TokenServer) route(r *http.Request, raw []byte) Reply {
	if s.config.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.config.Key {
		return ErrorCode(http.StatusUnauthorized, "invalid_api_key", "Unauthorized")
	}
	missing := Raw(http.StatusNotFound, "application/json", `{"detail":"Not Found"}`)
	if slices.Contains(s.config.Without, r.URL.Path) {
		return missing
	}
	if r.Method == http.MethodGet {
		return s.get(r.URL.Path, missing)
	}
	var body tokenBody
	if err := json.Unmarshal(raw, &body); err != nil {
		return Raw(http.StatusUnprocessableEntity, "application/json", `{"detail":[{"type":"json_invalid","loc":["body"],"msg":"JSON decode error"}]}`)
	}
	request := &TokenRequest{Path: r.URL.Path, Header: r.Header, Body: raw}
	path := r.URL.Path
	switch {
	case s.config.API == VLLM && path == "/tokenize":
		return s.tokenize(&body)
	case s.config.API == VLLM && path == "/detokenize":
		list, ok := idsOf(body.Tokens)
		if !ok {
			return badRequest("tokens: a list of ids is required")
		}
		return jsonReply(append(chat.AppendString([]byte(`{"prompt":`), s.tokenizer.Decode(list, false)), '}'))
	case s.config.API == VLLM && path == "/v1/completions":
		return s.completions(request, &body)
	case s.config.API == VLLM && path == "/v1/chat/completions":
		return s.chatCompletions(request, &body)
	case s.config.API == SGLang && path == "/generate":
		return s.generateSGLang(request, &body)
	case s.config.API == SGLang && path == "/update_weight_version":
		s.Restart(body.NewVersion)
		return jsonReply([]byte(`{"success":true,"message":"ok"}`))
	case s.config.API == Generate && path == "/generate":
		return s.generateLists(request, &body)
	}
	return missing
}

func (s *TokenServer) get(path string, missing Reply) Reply {
	s.mu.Lock()
	weights := s.weights
	s.mu.Unlock()
	switch path {
	case "/health", "/health_generate":
		return Raw(http.StatusOK, "application/json", "")
	case "/v1/models":
		if s.config.API != Generate {
			return jsonReply([]byte(`{"object":"list","data":[{"id":"mock","object":"model","owned_by":"mock","max_model_len":` + strconv.Itoa(s.config.MaxModelLen) + `}]}`))
		}
	case "/version":
		if s.config.API == VLLM {
			return jsonReply([]byte(`{"version":"0.0.0-mock"}`))
		}
	case "/get_model_info", "/model_info":
		if s.config.API == SGLang {
			info := chat.AppendString([]byte(`{"model_path":"mock","tokenizer_path":`), s.config.Dir)
			return jsonReply(append(chat.AppendString(append(info, `,"is_generation":true,"weight_version":`...), weights), '}'))
		}
	case "/get_weight_version":
		if s.config.API == SGLang {
			return jsonReply(append(chat.AppendString([]byte(`{"weight_version":`), weights), '}'))
		}
	}
	return missing
}

// render writes a conversation the way the server's model wants it. Of the fields for
// reasoning vLLM's /tokenize reads one.
func (s *TokenServer) render(path string, body *tokenBody) ([]int, error) {
	in := chattemplate.Input{
		AddGenerationPrompt: body.AddGeneration == nil || *body.AddGeneration,
		BOSToken:            s.settings.BOSToken, EOSToken: s.settings.EOSToken, PadToken: s.settings.PadToken,
	}
	if err := json.Unmarshal(body.Messages, &in.Messages); err != nil || len(in.Messages) == 0 {
		return nil, errors.New("messages: a list of messages is required")
	}
	for i, m := range in.Messages {
		if path != "/tokenize" || m.Get("reasoning_content") == nil {
			continue
		}
		var err error
		if in.Messages[i], err = m.With("reasoning_content", json.RawMessage("null")); err != nil {
			return nil, err
		}
	}
	gjson.ParseBytes(body.Tools).ForEach(func(_, v gjson.Result) bool {
		in.Tools = append(in.Tools, json.RawMessage(v.Raw))
		return true
	})
	if len(body.Kwargs) > 0 {
		if err := json.Unmarshal(body.Kwargs, &in.Extra); err != nil {
			return nil, err
		}
	}
	rendered, err := s.template.Render(in)
	if err != nil {
		return nil, err
	}
	return s.tokenizer.Encode(rendered.Text, false)
}

func (s *TokenServer) tokenize(body *tokenBody) Reply {
	var list []int
	var text string
	var err error
	switch {
	case body.Messages != nil:
		list, err = s.render("/tokenize", body)
	case json.Unmarshal(body.Prompt, &text) == nil:
		list, err = s.tokenizer.Encode(text, false)
	default:
		err = errors.New("prompt or messages: field required")
	}
	if err != nil {
		return badRequest(err.Error())
	}
	out := append([]byte(`{"count":`), strconv.Itoa(len(list))...)
	out = append(append(out, `,"max_model_len":`...), strconv.Itoa(s.config.MaxModelLen)...)
	return jsonReply(append(jsonIDs(append(out, `,"tokens":`...), list), `,"token_strs":null}`...))
}

func badRequest(message string) Reply {
	raw := chat.AppendString([]byte(`{"error":{"message":`), message)
	return Raw(http.StatusBadRequest, "application/json", string(append(raw, `,"type":"BadRequestError","param":null,"code":400}}`...)))
}

func jsonReply(body []byte) Reply { return Raw(http.StatusOK, "application/json", string(body)) }

// sampled is what a script's reply became.
type sampled struct {
	prompt   []int // as the server reports it
	tokens   []int
	logprobs []float64
	text     string // with special tokens
	plain    string // without them
	finish   string
	stop     string
	weights  string
	reply    TokenReply
}

// sample asks the script. failure is not nil when the request ends without an answer.
func (s *TokenServer) sample(r *TokenRequest, prompt []int, maxTokens *int) (out sampled, failure *Reply) {
	limit := s.config.MaxModelLen
	s.mu.Lock()
	r.Number, r.Weights = s.requests, s.weights
	s.requests++
	restart := s.restart
	s.mu.Unlock()
	room := limit - len(prompt)
	if room <= 0 || maxTokens != nil && s.config.API == VLLM && *maxTokens > room {
		reply := s.tooLong(len(prompt), maxTokens)
		return out, &reply
	}
	if maxTokens != nil {
		room = min(room, *maxTokens)
	}
	r.Prompt, r.decode = prompt, func(ids []int) string { return s.tokenizer.Decode(ids, false) }
	reply := s.config.Script(r)
	if reply.http != nil {
		return out, reply.http
	}
	out = sampled{prompt: prompt, tokens: slices.Clone(reply.tokens), finish: reply.finish, stop: reply.stop, weights: r.Weights, reply: reply}
	if reply.tokens == nil {
		list, err := s.tokenizer.Encode(reply.text, false)
		if err != nil {
			fails := Status(http.StatusInternalServerError, err.Error())
			return out, &fails
		}
		out.tokens = list
	}
	if !reply.noEnd {
		out.tokens = append(out.tokens, s.end)
	}
	if len(out.tokens) > room {
		out.tokens, out.finish, out.stop = out.tokens[:room], "length", ""
	}
	if reply.delay > 0 {
		timer := time.NewTimer(reply.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-restart:
			out.finish, out.tokens = "abort", out.tokens[:len(out.tokens)/2]
		case <-s.faults.closing:
		}
	}
	for i, id := range out.tokens {
		out.logprobs = append(out.logprobs, LogprobOf(id, len(prompt)+i))
	}
	out.text = s.tokenizer.Decode(out.tokens, false)
	out.plain = s.tokenizer.Decode(out.tokens, true)
	switch {
	case reply.cutPrompt:
		out.prompt = prompt[len(prompt)/2:]
	case reply.otherPrompt:
		out.prompt = slices.Clone(prompt)
		out.prompt[len(prompt)/2]++
	}
	if reply.badLogprob && len(out.logprobs) > 0 {
		out.logprobs[0] = 0.5
	}
	return out, nil
}

func (s *TokenServer) tooLong(prompt int, maxTokens *int) Reply {
	limit := strconv.Itoa(s.config.MaxModelLen)
	if s.config.API == SGLang {
		return Raw(http.StatusBadRequest, "application/json", `{"error":{"message":"The input (`+strconv.Itoa(prompt)+` tokens) is longer than the model's context length (`+limit+` tokens)."}}`)
	}
	asked := 0
	if maxTokens != nil {
		asked = *maxTokens
	}
	return badRequest("This model's maximum context length is " + limit + " tokens. However, you requested " + strconv.Itoa(prompt+asked) +
		" tokens (" + strconv.Itoa(prompt) + " in the messages, " + strconv.Itoa(asked) + " in the completion). Please reduce the length of the messages or completion.")
}

func numbers(dst []byte, list []float64) []byte {
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	}
	return append(dst, ']')
}

// reported are the lists as the server gives them, its faults included.
func (o *sampled) reported() (tokens []int, logprobs []float64) {
	tokens, logprobs = o.tokens, o.logprobs
	if o.reply.shortIDs {
		tokens = tokens[:len(tokens)-1]
	}
	if o.reply.shortLogprobs {
		logprobs = logprobs[:len(logprobs)-1]
	}
	return tokens, logprobs
}

// shown is the text of the answer: without what ended it unless that is asked for, and
// without special tokens unless they are.
func (o *sampled) shown(skipSpecial *bool, end string, whole bool) string {
	if whole {
		return o.text
	}
	text := o.text
	if skipSpecial == nil || *skipSpecial {
		text = o.plain
	}
	return strings.TrimSuffix(strings.TrimSuffix(text, end), o.stop)
}

package model

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Defaults of Server.
const (
	DefaultTimeout       = 20 * time.Minute
	DefaultStallTimeout  = 5 * time.Minute
	DefaultMaxAnswer     = 64 << 20 // bytes
	DefaultMaxConcurrent = 512
)

// Server describes one OpenAI-compatible endpoint. Printing, logging or encoding
// it shows neither the key nor the values of headers and query.
type Server struct {
	// BaseURL is used as it is: "/chat/completions" is appended to its path (after
	// removing slashes at the end) and its query, if any, is kept. Most servers
	// want it to end in /v1.
	BaseURL string
	Model   string // model name sent with every request

	APIKey    string            // sent as a bearer token to this server only; "" sends none
	KeySource string            // where the key came from, for error messages, for example "OPENAI_API_KEY"
	Headers   map[string]string // further request headers; their values are treated as secrets

	Timeout      time.Duration // for one whole request; 0 means DefaultTimeout, negative none
	StallTimeout time.Duration // longest pause once the answer's headers are there; 0 means DefaultStallTimeout, negative none
	MaxAnswer    int64         // largest answer in bytes; 0 means DefaultMaxAnswer

	MaxConcurrent int     // requests in flight in a pool; 0 means DefaultMaxConcurrent, negative no limit
	Rates         Rates   // what a pool sends per minute
	Weight        float64 // share of the load in a pool; 0 means 1

	// Price is what the server charges, for what pools book to an Account; nil is unknown.
	Price *Price

	// Transport sends the requests; nil means a NewTransport of the client's own.
	// Clients of several servers do well to share one.
	Transport http.RoundTripper
	// MintID makes the id of a tool call that came without a usable one; nil means
	// "call_" and 24 random hex digits.
	MintID func() string
}

// String describes the server without its key.
func (s Server) String() string {
	return fmt.Sprintf("model %q at %s (key: %s)", s.Model, displayURL(s.BaseURL), s.keyState())
}

// GoString is String, so that %#v does not show the key either.
func (s Server) GoString() string { return "model.Server{" + s.String() + "}" }

// LogValue describes the server to slog without its key.
func (s Server) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("base_url", displayURL(s.BaseURL)),
		slog.String("model", s.Model),
		slog.String("key", s.keyState()),
	)
}

// serverView is what encoders may see of a Server.
type serverView struct {
	BaseURL       string  `json:"base_url" yaml:"base_url"`
	Model         string  `json:"model_name" yaml:"model_name"`
	Key           string  `json:"api_key" yaml:"api_key"`
	Timeout       float64 `json:"timeout_seconds" yaml:"timeout_seconds"`
	StallTimeout  float64 `json:"stall_timeout_seconds" yaml:"stall_timeout_seconds"`
	MaxConcurrent int     `json:"num_max_requests_at_once" yaml:"num_max_requests_at_once"`
	Weight        float64 `json:"weight" yaml:"weight"`
}

func (s Server) view() serverView {
	return serverView{displayURL(s.BaseURL), s.Model, s.keyState(), s.timeout().Seconds(), s.stallTimeout().Seconds(), s.maxConcurrent(), s.weight()}
}

// MarshalJSON encodes the server with defaults filled in and without its key.
func (s Server) MarshalJSON() ([]byte, error) { return chat.Marshal(s.view()) }

// MarshalYAML encodes the server with defaults filled in and without its key.
func (s Server) MarshalYAML() (any, error) { return s.view(), nil }

func (s Server) keyState() string {
	switch {
	case s.APIKey == "":
		return "none"
	case s.KeySource != "":
		return "from " + s.KeySource
	}
	return "set"
}

func (s Server) timeout() time.Duration {
	if s.Timeout == 0 {
		return DefaultTimeout
	}
	return s.Timeout
}

func (s Server) stallTimeout() time.Duration {
	if s.StallTimeout == 0 {
		return DefaultStallTimeout
	}
	return s.StallTimeout
}

func (s Server) maxAnswer() int64 {
	if s.MaxAnswer <= 0 {
		return DefaultMaxAnswer
	}
	return s.MaxAnswer
}

func (s Server) maxConcurrent() int {
	if s.MaxConcurrent == 0 {
		return DefaultMaxConcurrent
	}
	return s.MaxConcurrent
}

func (s Server) weight() float64 {
	if s.Weight == 0 {
		return 1
	}
	return s.Weight
}

// Validate reports everything that is wrong with the description, joined into one error.
func (s Server) Validate() error {
	var problems []error
	if _, err := s.endpoint("/chat/completions"); err != nil {
		problems = append(problems, err)
	}
	if strings.TrimSpace(s.Model) == "" {
		problems = append(problems, errors.New("the model name is empty"))
	}
	if !validHeaderValue(s.APIKey) || strings.TrimSpace(s.APIKey) != s.APIKey {
		problems = append(problems, fmt.Errorf("the key%s holds white space at an end or a control character: check how it was pasted", s.fromSource()))
	}
	names := make([]string, 0, len(s.Headers))
	for name := range s.Headers {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if !validHeaderName(name) {
			problems = append(problems, fmt.Errorf("header name %q is not valid", name))
		} else if !validHeaderValue(s.Headers[name]) {
			problems = append(problems, fmt.Errorf("the value of header %q holds a control character", name))
		}
	}
	if s.Weight < 0 || s.Weight != s.Weight {
		problems = append(problems, fmt.Errorf("weight %v is not a positive number", s.Weight))
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("model server %s: %w", displayURL(s.BaseURL), errors.Join(problems...))
}

func (s Server) fromSource() string {
	if s.KeySource == "" {
		return ""
	}
	return " from " + s.KeySource
}

// endpoint returns the URL of one path of the API.
func (s Server) endpoint(path string) (*url.URL, error) {
	if strings.TrimSpace(s.BaseURL) == "" {
		return nil, errors.New("base_url is empty: give the address of an OpenAI-compatible server, for example http://localhost:8000/v1")
	}
	u, err := url.Parse(s.BaseURL)
	if err != nil {
		return nil, errors.New("base_url is not a URL: want something like http://localhost:8000/v1")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("base_url must begin with http:// or https://")
	case u.Host == "" || u.Hostname() == "":
		return nil, errors.New("base_url names no host")
	case u.User != nil:
		return nil, errors.New("base_url holds a user name or password: configure them as a key or a header")
	case u.Fragment != "":
		return nil, errors.New("base_url holds a fragment (#…), which is never sent")
	}
	trimmed := strings.TrimRight(u.Path, "/")
	if strings.HasSuffix(trimmed, "/chat/completions") {
		return nil, errors.New("base_url ends in /chat/completions, which is appended by itself: leave it off")
	}
	full := *u
	full.Path = trimmed + path
	full.RawPath = ""
	if raw := strings.TrimRight(u.EscapedPath(), "/"); raw != trimmed {
		full.RawPath = raw + path
	}
	return &full, nil
}

// displayURL returns a URL that is safe to show: no user, query or fragment.
func displayURL(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" {
		if raw == "" {
			return "(no base_url)"
		}
		return "(base_url that is not a URL)"
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/")
}

// redactor replaces every secret of the server in a text.
func (s Server) redactor() func(string) string {
	var pairs []string
	add := func(secret string) {
		// Very short values would tear ordinary words apart and are no secrets.
		if len(secret) < 4 {
			return
		}
		pairs = append(pairs, secret, "[redacted]")
		if escaped := url.QueryEscape(secret); escaped != secret {
			pairs = append(pairs, escaped, "[redacted]")
		}
		if quoted := chat.AppendString(nil, secret); string(quoted[1:len(quoted)-1]) != secret {
			pairs = append(pairs, string(quoted[1:len(quoted)-1]), "[redacted]")
		}
	}
	add(s.APIKey)
	for _, value := range s.Headers {
		add(value)
		if _, token, ok := strings.Cut(value, " "); ok {
			add(token) // "Bearer x": a server may echo x alone
		}
	}
	if u, err := url.Parse(s.BaseURL); err == nil {
		for _, values := range u.Query() {
			for _, v := range values {
				add(v)
			}
		}
	}
	if len(pairs) == 0 {
		return func(text string) string { return text }
	}
	replacer := strings.NewReplacer(pairs...)
	return func(text string) string {
		text = replacer.Replace(text)
		// A text may have been cut in the middle of a secret.
		for i := 0; i < len(pairs); i += 2 {
			for n := len(pairs[i]) - 1; n >= 4; n-- {
				if strings.HasSuffix(text, pairs[i][:n]) {
					text = text[:len(text)-n] + "[redacted]"
					break
				}
			}
		}
		return text
	}
}

func validHeaderValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c == 0x7f || c < 0x20 && c != '\t' {
			return false
		}
	}
	return true
}

func validHeaderName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return name != ""
}

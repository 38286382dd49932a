package config

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// Server is one model endpoint: the openai: section, or one entry of its list.
type Server struct {
	BaseURL              string  `yaml:"base_url" default:"https://api.openai.com/v1" affects:"no" help:"address that /chat/completions is added to; most servers want it to end in /v1"`
	ModelName            string  `yaml:"model_name" help:"name the server knows the model by; required"`
	ServerType           string  `yaml:"server_type" default:"openai" help:"protocol of the server"`
	TokenizerName        string  `yaml:"tokenizer_name" nullable:"true" help:"tokenizer and chat template of the model, where the server takes token ids and doesn't render conversations itself: a model's folder, or its repository on the Hugging Face hub; none takes env.tokenizer_name, and else model_name"`
	APIKey               Secret  `yaml:"api_key" affects:"no" help:"key as text or as $NAME of a variable; an empty text sends none; null picks a variable by the host"`
	APIKeyEnv            string  `yaml:"api_key_env" nullable:"true" affects:"no" help:"name of the environment variable that holds the key"`
	Timeout              Seconds `yaml:"timeout" default:"1200" min:"0.001" affects:"no" help:"limit of one request"`
	StallTimeout         Seconds `yaml:"stall_timeout" default:"120" min:"0" affects:"no" help:"longest silence inside an answer that has begun to arrive; 0 is no limit"`
	MaxRetryTime         Seconds `yaml:"max_retry_time" default:"600" min:"0" affects:"no" help:"how long a failing request is tried again before the rollout gives up; where the server refuses requests for their rate, how long it may answer none at all"`
	NumMaxRequestsAtOnce int     `yaml:"num_max_requests_at_once" default:"512" min:"1" unit:"requests" affects:"no" help:"requests in flight to this server"`
	NumRequestsForEval   int     `yaml:"num_requests_for_eval" default:"0" min:"0" unit:"requests" affects:"no" help:"requests of evaluations in flight to this server, where fewer than num_max_requests_at_once; 0 is as many. The original had 64 and did not keep to it"`
	RollingBufferLength  int     `yaml:"rolling_buffer_length" default:"1000" min:"1" unit:"requests" affects:"no" help:"requests that the figures on this server's answers rest on, the latest ones"`
	RequestsPerMinute    float64 `yaml:"requests_per_minute" default:"0" min:"0" unit:"requests" affects:"no" help:"requests sent to this server in a minute, at an even rate; 0 is no limit. What the server itself refuses is up to on_rate_limit"`
	OnRateLimit          string  `yaml:"on_rate_limit" default:"adapt" choices:"adapt,pause,alone" affects:"no" help:"what a request that the server refuses for its rate (429) means for the others: pause holds all of them back and slows down, alone lets that request wait alone, adapt tells from the share of refused requests, and from whether slowing down helps, which of the two is right"`
	TokensPerMinute      float64 `yaml:"tokens_per_minute" default:"0" min:"0" unit:"tokens" affects:"no" help:"tokens of prompts and answers sent to this server and taken from it in a minute, estimated before and corrected after each request; 0 is no limit"`
	Weight               float64 `yaml:"weight" default:"1" min:"0.001" affects:"no" help:"share of the requests compared with the other servers"`
	HealthCheck          bool    `yaml:"health_check" default:"true" affects:"no" help:"ask the server for its models before the run starts"`

	PriceInput       *float64 `yaml:"price_input" min:"0" max:"1000000" unit:"USD" affects:"no" help:"price of a million prompt tokens, 0 for a server that costs nothing; null is unknown"`
	PriceCachedInput *float64 `yaml:"price_cached_input" min:"0" max:"1000000" unit:"USD" affects:"no" help:"price of a million prompt tokens that the server had cached; null is price_input"`
	PriceOutput      *float64 `yaml:"price_output" min:"0" max:"1000000" unit:"USD" affects:"no" help:"price of a million completion tokens, 0 for a server that costs nothing; null is unknown"`

	// KeySource says where the key in APIKey came from, for messages and for the
	// record: "environment variable NAME", ".env:3", "config file", "flag", or ""
	// when no key is sent.
	KeySource string `yaml:"-"`
}

// NewServer returns a server with the built-in defaults, for an environment that
// brings servers of its own.
func NewServer() Server {
	var s Server
	// The tags of Server are checked by a test, so there is nothing to report here.
	specs, err := structSpecs(serverType, "")
	if err == nil {
		_ = applyDefaults(bindStruct(valueOf(&s), specs))
	}
	return s
}

// Embedded reports whether the server is one the program starts itself, and splits
// its base_url into the scheme and what follows it: "replay:demo.yaml" is
// ("replay", "demo.yaml", true).
func (s Server) Embedded() (scheme, argument string, ok bool) {
	if strings.Contains(s.BaseURL, "://") {
		return "", "", false
	}
	scheme, argument, _ = strings.Cut(s.BaseURL, ":")
	return scheme, argument, scheme != ""
}

// host returns the lower-case host name of base_url, or "" for an embedded server.
func (s Server) host() string {
	u, err := url.Parse(s.BaseURL)
	if err != nil || !strings.Contains(s.BaseURL, "://") {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// CheckAddress says what is wrong with the server's address, or returns "". embedded are
// words it may be as well, for servers that the program starts itself.
func (s Server) CheckAddress(embedded ...string) string { return checkBaseURL(s.BaseURL, embedded) }

// checkBaseURL says what is wrong with a base_url, or returns "".
func checkBaseURL(base string, schemes []string) string {
	if base == "" {
		return "empty; write an address such as http://127.0.0.1:8000/v1"
	}
	if !strings.Contains(base, "://") {
		scheme, _, _ := strings.Cut(base, ":")
		for _, s := range schemes {
			if scheme == s {
				return ""
			}
		}
		hint := ""
		if len(schemes) > 0 {
			hint = " (or the built-in " + strings.Join(schemes, ", ") + ")"
		}
		return fmt.Sprintf("want an address with http:// or https://%s, got %s", hint, textutil.Quote(base, maxQuoted))
	}
	u, err := url.Parse(base)
	if err != nil {
		// url.Error repeats the whole address, which may hold a password.
		return "not a valid address"
	}
	switch {
	case u.User != nil:
		return "an address can't hold a user name or password; use api_key or api_key_env"
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("want an address with http:// or https://, got %s", textutil.Quote(base, maxQuoted))
	case u.Hostname() == "":
		return fmt.Sprintf("no host name in %s", textutil.Quote(base, maxQuoted))
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "an address can't hold a ? or # part, because paths are added to its end"
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions"):
		return "leave out /chat/completions; it is added to the address"
	}
	return ""
}

func isEmbedded(s *Server) bool {
	_, _, ok := s.Embedded()
	return ok
}

package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DefaultEndpoint is the public hub.
const DefaultEndpoint = "https://huggingface.co"

// DefaultRevision is the branch that is read when none is named.
const DefaultRevision = "main"

// ParquetRevision is where the hub keeps its own conversion of a dataset to Parquet,
// as CONFIG/SPLIT/0000.parquet and so on ("partial-SPLIT" where only the first 5 GB
// were converted). Datasets that it can't convert have no such revision.
const ParquetRevision = "refs/convert/parquet"

// Token is an access token of the hub. It shows as "[token]" wherever it is printed.
type Token string

// String hides the token.
func (t Token) String() string {
	if t == "" {
		return ""
	}
	return "[token]"
}

// GoString hides the token.
func (t Token) GoString() string { return fmt.Sprintf("%q", t.String()) }

// MarshalText hides the token.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue hides the token.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Options says which hub is read, as whom, and where its files are kept.
type Options struct {
	// Endpoint is the address of the hub or of a mirror. Default: DefaultEndpoint.
	Endpoint string
	// Token is sent to Endpoint and to no other host. Default: none.
	Token Token
	// CacheDir is the cache folder. Default: .cache/huggingface/hub in the home directory.
	CacheDir string
	// Offline makes everything come from the cache; nothing is sent.
	Offline bool
	// Client sends the requests; its redirect policy is not used. Default: a client of
	// its own that follows the usual proxy variables.
	Client *http.Client
	// Concurrency bounds the files that are downloaded at once. Default: 4.
	Concurrency int
	// Retries is how often a request is repeated after a passing failure without any
	// progress in between. Default: 5. Negative: never.
	Retries int
	// IdleTimeout ends a request during which nothing arrives for so long; it is then
	// repeated. Default: 60 seconds.
	IdleTimeout time.Duration
	// Progress is told how far downloads are, by one goroutine at a time and at most
	// some times a second for each file. Default: nobody.
	Progress func(Progress)
	// Warn is told, by one goroutine at a time, what went on despite some trouble, in
	// one sentence. Default: nobody.
	Warn func(message string)
	// Wait lets d pass before a repeated request; tests shorten it. Default: it sleeps,
	// and ends with the context's error when that comes first.
	Wait func(ctx context.Context, d time.Duration) error
}

// Progress is how far the download of one file is.
type Progress struct {
	Repo Repo
	Path string
	// Done and Total count the file's bytes, Done those from an earlier attempt too.
	Done, Total int64
	// Finished is true in the last report on a file, Cached when nothing had to be fetched.
	Finished, Cached bool
}

// FromEnvironment returns the options that the hub's own clients would take from the
// environment: HF_ENDPOINT; HF_TOKEN, HUGGING_FACE_HUB_TOKEN or the file HF_TOKEN_PATH
// ($HF_HOME/token), unless HF_HUB_DISABLE_IMPLICIT_TOKEN is set; HF_HUB_CACHE,
// HUGGINGFACE_HUB_CACHE, $HF_HOME/hub or $XDG_CACHE_HOME/huggingface/hub; and
// HF_HUB_OFFLINE, HF_DATASETS_OFFLINE or TRANSFORMERS_OFFLINE. It reads the token file and no
// variable but through getenv (os.Getenv, or a test's).
func FromEnvironment(getenv func(string) string) (Options, error) {
	e := environment{getenv}
	home := e.path("HF_HOME", func() string {
		return filepath.Join(e.path("XDG_CACHE_HOME", func() string {
			return filepath.Join(e.home(), ".cache")
		}), "huggingface")
	})
	o := Options{
		Endpoint: getenv("HF_ENDPOINT"),
		Offline:  e.truth("HF_HUB_OFFLINE") || e.truth("HF_DATASETS_OFFLINE") || e.truth("TRANSFORMERS_OFFLINE"),
		CacheDir: e.path("HF_HUB_CACHE", func() string {
			return e.path("HUGGINGFACE_HUB_CACHE", func() string { return filepath.Join(home, "hub") })
		}),
	}
	if e.truth("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
		return o, nil
	}
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if o.Token = cleanToken(getenv(name)); o.Token != "" {
			return o, nil
		}
	}
	file := e.path("HF_TOKEN_PATH", func() string { return filepath.Join(home, "token") })
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return o, fmt.Errorf("read the Hugging Face token (set HF_TOKEN, or HF_HUB_DISABLE_IMPLICIT_TOKEN=1 to go without): %w", err)
	}
	o.Token = cleanToken(string(data))
	return o, nil
}

func cleanToken(s string) Token {
	return Token(strings.TrimSpace(strings.NewReplacer("\r", "", "\n", "").Replace(s)))
}

// environment reads variables the way the hub's clients do.
type environment struct{ getenv func(string) string }

func (e environment) home() string {
	if h := e.getenv("HOME"); h != "" {
		return h
	}
	if h, err := os.UserHomeDir(); err == nil {
		return h
	}
	return "."
}

// path returns the path in a variable, with a leading ~ and variables in it replaced.
func (e environment) path(name string, otherwise func() string) string {
	v := e.getenv(name)
	if v == "" {
		return otherwise()
	}
	if v == "~" || strings.HasPrefix(v, "~/") {
		v = e.home() + v[1:]
	}
	return os.Expand(v, func(inner string) string {
		if value := e.getenv(inner); value != "" {
			return value
		}
		return "${" + inner + "}"
	})
}

func (e environment) truth(name string) bool {
	switch strings.ToUpper(e.getenv(name)) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

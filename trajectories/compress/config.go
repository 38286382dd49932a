package compress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Config says how trajectories are compressed. Its fields are those of the original's
// trajectory_compression.yaml; Defaults gives the original's values.
type Config struct {
	Tokenizer struct {
		Name            string `yaml:"name"`              // a folder with tokenizer.json, or a model of the hub
		TrustRemoteCode bool   `yaml:"trust_remote_code"` // accepted; no code of a model is ever run
	} `yaml:"tokenizer"`
	Compression struct {
		TargetMaxTokens     int `yaml:"target_max_tokens"`     // tokens a trajectory may have
		SummaryTargetTokens int `yaml:"summary_target_tokens"` // tokens a summary should have
	} `yaml:"compression"`
	ProtectedTurns struct {
		FirstSystem bool `yaml:"first_system"`
		FirstHuman  bool `yaml:"first_human"`
		FirstGPT    bool `yaml:"first_gpt"`
		FirstTool   bool `yaml:"first_tool"`
		LastNTurns  int  `yaml:"last_n_turns"`
	} `yaml:"protected_turns"`
	Summarization struct {
		Model       string  `yaml:"model"`
		BaseURL     string  `yaml:"base_url"`
		APIKeyEnv   string  `yaml:"api_key_env"` // name of the variable with the key
		Temperature float64 `yaml:"temperature"`
		MaxRetries  int     `yaml:"max_retries"` // tries of a summary in all
		RetryDelay  float64 `yaml:"retry_delay"` // seconds before the second try; later ones wait longer
	} `yaml:"summarization"`
	Output struct {
		AddSummaryNotice  bool   `yaml:"add_summary_notice"`
		SummaryNoticeText string `yaml:"summary_notice_text"` // added to the system turn
		OutputSuffix      string `yaml:"output_suffix"`
	} `yaml:"output"`
	Processing struct {
		NumWorkers            int     `yaml:"num_workers"` // rows counted at once
		MaxConcurrentRequests int     `yaml:"max_concurrent_requests"`
		SkipUnderTarget       bool    `yaml:"skip_under_target"`      // leave short trajectories as they are
		SaveOverLimit         bool    `yaml:"save_over_limit"`        // write those that stay too long
		PerTrajectoryTimeout  float64 `yaml:"per_trajectory_timeout"` // seconds
	} `yaml:"processing"`
	Metrics struct {
		Enabled       bool   `yaml:"enabled"`
		PerTrajectory bool   `yaml:"per_trajectory"`
		OutputFile    string `yaml:"output_file"` // of directories
	} `yaml:"metrics"`
}

// Defaults returns the original's values.
func Defaults() Config {
	var c Config
	c.Tokenizer.Name, c.Tokenizer.TrustRemoteCode = "moonshotai/Kimi-K2-Thinking", true
	c.Compression.TargetMaxTokens, c.Compression.SummaryTargetTokens = 15250, 750
	p := &c.ProtectedTurns
	p.FirstSystem, p.FirstHuman, p.FirstGPT, p.FirstTool, p.LastNTurns = true, true, true, true, 4
	s := &c.Summarization
	s.Model, s.BaseURL, s.APIKeyEnv = "google/gemini-3-flash-preview", defaultBaseURL, "OPENROUTER_API_KEY"
	s.Temperature, s.MaxRetries, s.RetryDelay = 0.3, 3, 2
	o := &c.Output
	o.AddSummaryNotice, o.OutputSuffix = true, "_compressed"
	o.SummaryNoticeText = "\n\nSome of your previous tool responses may be summarized to preserve context."
	w := &c.Processing
	w.NumWorkers, w.MaxConcurrentRequests, w.SkipUnderTarget, w.SaveOverLimit, w.PerTrajectoryTimeout = 4, 50, true, true, 300
	m := &c.Metrics
	m.Enabled, m.PerTrajectory, m.OutputFile = true, true, "compression_metrics.json"
	return c
}

const defaultBaseURL = "https://openrouter.ai/api/v1"

// ParseConfig reads a YAML file of settings; what it leaves out keeps its default, and so
// does a setting that is null. Unknown keys and wrong types are errors that name the line.
func ParseConfig(data []byte) (Config, error) {
	c := Defaults()
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, errors.New(readable(err))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return c, errors.New("there is more than one document in it")
	}
	return c, c.Check()
}

var unknownField = regexp.MustCompile(`field (\S+) not found in type .*`)

// readable takes the names of Go types out of the decoder's messages.
func readable(err error) string {
	var typed *yaml.TypeError
	if !errors.As(err, &typed) {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	lines := make([]string, len(typed.Errors))
	for i, text := range typed.Errors {
		text = unknownField.ReplaceAllString(text, "unknown key $1")
		text = strings.NewReplacer("cannot unmarshal ", "got ", "!!", "", " into struct {", ", want a section {", " into ", ", want ").Replace(text)
		lines[i], _, _ = strings.Cut(text, "{")
	}
	return strings.Join(lines, "; ")
}

// Check reports everything that is wrong with the settings at once.
func (c *Config) Check() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.Compression.TargetMaxTokens < 1 {
		wrong("compression.target_max_tokens is %d: want at least 1", c.Compression.TargetMaxTokens)
	}
	if c.Compression.SummaryTargetTokens < 1 {
		wrong("compression.summary_target_tokens is %d: want at least 1", c.Compression.SummaryTargetTokens)
	}
	if c.ProtectedTurns.LastNTurns < 0 {
		wrong("protected_turns.last_n_turns is %d: want 0 or more", c.ProtectedTurns.LastNTurns)
	}
	s := &c.Summarization
	if s.BaseURL == "" {
		s.BaseURL = defaultBaseURL
	}
	if s.Model == "" {
		wrong("summarization.model is empty")
	}
	if !(s.Temperature >= 0) {
		wrong("summarization.temperature is %v: want 0 or more", s.Temperature)
	}
	if s.MaxRetries < 1 {
		wrong("summarization.max_retries is %d: want at least 1", s.MaxRetries)
	}
	if !(s.RetryDelay >= 0) {
		wrong("summarization.retry_delay is %v: want seconds from 0", s.RetryDelay)
	}
	if c.Output.OutputSuffix == "" || strings.ContainsAny(c.Output.OutputSuffix, "/\\\x00") {
		wrong("output.output_suffix is %q: want text for a file's name", c.Output.OutputSuffix)
	}
	p := &c.Processing
	if p.NumWorkers < 1 {
		wrong("processing.num_workers is %d: want at least 1", p.NumWorkers)
	}
	if p.MaxConcurrentRequests < 1 {
		wrong("processing.max_concurrent_requests is %d: want at least 1", p.MaxConcurrentRequests)
	}
	if !(p.PerTrajectoryTimeout > 0) {
		wrong("processing.per_trajectory_timeout is %v: want seconds above 0", p.PerTrajectoryTimeout)
	}
	if f := c.Metrics.OutputFile; f == "" || strings.ContainsAny(f, "/\\\x00") {
		wrong("metrics.output_file is %q: want a file's name without folders", f)
	}
	return errors.Join(problems...)
}

// timeout is the time one trajectory has.
func (c *Config) timeout() time.Duration {
	return time.Duration(c.Processing.PerTrajectoryTimeout * float64(time.Second))
}

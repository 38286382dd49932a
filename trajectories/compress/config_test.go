package compress

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

func chatAssistant(text string) chat.Message { return chat.Assistant(text, "") }

func TestTheShippedSettingsAreTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../../configs/trajectory_compression.yaml")
	require.NoError(t, err)
	c, err := ParseConfig(text)
	require.NoError(t, err)
	require.Equal(t, Defaults(), c)
}

func TestWhatAFileLeavesOutOrSetsToNullKeepsItsDefault(t *testing.T) {
	c, err := ParseConfig([]byte("summarization: {base_url: null, max_retries: 5}\nprocessing: {per_trajectory_timeout: 12.5}\n"))
	require.NoError(t, err)
	want := Defaults()
	want.Summarization.MaxRetries = 5
	want.Processing.PerTrajectoryTimeout = 12.5
	require.Equal(t, want, c)
	c, err = ParseConfig(nil)
	require.NoError(t, err)
	require.Equal(t, Defaults(), c)
}

func TestBadSettingsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"compression: {target_max_token: 5}":     "line 1: unknown key target_max_token",
		"compression: {target_max_tokens: many}": "line 1",
		"compresion: {}":                         "unknown key compresion",
		"compression: [1]":                       "line 1",
		"a: b: c":                                "not allowed",
		"compression: {target_max_tokens: 0}":    "compression.target_max_tokens is 0: want at least 1",
		"processing: {num_workers: 0, max_concurrent_requests: 0}": "processing.max_concurrent_requests is 0",
		"processing: {per_trajectory_timeout: -1}":                 "per_trajectory_timeout is -1: want seconds above 0",
		"processing: {per_trajectory_timeout: .nan}":               "per_trajectory_timeout is NaN",
		"summarization: {max_retries: 0}":                          "max_retries is 0",
		"summarization: {retry_delay: -1, temperature: -1}":        "temperature is -1",
		"output: {output_suffix: a/b}":                             "output.output_suffix",
		"metrics: {output_file: ../x}":                             "metrics.output_file",
		"protected_turns: {last_n_turns: -1}":                      "last_n_turns is -1",
		"compression: {}\n---\nx: 1":                               "more than one document",
	} {
		_, err := ParseConfig([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "struct", text)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("compression: {target_max_tokens: 5}"))
	f.Add([]byte("tokenizer: &a {name: *a}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := ParseConfig(text); err == nil {
			require.NoError(t, c.Check())
		}
	})
}

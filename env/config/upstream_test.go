package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files below testdata/upstream are written after the documentation of the original
// framework; between them they hold all of its fields.
func TestFilesOfTheOriginalFrameworkLoadInEveryMode(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "upstream", "*.yaml"))
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		for _, mode := range []Mode{Evaluate, Process, Serve} {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml")+" in "+string(mode), func(t *testing.T) {
				o := options()
				o.Mode, o.File, o.ServerTypes = mode, file, []string{"openai", "vllm"}
				o.Flags = flagsOf("environment=terminal-test")
				r, err := Load(o)
				require.NoError(t, err)
				require.Empty(t, r.Warnings)
			})
		}
	}
}

func TestTheFieldsOfTheOriginalFrameworkArriveAsWritten(t *testing.T) {
	load := func(name string) *Resolved {
		o := options()
		o.Mode, o.File, o.Flags = Process, filepath.Join("testdata", "upstream", name), flagsOf("environment=terminal-test")
		r, err := Load(o)
		require.NoError(t, err)
		return r
	}
	r := load("every-field.yaml")
	e := r.Env
	require.True(t, e.UseWandb)
	require.Equal(t, "toy", e.WandbName)
	require.Equal(t, []int{32, -1, 2}, []int{e.NumRolloutsToKeep, e.NumRolloutsPerGroupForLogging, e.MinItemsSentBeforeLogging})
	require.Equal(t, Seconds(600), e.WorkerTimeout)
	require.True(t, e.Reasoning.Active())
	require.Equal(t, "high", e.ReasoningEffort)
	require.Nil(t, e.MaxReasoningTokens)
	require.Empty(t, e.Reasoning.Prompt())
	require.Equal(t, []int{64, 1000}, []int{r.Servers[0].NumRequestsForEval, r.Servers[0].RollingBufferLength})

	e = load("sft-generation.yaml").Env
	require.Equal(t, 16000, *e.MaxReasoningTokens)
	require.Equal(t, "You reason at length before you answer.\n", e.Reasoning.Prompt())
	require.Equal(t, -1, e.MinItemsSentBeforeLogging)
}

func TestReasoningIsAskedForWhenAnyOfItsFieldsIsSet(t *testing.T) {
	for _, tt := range []struct {
		yaml, prompt string
		active       bool
	}{
		{"{}", "", false},
		{"{thinking_mode: false}", "", false},
		{"{thinking_mode: true}", "", true},
		{"{reasoning_effort: none}", "", true},
		{"{max_reasoning_tokens: 1024}", "", true},
		{"{max_reasoning_tokens: 32000, custom_thinking_prompt: Think.}", "Think.", true},
		{"{thinking_mode: true, custom_thinking_prompt: default}", defaultThinkingPrompt, true},
		{"{thinking_mode: true, custom_thinking_prompt: null}", "", true},
	} {
		t.Run(tt.yaml, func(t *testing.T) {
			r, err := loadText(t, options(), "environment: terminal-test\nenv: "+tt.yaml+"\n"+server)
			require.NoError(t, err)
			require.Equal(t, tt.active, r.Env.Reasoning.Active())
			require.Equal(t, tt.prompt, r.Env.Reasoning.Prompt())
		})
	}
}

func TestServersThatTakeTokenIDsGetReasoningByTheirTemplateOnly(t *testing.T) {
	for _, tt := range []struct{ yaml, problem string }{
		{"{thinking_mode: true}", "env.thinking_mode: a server of type vllm gets the text of its chat template"},
		{"{reasoning_effort: low, custom_thinking_prompt: Think.}", "env.reasoning_effort: a server of type vllm"},
		{"{max_reasoning_tokens: 2000}", "env.max_reasoning_tokens: a server of type vllm"},
		{"{thinking_mode: true, custom_thinking_prompt: Think.}", ""},
	} {
		t.Run(tt.yaml, func(t *testing.T) {
			o := options()
			o.ServerTypes = []string{"openai", "vllm"}
			_, err := loadText(t, o, "environment: terminal-test\nenv: "+tt.yaml+"\nopenai: {base_url: 'http://h', model_name: m, server_type: vllm}\n")
			if tt.problem == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.problem)
			require.ErrorContains(t, err, "chat_template_kwargs")
		})
	}
}

func TestTheCorpusOfTheOriginalFrameworkNamesEveryField(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "upstream", "every-field.yaml"))
	require.NoError(t, err)
	for _, name := range strings.Fields(`group_size max_num_workers max_eval_workers max_num_workers_per_node steps_per_eval max_token_length
		eval_handling eval_limit_ratio inference_weight batch_size max_batches_offpolicy tokenizer_name use_wandb rollout_server_url total_steps
		wandb_name num_rollouts_to_keep num_rollouts_per_group_for_logging ensure_scores_are_not_same data_path_to_save_groups data_dir_to_save_evals
		min_items_sent_before_logging include_messages min_batch_allocation worker_timeout thinking_mode reasoning_effort max_reasoning_tokens
		custom_thinking_prompt timeout num_max_requests_at_once num_requests_for_eval model_name rolling_buffer_length server_type api_key base_url
		n_kwarg_is_ignored health_check slurm testing max_n_completions proxy_url`) {
		require.Contains(t, string(data), name+":")
	}
}

package config

// UnsupportedField is a field of the original framework that does nothing here. A
// value that asks for nothing is accepted, so that old files keep working.
type UnsupportedField struct {
	Section string // "env", "openai", or "" at the top level
	Name    string
	Why     string // what is missing, or what to use instead

	inert []string // values, in lower case, that ask for nothing
}

// Unsupported lists the fields of the original framework that do nothing here. An
// environment's own struct may declare one of them; it is then an ordinary field.
func Unsupported() []UnsupportedField {
	off := []string{"false", "no", "off"}
	return []UnsupportedField{
		{"", "slurm", "the harness doesn't read a Slurm allocation; list the servers under openai", off},
		{"", "testing", "the test double of the server is now an embedded server", off},
		{"", "max_n_completions", "one completion is asked for per request", nil},
		{"", "proxy_url", "no proxy between the harness and the servers", nil},
		{"", "teacher", "no teacher distillation", nil},

		{"env", "use_wandb", "no Weights & Biases sink", off},
		{"env", "wandb_name", "no Weights & Biases sink; --run-dir names the run", nil},
		{"env", "worker_timeout", "rollout_timeout limits one rollout", []string{"0", "-1"}},
		{"env", "num_rollouts_to_keep", "no table of recent rollouts; the run directory keeps them all", nil},
		{"env", "num_rollouts_per_group_for_logging", "no table of recent rollouts; the run directory keeps them all", nil},
		{"env", "min_items_sent_before_logging", "no trainer connection", nil},
		{"env", "dataset_name", "this environment reads no dataset by name; the environment prompts does", nil},
		{"env", "dataset_split", "this environment reads no dataset by name; the environment prompts does", nil},
		{"env", "prompt_field", "this environment reads no dataset by name; the environment prompts does", nil},
		{"env", "thinking_mode", "say it in extra_body the way the server wants it", off},
		{"env", "reasoning_effort", "say it in extra_body the way the server wants it", nil},
		{"env", "max_reasoning_tokens", "say it in extra_body the way the server wants it", nil},
		{"env", "custom_thinking_prompt", "write it into system_prompt", nil},

		{"openai", "n_kwarg_is_ignored", "one completion is asked for per request", off},
		{"openai", "rolling_buffer_length", "it had no effect in the original either", nil},
		{"openai", "num_requests_for_eval", "num_max_requests_at_once limits every request", nil},
	}
}

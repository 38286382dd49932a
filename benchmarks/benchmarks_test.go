package benchmarks

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/config"
)

// Files of hermes-agent name no environment; the keys are those of its examples.
func TestAll_FilesOfHermesAgentLoadUnedited(t *testing.T) {
	var list []config.Environment
	for _, d := range All() {
		list = append(list, config.Environment{Name: d.Name, Aliases: d.Aliases, Own: d.NewOwn, Defaults: func(c *config.Config) { d.SetDefaults(&c.Env, c.Own) }})
	}
	const common = "  enabled_toolsets: [terminal, file]\n  max_agent_turns: 60\n  terminal_timeout: 300\n  tool_pool_size: 128\n  use_wandb: true\n  ensure_scores_are_not_same: false\n"
	for _, tt := range []struct{ file, env, want string }{
		{"terminalbench_2/default.yaml", "  terminal_backend: docker\n  dataset_name: NousResearch/terminal-bench-2\n  test_timeout: 600\n  task_timeout: 1800\n  max_concurrent_tasks: 8\n  wandb_name: terminal-bench-2\n", "terminal-bench-2"},
		{"tblite/local.yaml", "  terminal_backend: docker\n  dataset_name: NousResearch/openthoughts-tblite\n  task_timeout: 1200\n  eval_concurrency: 4\n  wandb_name: my-tblite\n", "openthoughts-tblite"},
		{"terminal_test_env/default.yaml", "  terminal_backend: local\n  group_size: 3\n  total_steps: 3\n  steps_per_eval: 3\n  tool_call_parser: hermes\n", "terminal-test"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), tt.file)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			require.NoError(t, os.WriteFile(file, []byte("env:\n"+common+tt.env+"openai: {base_url: 'http://h/v1', model_name: m, server_type: openai, health_check: false}\n"), 0o600))
			for _, mode := range []config.Mode{config.Evaluate, config.Process, config.Serve} {
				r, err := config.Load(config.Options{Mode: mode, File: file, Environments: list, Backends: []string{"local", "docker"}, WorkDir: t.TempDir()})
				require.NoError(t, err)
				require.Equal(t, tt.want, r.Environment)
				if tt.want == "openthoughts-tblite" {
					require.Equal(t, 4, r.Env.MaxEvalWorkers)
				}
			}
		})
	}
}

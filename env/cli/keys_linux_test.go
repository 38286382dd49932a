package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// lookAround prints what /proc shows of the process that runs it, of all its ancestors and
// of the first process: their environments and arguments.
const lookAround = `p=$$; n=0
show() { echo "process $1"; tr '\0' '\n' <"/proc/$1/environ"; tr '\0' '\n' <"/proc/$1/cmdline"; }
while [ "$p" -gt 0 ]; do
	n=$((n+1)); show "$p"; next=0
	while read -r name value; do [ "$name" = PPid: ] && next=$value; done <"/proc/$p/status"
	[ "$p" = "$PPID" ] && harness=$p
	p=$next
done 2>&1
show 1 2>&1
echo "looked at $n processes, the harness is $harness"`

// keyedRun is a run of the program with a key that agents look for.
type keyedRun struct {
	command string
	place   string // of the key: environment, file or flag
	nobody  bool   // it is run by another user than root
}

const hiddenKey = "sk-never-seen-by-agents"

// run returns the record of the run's rollouts.
func (k keyedRun) run(t *testing.T, script string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "keys") // open for another user
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	config := "environment: terminal-test\nenv: {eval_items: held_out, group_size: 2, total_steps: 1, max_num_workers: 1, steps_per_eval: 0, ensure_scores_are_not_same: false, max_token_length: 100000}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(config), 0o644))
	arguments, err := json.Marshal(map[string]string{"command": script})
	require.NoError(t, err)
	args := []string{k.command, "--config", "c.yaml", "--run-dir", "run"}
	if k.command == "serve" {
		folder := filepath.Join(dir, "model")
		require.NoError(t, os.Mkdir(folder, 0o755))
		require.NoError(t, modeltest.WriteFolder(folder, modeltest.ChatML))
		server := modeltest.NewTokenServer(t, modeltest.TokenConfig{API: modeltest.SGLang, Dir: folder, Key: hiddenKey, Script: func(r *modeltest.TokenRequest) modeltest.TokenReply {
			if strings.Contains(r.Text(), "<tool_response>") {
				return modeltest.Sample("done")
			}
			return modeltest.Sample(fmt.Sprintf("<tool_call>\n{\"name\": \"terminal\", \"arguments\": %s}\n</tool_call>", arguments))
		}})
		url := freeAddress(t)
		go train(t, url, 1, func(r *atropos.Registration) { r.BatchSize, r.NumSteps, r.MaxTokenLen = 2, 1, 100_000 })
		args = append(args, "--embedded-api", "--env.rollout_server_url", url, "--openai.base_url", server.URL, "--openai.model_name", "mock",
			"--openai.server_type", "sglang", "--openai.tokenizer_name", folder)
	} else {
		server := modeltest.NewServerWith(t, modeltest.Config{Key: hiddenKey, Script: modeltest.Turns(
			modeltest.Calls(chat.ToolCall{ID: "a", Name: "terminal", Arguments: string(arguments)}), modeltest.Text("done"))})
		args = append(args, "--openai.base_url", server.URL, "--openai.model_name", "mock")
	}
	env := []string{asProgram + "=1", "TMPDIR=" + dir, "HOME=" + dir, "DOCKER_HOST=" + nowhere}
	switch k.place {
	case "environment":
		env = append(env, "OPENAI_API_KEY="+hiddenKey)
	case "file":
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".env"), []byte("OPENAI_API_KEY="+hiddenKey+"\n"), 0o644))
	case "flag":
		args = append(args, "--openai.api_key", hiddenKey)
	}
	binary, err := os.Executable()
	require.NoError(t, err)
	program := filepath.Join(dir, "program")
	if os.Link(binary, program) != nil {
		content, err := os.ReadFile(binary)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(program, content, 0o755))
	}
	r := prepare(t, dir, env, program, args...)
	if k.nobody {
		const nobody = 65534
		require.NoError(t, os.Chown(dir, nobody, nobody))
		r.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	r.start()
	require.Equal(t, cli.ExitOK, r.wait(), r.err.String())
	return strings.Join(lines(t, filepath.Join(dir, "run", "rollouts.jsonl")), "\n")
}

func TestAgentsSeeNoKeyInProc(t *testing.T) {
	for name, k := range map[string]keyedRun{
		"evaluate, key from the environment": {command: "evaluate", place: "environment"},
		"evaluate, key from .env":            {command: "evaluate", place: "file"},
		"evaluate, key from a flag":          {command: "evaluate", place: "flag"},
		"process, key from the environment":  {command: "process", place: "environment"},
		"process, key from .env":             {command: "process", place: "file"},
		"serve, key from the environment":    {command: "serve", place: "environment"},
		"serve, key from .env":               {command: "serve", place: "file"},
	} {
		t.Run(name, func(t *testing.T) {
			if k.command != "evaluate" {
				slowtest.Require(t)
			}
			t.Parallel()
			seen := k.run(t, lookAround)
			require.Regexp(t, `looked at ([2-9]|\d\d+) processes, the harness is \d`, seen)
			require.NotContains(t, seen, hiddenKey)
		})
	}
}

// Without root's rights, /proc shows nothing of the harness that a key could be read from.
func TestAgentsWithoutRootCanNotReadTheHarness(t *testing.T) {
	const script = `cat "/proc/$PPID/environ" || echo "no environment"
head -c 1 "/proc/$PPID/mem" || echo "no memory"
ls "/proc/$PPID/fd" || echo "no files"
ls "/proc/$PPID/cwd/" || echo "no directory"
` + lookAround
	seen := keyedRun{command: "evaluate", place: "environment", nobody: os.Geteuid() == 0}.run(t, script)
	for _, denied := range []string{"no environment", "no memory", "no files", "no directory"} {
		require.Contains(t, seen, denied)
	}
	require.NotContains(t, seen, hiddenKey)
	require.NotContains(t, seen, `"outcome":"sandbox_error"`, "local sandboxes work without root")
}

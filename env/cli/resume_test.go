package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/cli"
)

// paidModel answers prompts and counts what was paid for. Prompts that end in an even
// number get another answer every second time. With nothing left it keeps its clients
// waiting.
type paidModel struct {
	mu       sync.Mutex
	left     int
	answered map[string]int
}

func (m *paidModel) script(r *modeltest.Request) modeltest.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == 0 {
		return modeltest.Text("never").After(time.Hour)
	}
	m.left--
	prompt := r.Prompt()
	m.answered[prompt]++
	if strings.ContainsAny(prompt[len(prompt)-1:], "02468") && m.answered[prompt]%2 == 0 {
		return modeltest.Text("no")
	}
	return modeltest.Text("yes")
}

func (m *paidModel) allow(n int) {
	m.mu.Lock()
	m.left = n
	m.mu.Unlock()
}

func (m *paidModel) total() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, count := range m.answered {
		n += count
	}
	return n
}

// killedAfter runs this test binary as hermes-env until it has recorded so many
// rollouts, and kills it.
func killedAfter(t *testing.T, dir, recorded string, rollouts int, args ...string) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+filepath.Join(dir, "tmp"))
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for patience := time.After(time.Minute); len(wholeLines(recorded)) < rollouts; {
		select {
		case <-ended:
			require.Fail(t, "it ended by itself", output.String())
		case <-patience:
			_ = cmd.Process.Kill()
			<-ended
			require.Fail(t, "it records nothing any more", output.String())
		case <-time.After(2 * time.Millisecond):
		}
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, <-ended)
}

func writeRows(t *testing.T, dir string, prompts []string) {
	t.Helper()
	var text strings.Builder
	for _, p := range prompts {
		fmt.Fprintf(&text, "{\"prompt\": %q, \"answer\": \"yes\"}\n", p)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rows.jsonl"), []byte(text.String()), 0o644))
}

// summaryOf finds the summary among the events of --json.
func summaryOf(t *testing.T, output string) string {
	t.Helper()
	for _, line := range strings.Split(output, "\n") {
		if gjson.Get(line, "event").Str == "summary" {
			return line
		}
	}
	require.Fail(t, "there is no summary", output)
	return ""
}

// The dataset is edited, reordered and appended to between sessions that end with a
// kill, and two thirds of the groups are left out.
func TestWhatWasPaidForIsNeverPaidForAgainWhateverBecameOfItAndOfTheDataset(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
	model := &paidModel{answered: map[string]int{}}
	server := modeltest.NewServer(t, model.script)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(`
environment: prompts
env: {enabled_toolsets: [], dataset_name: rows.jsonl, reward: {type: exact, reference_field: answer}, group_size: 2, max_num_workers: 1,
      ensure_scores_are_not_same: true, data_path_to_save_groups: groups.jsonl}
openai: {base_url: "`+server.URL+`", model_name: mock}
`), 0o644))
	args := []string{"process", "--config", "c.yaml", "--run-dir", "run"}
	recorded := filepath.Join(dir, "run", "rollouts.jsonl")
	var prompts []string
	for i := range 9 {
		prompts = append(prompts, fmt.Sprintf("say yes %d", i))
	}
	writeRows(t, dir, prompts)
	model.allow(7)
	killedAfter(t, dir, recorded, 7, args...)

	args = append(args, "--resume")
	slices.Reverse(prompts)
	prompts = append(prompts, "say yes 9", "say yes 10")
	writeRows(t, dir, prompts)
	model.allow(8)
	killedAfter(t, dir, recorded, 15, args...)

	// Everything answered is recorded by now; one of those that are done is edited.
	edited := slices.IndexFunc(prompts, func(p string) bool { return model.answered[p] == 2 })
	digit := prompts[edited][len(prompts[edited])-1:]
	wantKept, wantDropped := 6, 5 // of eleven prompts every second one varies
	if strings.Contains("02468", digit) {
		wantKept++
	} else {
		wantDropped++
	}
	prompts[edited] = "say yes again " + digit
	writeRows(t, dir, prompts)
	model.allow(1 << 30)
	ended, output := child(t, dir, 0, args...)
	require.True(t, ended)

	// Twelve items with two rollouts each, the edited one counted as two.
	require.Equal(t, 24, model.total())
	for prompt, n := range model.answered {
		require.Equal(t, 2, n, prompt)
	}
	require.Len(t, lines(t, recorded), 24)
	kept := lines(t, filepath.Join(dir, "groups.jsonl"))
	require.Len(t, kept, wantKept)
	require.Contains(t, output, fmt.Sprintf("%d kept, %d dropped (%d equal_scores)", wantKept, wantDropped, wantDropped))
	decisions := lines(t, filepath.Join(dir, "run", "group_decisions.jsonl"))
	require.Len(t, decisions, wantDropped, "each is decided once")
	metrics, err := os.ReadFile(filepath.Join(dir, "run", "metrics.json"))
	require.NoError(t, err)
	require.EqualValues(t, wantDropped, gjson.GetBytes(metrics, "results.all.train/groups_dropped/equal_scores").Int())

	_, output = child(t, dir, 0, "stats", "run")
	child(t, dir, 0, "report", "run")
	page, err := os.ReadFile(filepath.Join(dir, "run", "report.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "Groups left out")
	require.Regexp(t, fmt.Sprintf(`groups left out\n +equal_scores +%d `, wantDropped), output)

	// With nothing left to do nothing happens.
	_, output = child(t, dir, 0, append(args, "--json")...)
	require.Equal(t, 24, model.total())
	require.Equal(t, kept, lines(t, filepath.Join(dir, "groups.jsonl")))
	require.Equal(t, decisions, lines(t, filepath.Join(dir, "run", "group_decisions.jsonl")))
	require.JSONEq(t, fmt.Sprintf(`{"kept":%d,"dropped":{"equal_scores":%d},"rollouts_left_out":{}}`, wantKept, wantDropped), gjson.Get(summaryOf(t, output), "training_groups").Raw)
}

func TestAResumedRunNamesWhatChangedAndMattersAndGoesOnWhenTold(t *testing.T) {
	for _, command := range []string{"evaluate", "process"} {
		t.Run(command, func(t *testing.T) {
			p := newProgram(t)
			p.write("quick.yaml", quickstart)
			start := []string{command, "--config", "quick.yaml", "--run-dir", "out"}
			code, _, stderr := p.run(start...)
			require.Equal(t, cli.ExitOK, code, stderr)

			again := append(slices.Clone(start), "--resume")
			code, _, stderr = p.run(append(again, "--env.max_eval_workers=3", "--env.max_num_workers=5", "--env.retries=4")...)
			require.Equal(t, cli.ExitOK, code, stderr)
			require.NotContains(t, stderr, "mixed")

			changed := append(again, "--env.max_agent_turns=7", "--env.terminal_timeout=9", "--env.max_eval_workers=3")
			code, _, stderr = p.run(changed...)
			require.Equal(t, cli.ExitUsage, code)
			require.Contains(t, stderr, "env.max_agent_turns: ")
			require.Contains(t, stderr, " -> 7\n")
			require.Contains(t, stderr, "env.terminal_timeout: 120 -> 9")
			require.NotContains(t, stderr, "max_eval_workers: 16", "it can't affect results")
			require.Contains(t, stderr, "--allow-config-change")

			code, stdout, stderr := p.run(append(changed, "--allow-config-change")...)
			require.Equal(t, cli.ExitOK, code, stderr)
			require.Contains(t, stderr, "warning: the run is mixed:")
			require.Contains(t, stdout, "rollouts were recorded before the configuration changed (env.max_agent_turns: ")
			code, stdout, stderr = p.run(append(changed, "--json")...)
			require.Equal(t, cli.ExitOK, code, "the new settings are the run's now: "+stderr)
			require.Contains(t, gjson.Get(summaryOf(t, stdout), "config_changes.0").Str, "env.terminal_timeout: 120 -> 9")

			code, stdout, stderr = p.run("stats", "out", "--html", "stats.html")
			require.Equal(t, cli.ExitOK, code, stderr)
			require.Contains(t, stdout, "recorded before the configuration changed")
			page, err := os.ReadFile("stats.html")
			require.NoError(t, err)
			require.Contains(t, string(page), "mixed from several configurations")
			code, _, stderr = p.run("report", "out")
			require.Equal(t, cli.ExitOK, code, stderr)
			require.Contains(t, stderr, "warning: The run is mixed from several configurations")
			page, err = os.ReadFile("out/report.html")
			require.NoError(t, err)
			require.Contains(t, string(page), "mixed from several configurations")

			require.NoError(t, os.CopyFS("copy", os.DirFS("out")))
			code, stdout, stderr = p.run("compare", "out", "copy")
			require.Equal(t, cli.ExitOK, code, stderr)
			require.Contains(t, stdout+stderr, "run B is mixed from several configurations")

			// A run of an earlier version knows only its digest.
			raw, err := os.ReadFile("out/run.json")
			require.NoError(t, err)
			var manifest map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(raw, &manifest))
			delete(manifest, "affecting_config")
			manifest["config_digest"] = json.RawMessage(`"sha256:other"`)
			raw, err = json.Marshal(manifest)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile("out/run.json", raw, 0o644))
			code, _, stderr = p.run(changed...)
			require.Equal(t, cli.ExitUsage, code)
			require.Contains(t, stderr, "config digest: sha256:other -> sha256:")
		})
	}
}

func TestAllowingAChangeNeedsARunToGoOnWith(t *testing.T) {
	p := newProgram(t)
	p.write("quick.yaml", quickstart)
	code, _, stderr := p.run("process", "--config", "quick.yaml", "--run-dir", "out", "--allow-config-change")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "add --resume")
	code, _, stderr = p.run("evaluate", "--config", "quick.yaml", "--run-dir", "out")
	require.Equal(t, cli.ExitOK, code, stderr)
	code, _, stderr = p.run("process", "--config", "quick.yaml", "--run-dir", "out", "--resume", "--allow-config-change")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "command: evaluate -> process")
	require.NotContains(t, stderr, "add --allow-config-change", "that would not help")
	code, _, stderr = p.run("rescore", "out", "--allow-config-change")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "add --resume")
}

func TestABatchRunRefusesOtherSettingsAndGoesOnWhenTold(t *testing.T) {
	b := newBatchRun(t, thinker, tasks("one", "two")...)
	code, _, stderr := b.batch()
	require.Equal(t, cli.ExitOK, code, stderr)
	code, _, stderr = b.batch("--resume", "--max_turns", "3")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "env.max_agent_turns: 10 -> 3")
	require.Contains(t, stderr, "--allow_config_change")
	code, _, stderr = b.batch("--resume", "--max_turns", "3", "--allow_config_change")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "the run is mixed: 2 rollouts were recorded before")
}

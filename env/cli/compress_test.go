package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// longRow is a trajectory of n calls with some 100 tokens each.
func longRow(id, n int) string {
	turns := []string{`{"from": "system", "value": "Be helpful."}`, fmt.Sprintf(`{"from": "human", "value": "Task %d"}`, id)}
	for i := range n {
		turns = append(turns, fmt.Sprintf(`{"from": "gpt", "value": "<think>\nstep %d\n</think>\n<tool_call>\n{}\n</tool_call>"}`, i),
			fmt.Sprintf(`{"from": "tool", "value": "%s"}`, strings.Repeat("result ", 60)))
	}
	return fmt.Sprintf(`{"prompt_index": %d, "conversations": [%s]}`, id, strings.Join(append(turns, `{"from": "gpt", "value": "done"}`), ", "))
}

// compressing is a folder with settings that name a mock server.
func compressing(t *testing.T, script modeltest.Script) (*program, *modeltest.Server) {
	p := newProgram(t)
	server := modeltest.NewServer(t, script)
	p.write("c.yaml", settingsFor(server.URL))
	return p, server
}

func settingsFor(url string) string {
	return fmt.Sprintf("tokenizer: {name: chars/4}\ncompression: {target_max_tokens: 800, summary_target_tokens: 50}\nsummarization: {base_url: %q, model: mock, retry_delay: 0}\n", url)
}

func TestCompressWritesTheFilesOfTheOriginal(t *testing.T) {
	p, _ := compressing(t, modeltest.Always(modeltest.Text("Three things happened.")))
	p.write("t.jsonl", longRow(0, 20)+"\n"+longRow(1, 1)+"\n")
	code, stdout, stderr := p.run("compress", "--input", "t.jsonl", "--config", "c.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "2 trajectories, tokens counted with chars/4")
	rows := lines(t, "t_compressed.jsonl")
	require.Len(t, rows, 2)
	require.Equal(t, longRow(1, 1), rows[1])
	require.Equal(t, "[CONTEXT SUMMARY]: Three things happened.", gjson.Get(rows[0], "conversations.4.value").String())
	require.LessOrEqual(t, gjson.Get(rows[0], "compression_metrics.compressed_tokens").Int(), int64(800))
	metrics := read(t, "t_compressed_metrics.json")
	require.Equal(t, int64(1), gjson.Get(metrics, "summary.trajectories_compressed").Int())
	require.True(t, gjson.Get(metrics, "hermes_env.tokens_estimated").Bool())
	require.Contains(t, metrics, "{\n  \"summary\": {\n    \"total_trajectories\": 2,\n")
	left, err := filepath.Glob("t_compressed*")
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing else is left behind: %v", left)
	code, stdout, _ = p.run("compress", "--input=t.jsonl", "--config=c.yaml", "--output=x.jsonl", "--target-max-tokens=1200", "--json")
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, int64(1), gjson.Get(stdout, "summary.trajectories_compressed").Int())
	require.FileExists(t, "x_metrics.json")
}

func TestCompressTakesNoRowOfAFolderTwice(t *testing.T) {
	p, server := compressing(t, modeltest.Always(modeltest.Text("short")))
	require.NoError(t, os.MkdirAll("run", 0o755))
	for _, name := range []string{"batch_0.jsonl", "batch_1.jsonl", "trajectories.jsonl", "rollouts.jsonl", "other.jsonl"} {
		p.write(filepath.Join("run", name), longRow(0, 20)+"\n")
	}
	code, stdout, stderr := p.run("compress", "--input", "run/", "--config", "c.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "left aside in run/: batch_0.jsonl, batch_1.jsonl, rollouts.jsonl")
	require.Equal(t, 2, server.RequestCount(), stdout)
	for _, name := range []string{"trajectories.jsonl", "other.jsonl", "compression_metrics.json"} {
		require.FileExists(t, filepath.Join("run_compressed", name))
	}
	found, err := os.ReadDir("run_compressed")
	require.NoError(t, err)
	require.Len(t, found, 3)
	require.NoError(t, os.Remove("run/trajectories.jsonl"))
	code, _, stderr = p.run("compress", "--input", "run", "--config", "c.yaml", "--output", "again")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.FileExists(t, "again/batch_1.jsonl")
}

func TestCompressTakesASampleAndTriesDry(t *testing.T) {
	p, server := compressing(t, modeltest.Always(modeltest.Text("short")))
	var rows []string
	for i := range 40 {
		rows = append(rows, longRow(i, 20))
	}
	p.write("t.jsonl", strings.Join(rows, "\n"))
	code, stdout, stderr := p.run("compress", "--input", "t.jsonl", "--config", "c.yaml", "--sample_percent", "25", "--dry_run", "--seed", "7")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "10 trajectories")
	require.Contains(t, stdout, "to compress                  10  (100.0 %)")
	require.Contains(t, stdout, "nothing was written")
	require.Zero(t, server.RequestCount())
	require.NoFileExists(t, "t_compressed.jsonl")
	code, _, stderr = p.run("compress", "--input", "t.jsonl", "--config", "c.yaml", "--sample-percent=25", "--dry-run", "False", "--seed=7")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Len(t, lines(t, "t_compressed.jsonl"), 10)
}

func TestCompressCountsWithATokenizerThatIsThere(t *testing.T) {
	content, err := os.ReadFile("../../agentloop/tokenizer/testdata/level_gpt2.json")
	require.NoError(t, err)
	p, _ := compressing(t, modeltest.Always(modeltest.Text("short")))
	require.NoError(t, os.MkdirAll("model", 0o755))
	cached := filepath.Join("hub", "models--org--m")
	commit := strings.Repeat("ab", 20)
	require.NoError(t, os.MkdirAll(filepath.Join(cached, "snapshots", commit), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(cached, "refs"), 0o755))
	p.write(filepath.Join(cached, "refs", "main"), commit)
	p.write(filepath.Join(cached, "snapshots", commit, "tokenizer.json"), string(content))
	p.write("model/tokenizer.json", string(content))
	p.write("t.jsonl", longRow(0, 3)+"\n")
	code, stdout, stderr := p.run("compress", "--input", "t.jsonl", "--config", "c.yaml", "--tokenizer", "model", "--dry_run")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "tokens counted with model")
	p.env["HF_HUB_CACHE"] = "hub"
	code, stdout, stderr = p.run("compress", "--input", "t.jsonl", "--config", "c.yaml", "--tokenizer", "org/m", "--dry_run")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "tokens counted with org/m")
	code, _, stderr = p.run("compress", "--input", "t.jsonl", "--config", "c.yaml", "--tokenizer", "org/other", "--dry_run")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "no tokenizer.json of org/other")
	p.write("d.yaml", "tokenizer: {name: org/other}")
	code, stdout, stderr = p.run("compress", "--input", "t.jsonl", "--config", "d.yaml", "--dry_run")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "tokens are estimated, four characters each")
	require.Contains(t, stdout, "counted with chars/4")
}

func TestCompressMistakesEndBeforeAnythingIsAsked(t *testing.T) {
	p, server := compressing(t, nil)
	p.write("t.jsonl", longRow(0, 20)+"\n")
	p.write("bad.yaml", "compression: {target: 5}")
	p.write("far.yaml", "tokenizer: {name: chars/4}")
	p.write("odd.yaml", "summarization: {base_url: 'ftp://x'}")
	require.NoError(t, os.Mkdir("empty", 0o755))
	for _, test := range []struct {
		flags []string
		says  string
	}{
		{nil, "--input is missing"},
		{[]string{"--input", "none.jsonl"}, "--input none.jsonl does not exist"},
		{[]string{"--input", "empty", "--config", "c.yaml"}, "there is no *.jsonl with trajectories in empty"},
		{[]string{"--input", "t.jsonl", "--config", "none.yaml"}, "read the settings"},
		{[]string{"--input", "t.jsonl", "--config", "bad.yaml"}, "settings in bad.yaml: line 1: unknown key target"},
		{[]string{"--input", "t.jsonl", "--config", "far.yaml"}, "no key for openrouter.ai: set OPENROUTER_API_KEY"},
		{[]string{"--input", "t.jsonl", "--config", "odd.yaml", "--tokenizer", "chars/4"}, "summarization.base_url is \"ftp://x\""},
		{[]string{"--input", "t.jsonl", "--config", "c.yaml", "--sample_percent", "0"}, "--sample_percent is 0"},
		{[]string{"--input", "t.jsonl", "--config", "c.yaml", "--sample_percent", "NaN"}, "--sample_percent is NaN"},
		{[]string{"--input", "t.jsonl", "--config", "c.yaml", "--target_max_tokens", "0"}, "target_max_tokens is 0"},
		{[]string{"--input", "t.jsonl", "--config", "c.yaml", "--output", "t.jsonl"}, "the output is the input itself"},
	} {
		code, _, stderr := p.run(append([]string{"compress"}, test.flags...)...)
		require.Equal(t, cli.ExitUsage, code, "%v: %s", test.flags, stderr)
		require.Contains(t, stderr, test.says)
	}
	require.Zero(t, server.RequestCount())
	require.NoFileExists(t, "t_compressed.jsonl")
}

func TestCompressExitCodesTellFailuresApart(t *testing.T) {
	p, _ := compressing(t, modeltest.Always(modeltest.Status(http.StatusBadRequest)))
	p.write("t.jsonl", longRow(0, 20)+"\n")
	code, stdout, stderr := p.run("compress", "--input", "t.jsonl", "--config", "c.yaml")
	require.Equal(t, cli.ExitBelow, code, stderr)
	require.Contains(t, stdout, "failed, kept as is")
	require.Equal(t, longRow(0, 20), lines(t, "t_compressed.jsonl")[0])
	p, _ = compressing(t, modeltest.Always(modeltest.Status(http.StatusUnauthorized)))
	p.write("t.jsonl", longRow(0, 20)+"\n")
	code, _, stderr = p.run("compress", "--input", "t.jsonl", "--config", "c.yaml")
	require.Equal(t, cli.ExitModel, code, stderr)
	require.NoFileExists(t, "t_compressed.jsonl")
}

// Killed at random instants and run again: every row is there once, in order, and no
// summary that had been written down is asked for again.
func TestCompressKilledAtRandomInstantsLosesNothing(t *testing.T) {
	slowtest.Require(t)
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
	var left allowance
	server := modeltest.NewServerWith(t, modeltest.Config{Script: func(r *modeltest.Request) modeltest.Reply {
		return modeltest.Text(fmt.Sprintf("summary %d", r.Number)).After(left.delay(5*time.Millisecond, 25*time.Millisecond))
	}})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(settingsFor(server.URL)+"processing: {max_concurrent_requests: 4}\n"), 0o644))
	var rows []string
	for i := range 150 {
		rows = append(rows, longRow(i, 12+i%5))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "t.jsonl"), []byte(strings.Join(rows, "\n")), 0o644))
	args := []string{"compress", "--input", "t.jsonl", "--config", "c.yaml"}
	journal, output := filepath.Join(dir, "t_compressed.jsonl.journal"), filepath.Join(dir, "t_compressed.jsonl")
	paid := map[string]bool{}
	killed := 0
	kills, instant := slowtest.Times(4, 50), instants(t, dir, 150*time.Millisecond)
	for ; killed < kills; killed++ {
		left.share(len(rows), kills)
		ended, _ := child(t, dir, instant(), args...)
		if ended {
			break
		}
		require.NoFileExists(t, output, "there is no half output")
		if text, err := os.ReadFile(journal); err == nil {
			all := strings.Split(string(text), "\n")
			for _, l := range all[:len(all)-1] {
				paid[gjson.Get(l, "summary").String()] = true
			}
		}
	}
	require.Equal(t, kills, killed, "the run was over too soon to tell anything")
	left.Store(1 << 40)
	ended, text := child(t, dir, 0, args...)
	require.True(t, ended, text)
	got := lines(t, output)
	require.Len(t, got, 150)
	used := map[string]bool{}
	for i, row := range got {
		require.Equal(t, int64(i), gjson.Get(row, "prompt_index").Int())
		summary := gjson.Get(row, "conversations.4.value").String()
		require.False(t, used[summary])
		used[summary] = true
	}
	for summary := range paid {
		require.True(t, used[summary], "%q was paid for and is not used", summary)
	}
	require.NoFileExists(t, journal)
}

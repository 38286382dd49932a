package cli_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// testdata is found before a test changes the working directory.
var testdata = func() string {
	path, err := filepath.Abs("testdata")
	if err != nil {
		panic(err)
	}
	return path
}()

// thinker thinks, calls a tool and answers; a prompt with "plain" gets no thoughts, one
// with "fail" a server error, one with "invent" a tool that does not exist.
func thinker(r *modeltest.Request) modeltest.Reply {
	prompt := r.Get(`messages.#(content%"Task*").content`).String()
	switch {
	case strings.Contains(prompt, "fail"):
		return modeltest.Status(http.StatusBadRequest)
	case strings.Contains(prompt, "plain"):
		return modeltest.Text("plain answer")
	case r.Get(`messages.@reverse.0.role`).String() == "tool":
		return modeltest.Text("<think>\nfertig\n</think>\nanswer to " + prompt)
	case strings.Contains(prompt, "invent"):
		return modeltest.Calls(chat.ToolCall{ID: "c", Name: "fly", Arguments: `{}`}).WithReasoning(modeltest.ReasoningContent, "try")
	}
	return modeltest.Calls(chat.ToolCall{ID: "c", Name: "terminal", Arguments: `{"command":"printf '{\"ok\": 1.0}'"}`}).WithReasoning(modeltest.ReasoningContent, "use the größte tool")
}

// batchRun is one batch run of a test.
type batchRun struct {
	*program
	server *modeltest.Server
}

func newBatchRun(t *testing.T, script modeltest.Script, prompts ...string) *batchRun {
	p := newProgram(t)
	p.write("prompts.jsonl", strings.Join(prompts, "\n")+"\n")
	return &batchRun{program: p, server: modeltest.NewServer(t, script)}
}

func (b *batchRun) batch(more ...string) (code int, stdout, stderr string) {
	return b.run(slices.Concat([]string{"batch", "--dataset_file=prompts.jsonl", "--batch_size=2", "--run_name", "r", "--distribution=terminal_only",
		"--base_url", b.server.URL, "--model", "mock", "--env.retries=0", "--openai.max_retry_time=0"}, more)...)
}

func tasks(names ...string) []string {
	rows := make([]string, len(names))
	for i, n := range names {
		rows[i] = fmt.Sprintf(`{"prompt": "Task %s"}`, n)
	}
	return rows
}

// texts returns the human turns of a file's rows, with their numbers.
func texts(t *testing.T, path string) (list []string) {
	for _, l := range lines(t, path) {
		if l == "" {
			continue
		}
		list = append(list, gjson.Get(l, "prompt_index").Raw+" "+gjson.Get(l, `conversations.#(from="human").value`).String())
	}
	return list
}

var moments = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+`)

func TestABatchRunLeavesTheFilesOfTheOriginal(t *testing.T) {
	b := newBatchRun(t, thinker, append(tasks("one", "plain", "invent", "one"), `{"prompt": 7}`, `broken`, `{"text": 1}`)...)
	code, stdout, stderr := b.batch("--num_workers=1", "--max_samples", "4")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "prompts    4: 2 trajectories, 1 discarded without reasoning, 1 left out for tools that don't exist")
	require.ElementsMatch(t, []string{"0 Task one", "1 Task plain"}, texts(t, "data/r/batch_0.jsonl"))
	require.ElementsMatch(t, []string{"2 Task invent", "3 Task one"}, texts(t, "data/r/batch_1.jsonl"))
	require.Equal(t, []string{"0 Task one", "3 Task one"}, texts(t, "data/r/trajectories.jsonl"))
	require.Len(t, lines(t, "data/r/run/rollouts.jsonl"), 4)

	// The rows byte by byte, but for the list of tools in the system turn.
	system := regexp.MustCompile(`<tools>.*?</tools>( XML tags)?\. Here are`)
	var got strings.Builder
	for _, name := range []string{"batch_0.jsonl", "batch_1.jsonl", "checkpoint.json", "statistics.json"} {
		text, err := os.ReadFile(filepath.Join("data/r", name))
		require.NoError(t, err)
		if strings.HasSuffix(name, ".jsonl") { // prompts that run side by side end in any order
			sorted := lines(t, filepath.Join("data/r", name))
			slices.Sort(sorted)
			text = []byte(strings.Join(sorted, "\n") + "\n")
		}
		rows := regexp.MustCompile(`\{"from": "system", "value": ".*?</tool_call>"\}`).ReplaceAllString(string(text), `{"from": "system"}`)
		rows = moments.ReplaceAllString(system.ReplaceAllString(rows, ""), "MOMENT")
		rows = regexp.MustCompile(`"duration_seconds": [\d.]+`).ReplaceAllString(rows, `"duration_seconds": 0.0`)
		fmt.Fprintf(&got, "== %s\n%s\n", name, rows)
	}
	golden := filepath.Join(testdata, "batch.golden")
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

func TestFlagsAreTakenInEverySpellingOfTheOriginal(t *testing.T) {
	b := newBatchRun(t, thinker, tasks("one")...)
	for i, flags := range [][]string{
		{"--run-name=a", "--max-turns=3"}, {"--run_name=b", "--resume=True"}, {"--run_name", "c", "--resume", "False", "--verbose", "True"}, {"--run_name=a", "--max_turns=3", "--resume"}, {"--run_name=a", "--max_turns", "3", "--resume", "True"},
	} {
		code, _, stderr := b.batch(flags...)
		require.Equal(t, cli.ExitOK, code, "%d: %s", i, stderr)
	}
	code, _, stderr := b.batch("--run_name=a", "--resume=False")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "data/a holds a run already: add --resume")
	code, _, stderr = b.batch("--run_name=a", "--resume=perhaps")
	require.Equal(t, cli.ExitUsage, code, stderr)
}

func TestMistakesEndWithANonZeroExitCodeAndLeaveNothing(t *testing.T) {
	b := newBatchRun(t, thinker, tasks("one")...)
	b.write("empty.jsonl", "\n")
	b.write("prefill.json", `{"role": "user"}`)
	b.write("images.jsonl", "{\"prompt\": \"x\"}\n{\"prompt\": \"x\", \"image\": \"debian\"}\n")
	for _, test := range []struct{ flags, says string }{
		{"--dataset_file=none.jsonl", "the dataset file none.jsonl does not exist"},
		{"--dataset_file=.", "is a directory"},
		{"--dataset_file=empty.jsonl", "no usable row"},
		{"--batch_size=0", "--batch_size is missing or below 1"},
		{"--run_name=../x", "--run_name is \"../x\""},
		{"--run_name=", "--run_name is missing"},
		{"--num_workers=-1", "--num_workers is -1"},
		{"--distribution=nope", "unknown distribution \"nope\""},
		{"--distribution=terminal_onl", "did you mean \"terminal_only\"?"},
		{"--reasoning_effort=lots", "--reasoning_effort is \"lots\""},
		{"--provider_sort=beauty", "--provider_sort is \"beauty\""},
		{"--prefill_messages_file=prefill.json", "want an array of messages"},
		{"--prefill_messages_file=none.json", "read the prefill messages"},
		{"--terminal-env=modal", "--terminal-env is \"modal\": this program has the backends local, docker"},
		{"--dataset_file=images.jsonl", "1 prompts name an image (the first on line 2 of images.jsonl)"},
		{"--no_such_flag=1", "no_such_flag"},
	} {
		code, _, stderr := b.batch(test.flags)
		require.Equal(t, cli.ExitUsage, code, test.flags)
		require.Contains(t, stderr, test.says)
		require.NoDirExists(t, "data", test.flags)
	}
	b.env["TERMINAL_ENV"] = "daytona"
	code, _, stderr := b.batch()
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, `TERMINAL_ENV is "daytona"`)
	b.env["TERMINAL_ENV"] = "local"
	code, _, stderr = b.batch("--dataset_file=images.jsonl", "--ignore_images", "--keep_without_reasoning", "--run_name=images")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "images are ignored")
}

func TestTheListOfDistributionsNeedsNothingElse(t *testing.T) {
	p := newProgram(t)
	code, stdout, _ := p.run("batch", "--list_distributions")
	require.Equal(t, cli.ExitOK, code)
	require.Equal(t, 17, strings.Count(stdout, "\n"))
	require.Contains(t, stdout, "terminal_only    terminal 100%, file 100%")
}

func TestWhatIsEphemeralIsSentAndNeverStored(t *testing.T) {
	b := newBatchRun(t, thinker, tasks("one")...)
	b.write("prefill.json", `[{"role":"user","content":"secret question"},{"role":"assistant","content":"secret answer"}]`)
	code, _, stderr := b.batch("--ephemeral_system_prompt", "secret order", "--prefill_messages_file", "prefill.json",
		"--providers_allowed=a, b", "--providers_ignored", "c", "--providers_order", "('d','e')", "--provider_sort=price", "--reasoning_effort=xhigh", "--max_tokens=77")
	require.Equal(t, cli.ExitOK, code, stderr)
	requests := posts(b.server)
	require.Len(t, requests, 2)
	for _, r := range requests {
		require.True(t, strings.HasPrefix(gjson.Get(r, "messages.#.role").Raw, `["system","user","assistant","user"`), r)
		require.Equal(t, "secret order", gjson.Get(r, "messages.0.content").String())
		require.Equal(t, "Task one", gjson.Get(r, "messages.3.content").String())
		require.Equal(t, `{"only":["a","b"],"ignore":["c"],"order":["d","e"],"sort":"price"}`, gjson.Get(r, "provider").Raw)
		require.Equal(t, `{"enabled":true,"effort":"xhigh"}`, gjson.Get(r, "reasoning").Raw)
		require.Equal(t, int64(77), gjson.Get(r, "max_tokens").Int())
		require.False(t, gjson.Get(r, "temperature").Exists(), "the server chooses, as with the original")
	}
	require.NoError(t, filepath.WalkDir("data", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		require.NotContains(t, string(text), "secret", path)
		return err
	}))
	code, _, stderr = b.batch("--resume", "--ephemeral_system_prompt", "another order")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "ephemeral_system_prompt_sha256")
}

func posts(server *modeltest.Server) (bodies []string) {
	for _, r := range server.Requests() {
		if r.Method == http.MethodPost {
			bodies = append(bodies, string(r.Body))
		}
	}
	return bodies
}

func TestReasoningCanBeDisabledAndNothingIsSentUnasked(t *testing.T) {
	b := newBatchRun(t, thinker, tasks("one")...)
	code, _, stderr := b.batch("--reasoning_effort=high", "--reasoning_disabled", "--env.agent_temperature=0.5", `--env.extra_body={"provider":{"only":["x"]},"seed":3}`)
	require.Equal(t, cli.ExitOK, code, stderr)
	body := posts(b.server)[0]
	require.Equal(t, `{"effort":"none"}`, gjson.Get(body, "reasoning").Raw)
	require.Equal(t, `{"only":["x"]}`, gjson.Get(body, "provider").Raw)
	require.Equal(t, int64(3), gjson.Get(body, "seed").Int())
	require.Equal(t, 0.5, gjson.Get(body, "temperature").Float())
	require.False(t, gjson.Get(body, "max_tokens").Exists())
	code, _, stderr = b.batch("--run_name=plain")
	require.Equal(t, cli.ExitOK, code, stderr)
	all := posts(b.server)
	last := all[len(all)-1]
	require.False(t, gjson.Get(last, "provider").Exists() || gjson.Get(last, "reasoning").Exists() || gjson.Get(last, "temperature").Exists())
}

func TestFailedPromptsLeaveNoRowAndAreTriedAgain(t *testing.T) {
	broken := true
	b := newBatchRun(t, func(r *modeltest.Request) modeltest.Reply {
		if !broken && strings.Contains(string(r.Body), "Task fail") {
			return modeltest.Text("<think>now</think>ok")
		}
		return thinker(r)
	}, tasks("one", "fail", "two")...)
	code, stdout, stderr := b.batch()
	require.Equal(t, cli.ExitBelow, code, stdout)
	require.Contains(t, stderr, "1 prompts failed and left no row; --resume tries them again")
	require.Equal(t, []string{"0 Task one", "2 Task two"}, texts(t, "data/r/trajectories.jsonl"))
	require.Equal(t, "[0,2]", strings.Join(strings.Fields(gjson.Get(read(t, "data/r/checkpoint.json"), "completed_prompts").Raw), ""))
	broken = false
	before := len(posts(b.server))
	code, _, stderr = b.batch("--resume")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, []string{"0 Task one", "1 Task fail", "2 Task two"}, texts(t, "data/r/trajectories.jsonl"))
	require.Equal(t, 1, len(posts(b.server))-before, "what was run is not run again")
	require.Equal(t, int64(5), gjson.Get(read(t, "data/r/statistics.json"), "reasoning_statistics.total_assistant_turns").Int(), "statistics are of all sessions")
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestAResumedRunGoesByContentAndNotByNumber(t *testing.T) {
	b := newBatchRun(t, thinker, tasks("one", "plain", "two", "two")...)
	code, _, stderr := b.batch()
	require.Equal(t, cli.ExitOK, code, stderr)
	before := len(posts(b.server))
	b.write("prompts.jsonl", strings.Join(tasks("new", "two", "plain", "two", "two", "one"), "\n"))
	code, stdout, stderr := b.batch("--resume")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "4 of 6 prompts were run before, 2 are left")
	require.Equal(t, 4, len(posts(b.server))-before)
	require.Equal(t, []string{"0 Task one", "2 Task two", "3 Task two", "4 Task two", "6 Task new"}, texts(t, "data/r/trajectories.jsonl"), stdout)
	require.Equal(t, []string{"6 Task new"}, texts(t, "data/r/batch_3.jsonl"), "a row is in the file of its number")
	code, _, stderr = b.batch("--resume")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "6 of 6 prompts were run before")
	require.Equal(t, 4, len(posts(b.server))-before)
	code, _, stderr = b.batch("--resume", "--max_turns=3")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "env.max_agent_turns: 10 -> 3")
}

// pythonRow is a row as the original wrote it, with tools this program does not have.
func pythonRow(index int, prompt string, webCalls int, extra string) string {
	return fmt.Sprintf(`{"prompt_index": %d, "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": %q}, {"from": "gpt", "value": "<think>\nja\n</think>\nok"}], "metadata": {"batch_num": 0, "timestamp": "2026-01-01T10:00:0%d", "model": "org/m"}, "completed": true, "partial": false, "api_calls": 1, "toolsets_used": ["web"], "tool_stats": {"web_search": {"count": %d, "success": %d, "failure": 0}, "odd_tool": {"count": 0, "success": 0, "failure": 0}%s}, "tool_error_counts": {"web_search": 0, "odd_tool": 0}}`,
		index, prompt, index, webCalls, webCalls, extra)
}

func TestAFolderOfTheOriginalIsTakenUp(t *testing.T) {
	b := newBatchRun(t, thinker, tasks("zero", "one", "two", "three", "two", "five")...)
	require.NoError(t, os.MkdirAll("data/r", 0o755))
	torn := pythonRow(3, "Task three", 0, "")
	first := strings.Join([]string{
		pythonRow(0, "Task zero", 3, ""), pythonRow(2, "Task two", 0, ""), "garbage",
		pythonRow(0, "Task zero", 3, ""), // bug: run twice
		`{"prompt_index": 5, "conversations": [{"from": "human", "value": "Task five"}], "failed": true}`,
	}, "\n") + "\n" + torn[:len(torn)-30]
	b.write("data/r/batch_0.jsonl", first)
	b.write("data/r/batch_7.jsonl", pythonRow(9, "Task gone", 1, `, "made_up": {"count": 1, "success": 0, "failure": 1}`)) // without a newline
	b.write("data/r/checkpoint.json", `{"run_name": "r", "completed_prompts": [0, 1, 2], "batch_stats": {}, "last_updated": "x"}`)
	code, _, stderr := b.batch()
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "data/r holds a run already")
	require.Equal(t, first, read(t, "data/r/batch_0.jsonl"), "nothing was touched")

	code, stdout, stderr := b.batch("--resume")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "removed a last line of data/r/batch_0.jsonl that had been cut off")
	require.Contains(t, stderr, "batch_0.jsonl, line 3 is no row")
	// The row at number 9 shows that the dataset was edited, so number 1 without a row is run.
	require.Contains(t, stderr, "calls 1 prompts done that have no row")
	require.Contains(t, stderr, "2 of 6 prompts were run before, 4 are left")
	require.Equal(t, []string{"0 Task zero", "1 Task one", "2 Task two", "3 Task three", "4 Task two", "5 Task five"}, texts(t, "data/r/trajectories.jsonl"), stdout)
	require.Contains(t, stdout, "1 left out for tools that don't exist, 1 left out as run twice, 1 lines that are no rows")
	names := map[string]bool{}
	for _, row := range lines(t, "data/r/trajectories.jsonl") {
		var keys []string
		gjson.Get(row, "tool_stats").ForEach(func(k, _ gjson.Result) bool { keys = append(keys, k.String()); return true })
		slices.Sort(keys)
		names[strings.Join(keys, " ")] = true
		require.Len(t, gjson.Get(row, "tool_error_counts").Map(), len(keys))
	}
	require.Len(t, names, 1, "every row has the same columns: %v", names)
	for name := range names {
		require.Contains(t, name, "odd_tool")
		require.Contains(t, name, "web_search")
		require.Contains(t, name, "terminal")
	}
	// Three rows are left that are no doubles, and all that was there before still is.
	require.True(t, strings.HasPrefix(read(t, "data/r/batch_0.jsonl"), first[:strings.LastIndexByte(first, '\n')+1]))
	before := len(posts(b.server))
	code, _, stderr = b.batch("--resume")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "6 of 6 prompts were run before")
	require.Equal(t, before, len(posts(b.server)))
}

func TestDiscardsTheOriginalRememberedByNumberAreNotPaidForAgain(t *testing.T) {
	b := newBatchRun(t, thinker, tasks("zero", "one", "two")...)
	require.NoError(t, os.MkdirAll("data/r", 0o755))
	b.write("data/r/batch_0.jsonl", pythonRow(0, "Task zero", 0, "")+"\n")
	b.write("data/r/checkpoint.json", `{"run_name": "r", "completed_prompts": [0, 1]}`)
	code, _, stderr := b.batch("--resume")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "1 prompts that checkpoint.json calls done without a row were discarded")
	require.Equal(t, []string{"0 Task zero", "1 Task one"}, texts(t, "data/r/batch_0.jsonl"))
	require.Equal(t, []string{"0 Task zero", "2 Task two"}, texts(t, "data/r/trajectories.jsonl"))
	require.Len(t, posts(b.server), 2)
	// The number is in a tombstone now, which goes by content.
	b.write("prompts.jsonl", strings.Join(tasks("two", "one"), "\n"))
	code, _, stderr = b.batch("--resume")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "2 of 2 prompts were run before")
}

func TestACheckpointThatCanNotBeReadIsMadeAnew(t *testing.T) {
	b := newBatchRun(t, thinker, tasks("zero", "one")...)
	require.NoError(t, os.MkdirAll("data/r", 0o755))
	for _, text := range []string{"{", `{"run_name": "other", "completed_prompts": [0, 1]}`} {
		require.NoError(t, os.RemoveAll("data/r"))
		require.NoError(t, os.MkdirAll("data/r", 0o755))
		b.write("data/r/checkpoint.json", text)
		code, _, stderr := b.batch("--resume")
		require.Equal(t, cli.ExitOK, code, stderr)
		require.Contains(t, stderr, "is made anew from the batch files")
		require.Equal(t, int64(2), gjson.Get(read(t, "data/r/checkpoint.json"), "completed_prompts.#").Int())
	}
}

func TestAnEndpointThatIsNotThereLeavesNoFolder(t *testing.T) {
	b := newBatchRun(t, thinker, tasks("one")...)
	code, _, stderr := b.batch("--base_url", modeltest.RefusedURL(t))
	require.Equal(t, cli.ExitModel, code, stderr)
	require.NoDirExists(t, "data")
}

func TestAsManyPromptsRunAtOnceAsThereAreWorkers(t *testing.T) {
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprint(i))
	}
	b := newBatchRun(t, modeltest.Delayed(thinker, func(*modeltest.Request) time.Duration { return 30 * time.Millisecond }), tasks(names...)...)
	code, _, stderr := b.batch("--num_workers=6", "--batch_size=100")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, 6, b.server.MaxInFlight(), "prompts of one batch run side by side")
}

// A process killed at random instants and resumed until it is done.
func TestABatchRunKilledAtRandomInstantsLosesAndDoublesNothing(t *testing.T) {
	slowtest.Require(t)
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
	var left allowance
	server := modeltest.NewServerWith(t, modeltest.Config{Script: modeltest.Delayed(thinker, func(*modeltest.Request) time.Duration {
		return left.delay(0, 20*time.Millisecond)
	})})
	const prompts = 120
	kills, instant := slowtest.Times(4, 50), instants(t, dir, 250*time.Millisecond)
	var rows []string
	for i := range prompts {
		name := fmt.Sprint(i / 2) // every prompt stands twice
		if i%10 == 9 {
			name = "plain " + name
		}
		rows = append(rows, tasks(name)...)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p.jsonl"), []byte(strings.Join(rows, "\n")), 0o644))
	args := []string{"batch", "--dataset_file", "p.jsonl", "--batch_size=7", "--run_name=r", "--distribution=terminal_only", "--num_workers=4", "--resume",
		"--base_url", server.URL, "--model=mock"}
	seen := map[string]string{}
	killed := 0
	for ; killed < kills; killed++ {
		left.share(prompts, kills) // and most prompts take two requests
		ended, output := child(t, dir, instant(), args...)
		for id, line := range wholeLines(filepath.Join(dir, "data/r/run/rollouts.jsonl")) {
			if known, ok := seen[id]; ok {
				require.Equal(t, known, line, "a finished line never changes")
			}
			seen[id] = line
		}
		if ended {
			require.Contains(t, output, "108 trajectories")
			break
		}
	}
	require.Equal(t, kills, killed, "the run was over too soon to tell anything")
	left.Store(1 << 40)
	_, output := child(t, dir, 0, args...)
	require.Contains(t, output, "prompts    120: 108 trajectories, 12 discarded without reasoning", output)
	indices := map[int64]string{}
	for n := range 18 {
		path := filepath.Join(dir, fmt.Sprintf("data/r/batch_%d.jsonl", n))
		for _, l := range lines(t, path) {
			require.True(t, gjson.Valid(l), l)
			index := gjson.Get(l, "prompt_index").Int()
			require.Empty(t, indices[index], "row %d is there twice", index)
			require.Equal(t, int64(n), index/7)
			indices[index] = gjson.Get(l, `conversations.#(from="human").value`).String()
		}
	}
	require.Len(t, indices, prompts)
	for i, row := range rows {
		require.Equal(t, gjson.Get(row, "prompt").String(), indices[int64(i)])
	}
	require.Len(t, lines(t, filepath.Join(dir, "data/r/run/rollouts.jsonl")), prompts)
	require.Len(t, lines(t, filepath.Join(dir, "data/r/trajectories.jsonl")), 108)
}

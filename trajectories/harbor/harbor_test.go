package harbor

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

var update = flag.Bool("update", false, "write the golden files again")

func pointer[T any](v T) *T { return &v }

// run is a run in memory.
type run struct {
	manifest trajectories.Manifest
	rollouts []*trajectories.Rollout
	err      error
}

func (r *run) Manifest() trajectories.Manifest { return r.manifest }

func (r *run) Each(visit func(*trajectories.Rollout) error) error {
	for _, rollout := range r.rollouts {
		if err := visit(rollout); err != nil {
			return err
		}
	}
	return r.err
}

func rollout(item string, attempt int, score *float64, outcome trajectories.Outcome) *trajectories.Rollout {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &trajectories.Rollout{
		ID: item + "-" + string(rune('0'+attempt)), ItemID: item, ItemDigest: "sha256:abc", Attempt: attempt, Outcome: outcome, Score: score, Model: "org/m", TurnsUsed: 1, StopReason: "natural",
		Usage: chat.Usage{PromptTokens: 100, CompletionTokens: 10, TotalTokens: 110, CachedTokens: 50}, Timings: trajectories.Timings{Total: 10, Sandbox: 2, Model: 5, Verify: 3},
		StartedAt: start, FinishedAt: start.Add(10 * time.Second), Messages: []chat.Message{chat.User("do it"), chat.Assistant("done", "")},
		Metadata: json.RawMessage(`{"task_name":"` + strings.ToUpper(item) + `","category":"c","verifier":{"test_stdout":"ok\n","ctrf":{"results":1}}}`),
	}
	if outcome != trajectories.OutcomeScored && score == nil {
		r.Error = &trajectories.Failure{Class: "timeout", Message: "too slow"}
	}
	return r
}

func testRun() *run {
	limited := rollout("two", 1, pointer(0.25), trajectories.OutcomeLimit)
	limited.StopReason, limited.ScoreParts = "time_limit", []trajectories.ScorePart{{Name: "tests", Value: 0.25}}
	return &run{
		manifest: trajectories.Manifest{Command: "evaluate", Environment: "terminal-bench-2", Status: trajectories.StatusDone, StartedAt: "2026-01-02T03:04:05.000Z", EndedAt: "2026-01-02T03:05:05.000Z", ConfigDigest: "sha256:1",
			Config: json.RawMessage(`{"agent":"model","env":{"terminal_backend":"docker","memory_mb":512,"agent_timeout_multiplier":2,"max_token_length":100},"openai":[{"model_name":"org/m","api_key":"sk-1234","base_url":"https://u:p@h/v1"}]}`)},
		rollouts: []*trajectories.Rollout{
			rollout("one", 0, pointer(1.0), trajectories.OutcomeScored), rollout("one", 1, nil, trajectories.OutcomeVerifierError),
			rollout("two", 0, pointer(0.0), trajectories.OutcomeScored), limited,
		},
	}
}

// passAtK is 1 − C(n−c,k)/C(n,k).
func passAtK(n, c, k int) float64 {
	fail := 1.0
	for i := range k {
		fail *= float64(n-c-i) / float64(n-i)
	}
	return 1 - math.Max(0, fail)
}

func export(t *testing.T, r Source, config Config) *Job {
	t.Helper()
	config.PassAtK, config.AgentVersion = passAtK, "1.2.3"
	job, err := Export(context.Background(), r, config)
	require.NoError(t, err)
	return job
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(raw)
}

func TestAJobHasTheFilesAndStatisticsOfHarbor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	job := export(t, testRun(), Config{Dir: dir, Provider: "p", Cost: func(*trajectories.Rollout) *float64 { return pointer(0.5) }})
	require.Equal(t, filepath.Join(dir, "2026-01-02__03-04-05"), job.Dir)
	require.Equal(t, 4, job.Trials)
	require.Equal(t, map[string]int{"ONE": 1, "TWO": 2}, job.Tasks)

	result := read(t, job.Dir, "result.json")
	require.Equal(t, int64(4), gjson.Get(result, "n_total_trials").Int())
	require.Equal(t, "2026-01-02T03:05:05.000000Z", gjson.Get(result, "finished_at").String())
	stats := gjson.Get(result, "stats")
	require.Equal(t, int64(4), stats.Get("n_completed_trials").Int())
	require.Equal(t, int64(2), stats.Get("n_errored_trials").Int())
	require.Equal(t, int64(400), stats.Get("n_input_tokens").Int())
	require.Equal(t, 2.0, stats.Get("cost_usd").Float())
	eval := stats.Get("evals.hermes-env__org/m__terminal-bench-2")
	require.Equal(t, int64(3), eval.Get("n_trials").Int())
	require.Equal(t, 1.25/4, eval.Get("metrics.0.mean").Float(), "a missing reward counts 0, as there")
	require.Equal(t, `{"2":0.5}`, compact(t, eval.Get("pass_at_k").Raw))
	require.Len(t, eval.Get("reward_stats.reward.1\\.0").Array(), 1)
	require.Len(t, eval.Get("exception_stats.AgentTimeoutError").Array(), 1)
	require.Len(t, eval.Get("exception_stats.VerifierTimeoutError").Array(), 1)

	trials, err := filepath.Glob(filepath.Join(job.Dir, "*__*"))
	require.NoError(t, err)
	require.Len(t, trials, 4)
	for _, r := range testRun().rollouts {
		trial := filepath.Join(job.Dir, TrialName(r.ItemID, r.ID))
		require.Equal(t, "ATIF-v1.7", gjson.Get(read(t, trial, "agent", "trajectory.json"), "schema_version").String())
		require.Equal(t, "ok\n", read(t, trial, "verifier", "test-stdout.txt"))
		require.JSONEq(t, `{"results":1}`, read(t, trial, "verifier", "ctrf.json"))
		require.Equal(t, "[]\n", read(t, trial, "artifacts", "manifest.json"))
		require.JSONEq(t, gjson.Get(read(t, trial, "result.json"), "config").Raw, read(t, trial, "config.json"))
		_, err := os.Stat(filepath.Join(trial, "verifier", "reward.txt"))
		require.Equal(t, r.Score == nil, errors.Is(err, os.ErrNotExist), "no reward is ever made up")
	}
	limited := testRun().rollouts[3]
	trial := filepath.Join(job.Dir, TrialName(limited.ItemID, limited.ID))
	require.Equal(t, "0.25\n", read(t, trial, "verifier", "reward.txt"))
	require.JSONEq(t, `{"reward":0.25,"tests":0.25}`, read(t, trial, "verifier", "reward.json"))
	require.Contains(t, read(t, trial, "exception.txt"), "AgentTimeoutError")

	golden := strings.ReplaceAll(read(t, trial, "result.json"), filepath.ToSlash(dir), "JOBS")
	path := filepath.Join("testdata", "trial.json")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(golden), 0o644))
	}
	require.Equal(t, read(t, path), golden, "run with -update when the change is meant")
	require.NotContains(t, golden, "sk-1234")
	require.NotContains(t, golden, "u:p@")
	require.Contains(t, golden, `"max_token_length": 100`)
	require.Equal(t, int64(512), gjson.Get(golden, "config.environment.override_memory_mb").Int(), "overrides are told")
}

func TestStagesOfATaskShareOneOutput(t *testing.T) {
	r := testRun()
	r.rollouts = r.rollouts[:1]
	r.rollouts[0].Metadata = json.RawMessage(`{"stages":[{"name":"first","verifier":{"test_stdout":"a\n"}},{"name":"second"},{"name":"third","verifier":{"test_stdout":"b"}}]}`)
	job := export(t, r, Config{Dir: t.TempDir()})
	require.Equal(t, "==> first <==\na\n==> third <==\nb\n", read(t, job.Dir, TrialName("one", "one-0"), "verifier", "test-stdout.txt"))
}

func compact(t *testing.T, raw string) string {
	t.Helper()
	var v json.RawMessage = []byte(raw)
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

func TestAFailedExportLeavesNothingAndAJobIsNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	broken := testRun()
	broken.err = errors.New("a torn line")
	config := Config{Dir: dir, JobName: "j", PassAtK: passAtK}
	_, err := Export(context.Background(), broken, config)
	require.ErrorContains(t, err, "a torn line")
	empty := testRun()
	empty.rollouts = nil
	_, err = Export(context.Background(), empty, config)
	require.ErrorContains(t, err, "no rollouts")
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Export(cancelled, testRun(), config)
	require.ErrorIs(t, err, context.Canceled)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	_, err = Export(context.Background(), testRun(), config)
	require.NoError(t, err)
	_, err = Export(context.Background(), testRun(), config)
	require.ErrorContains(t, err, "exists already")
	for _, name := range []string{"..", "a/b", ".hidden", "a b"} {
		config.JobName = name
		_, err = Export(context.Background(), testRun(), config)
		require.ErrorContains(t, err, "is no name for a job")
	}
}

func TestOutcomesHaveTheNamesOfHarborsExceptions(t *testing.T) {
	for _, test := range []struct {
		outcome     trajectories.Outcome
		class, stop string
		want        string
	}{
		{trajectories.OutcomeScored, "", "natural", ""},
		{trajectories.OutcomeLimit, "", "turn_limit", ""},
		{trajectories.OutcomeLimit, "", "time_limit", "AgentTimeoutError"},
		{trajectories.OutcomeAgentError, "invalid_tool_calls", "turn_limit", "InvalidToolCallsError"},
		{trajectories.OutcomeModelError, "rate_limit", "", "ApiRateLimitError"},
		{trajectories.OutcomeModelError, "unheard of", "", "ApiError"},
		{trajectories.OutcomeSandboxError, "image", "", "RuntimeError"},
		{trajectories.OutcomeVerifierError, "timeout", "", "VerifierTimeoutError"},
		{trajectories.OutcomeVerifierError, "RewardFileNotFoundError", "", "RewardFileNotFoundError"},
		{trajectories.OutcomeVerifierError, "verifier", "", "VerifierError"},
		{trajectories.OutcomeCancelled, "cancelled", "", "CancelledError"},
	} {
		r := &trajectories.Rollout{Outcome: test.outcome, StopReason: test.stop}
		if test.class != "" {
			r.Error = &trajectories.Failure{Class: test.class}
		}
		require.Equal(t, test.want, ExceptionType(r), "%s %s", test.outcome, test.class)
	}
}

func TestALeaderboardEntryIsToldWhatIsWrongWithIt(t *testing.T) {
	r := testRun()
	job := export(t, r, Config{Dir: t.TempDir()})
	entry := &Submission{AgentURL: "https://x", Models: []SubmissionModel{{Name: "org/m"}}}
	got := strings.Join(Rejections(r.manifest, job, entry), "\n")
	for _, want := range []string{"2 of the 89 tasks", "fewer than 5 trials with a reward: ONE (1), TWO (2)", "env.memory_mb is 512", "env.agent_timeout_multiplier is 2", "metadata.yaml lacks agent_display_name"} {
		require.Contains(t, got, want)
	}
	dir := t.TempDir()
	require.NoError(t, entry.Write(dir))
	require.Contains(t, read(t, dir, "metadata.yaml"), "agent_org_display_name: "+Missing)
	require.Equal(t, "org/m", entry.Models[0].Name)
	require.Empty(t, entry.AgentDisplayName, "the entry itself is not changed")

	good := r.manifest
	good.Config = json.RawMessage(`{"env":{"agent_timeout_multiplier":1}}`)
	full := &Job{Tasks: map[string]int{}}
	for i := range allTasks {
		full.Tasks[string(rune('a'+i))] = 5
	}
	whole := &Submission{"u", "d", "o", []SubmissionModel{{"m", "p", "d", "o"}}}
	require.Empty(t, Rejections(good, full, whole))
	good.Environment, good.Status, good.Deviations = "tasks", trajectories.StatusInterrupted, []string{"network none"}
	require.Len(t, Rejections(good, full, whole), 3)
	require.Equal(t, filepath.Join("x", "submissions", "terminal-bench", "2.0", "hermes-env__m-1"), SubmissionDir("x", "hermes-env", "org/m 1"))
}

func TestSecretsAreTakenOut(t *testing.T) {
	for in, want := range map[string]string{
		`{"api_key":"x","API_TOKEN":["a",{"b":"c"}],"max_token_length":3,"api_key_env":"NAME","z":null,"auth":{"user":"u","n":1}}`: `{"api_key":"****","API_TOKEN":["****",{"b":"****"}],"max_token_length":3,"api_key_env":"NAME","z":null,"auth":{"user":"****","n":1}}`,
		`{"url":"http://a:b@c/d","key":""}`: `{"url":"http://****@c/d","key":""}`,
		``:                                  `null`,
	} {
		require.Equal(t, want, string(Redact(json.RawMessage(in))))
	}
}

func FuzzTrialNamesAreSafeDirectories(f *testing.F) {
	f.Add("../../etc/passwd", "r1")
	f.Add("org/a-very-long-name-of-a-task-that-goes-on-and-on", "r2")
	f.Add("…", "")
	safe := regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,31}__[2-9A-Za-z]{7}$`)
	f.Fuzz(func(t *testing.T, task, id string) {
		require.Regexp(t, safe, TrialName(task, id))
		require.Equal(t, TrialName(task, id), TrialName(task, id))
	})
}

func TestStepsStandInATrialAsHarborHasThem(t *testing.T) {
	staged := rollout("steps", 0, pointer(0.75), trajectories.OutcomeLimit)
	staged.TurnsUsed, staged.StopReason = 3, "time_limit"
	staged.Messages = []chat.Message{chat.User("first"), chat.Assistant("a", ""), chat.User("second"), chat.Assistant("b", ""), chat.Assistant("c", "")}
	staged.Timings = trajectories.Timings{Total: 12, Sandbox: 2, Verify: 3, Turns: []trajectories.TurnTiming{
		{Total: 1, PromptTokens: 10, CompletionTokens: 1}, {Total: 2, PromptTokens: 20, CompletionTokens: 2}, {Total: 3, PromptTokens: 30, CompletionTokens: 3},
	}}
	staged.Metadata = json.RawMessage(`{"stages":[{"name":"one","message":0,"turns_used":1,"stop_reason":"natural","score":0.5,"verifier":{"seconds":1.5,"test_stdout":"half\n"}},` +
		`{"name":"two","message":2,"turns_used":2,"stop_reason":"time_limit","score":1,"verifier":{"seconds":0.5,"test_stdout":"all\n","ctrf":{"results":2}}}]}`)
	failed := rollout("failed", 0, nil, trajectories.OutcomeVerifierError)
	failed.Metadata = json.RawMessage(`{"stages":[{"name":"one","message":0,"turns_used":1,"stop_reason":"natural","score":null},{"name":"../../up","message":99,"turns_used":-4,"stop_reason":"natural","score":null}]}`)
	r := testRun()
	r.rollouts = append(r.rollouts, staged, failed)
	job := export(t, r, Config{Dir: t.TempDir()})
	require.Equal(t, map[string]int{"ONE": 1, "TWO": 2, "steps": 1, "failed": 0}, job.Tasks, "a task without any reward is one all the same")

	trial := filepath.Join(job.Dir, TrialName(staged.ItemID, staged.ID))
	results := gjson.Get(read(t, trial, "result.json"), "step_results")
	require.Equal(t, `["one","two"]`, compact(t, results.Get("#.step_name").Raw))
	require.Equal(t, `[{"reward":0.5},{"reward":1.0}]`, compact(t, results.Get("#.verifier_result.rewards").Raw))
	require.Equal(t, `[10,50]`, compact(t, results.Get("#.agent_result.n_input_tokens").Raw))
	require.Equal(t, gjson.Null, results.Get("0.exception_info").Type)
	require.Equal(t, "AgentTimeoutError", results.Get("1.exception_info.exception_type").String(), "the step whose time was up, not the one before")
	require.JSONEq(t, `{"started_at":"2026-01-02T03:04:08.000000Z","finished_at":"2026-01-02T03:04:09.500000Z"}`, results.Get("0.verifier").Raw)
	require.JSONEq(t, `{"started_at":"2026-01-02T03:04:09.500000Z","finished_at":"2026-01-02T03:04:14.500000Z"}`, results.Get("1.agent_execution").Raw)
	require.Equal(t, "0.5\n", read(t, trial, "steps", "one", "verifier", "reward.txt"))
	require.Equal(t, "all\n", read(t, trial, "steps", "two", "verifier", "test-stdout.txt"))
	require.JSONEq(t, `{"results":2}`, read(t, trial, "steps", "two", "verifier", "ctrf.json"))
	second := read(t, trial, "steps", "two", "agent", "trajectory.json")
	require.Equal(t, `["second","b","c"]`, compact(t, gjson.Get(second, "steps.#.message").Raw))
	require.Equal(t, int64(50), gjson.Get(second, "final_metrics.total_prompt_tokens").Int())

	trial = filepath.Join(job.Dir, TrialName(failed.ItemID, failed.ID))
	require.Equal(t, `["VerifierTimeoutError","VerifierTimeoutError"]`, compact(t, gjson.Get(read(t, trial, "result.json"), "step_results.#.exception_info.exception_type").Raw))
	entries, err := os.ReadDir(filepath.Join(trial, "steps"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "a name that leads elsewhere is no directory")

	plain := testRun().rollouts[0]
	result := read(t, job.Dir, TrialName(plain.ItemID, plain.ID), "result.json")
	require.Equal(t, "null", gjson.Get(result, "step_results").Raw)
	require.Equal(t, "org", gjson.Get(result, "agent_info.model_info.provider").String(), "never null, which some versions refuse")
}

package trajectories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

func mustCreate(t testing.TB, dir string) *Run {
	t.Helper()
	run, err := create(dir, testInfo(t), testSettings())
	require.NoError(t, err)
	return run
}

func mustResume(t testing.TB, dir string) *Run {
	t.Helper()
	run, err := resume(dir, testInfo(t), testSettings())
	require.NoError(t, err)
	return run
}

// checkAgreement checks that the derived file says what the truth says.
func checkAgreement(t testing.TB, dir string) {
	t.Helper()
	converter := NewShareGPT(ShareGPTConfig{Tools: testTools(t)})
	var want []string
	reader, err := OpenReadOnly(dir)
	require.NoError(t, err)
	require.NoError(t, reader.Each(func(r *Rollout) error {
		if r.Trained() {
			want = append(want, string(converter.Append(nil, r)))
		}
		return nil
	}))
	got := readLines(t, filepath.Join(dir, trajectoriesFile))
	require.Len(t, got, len(want))
	for i := range want {
		if got[i] != want[i] {
			at := 0
			for at < min(len(got[i]), len(want[i])) && got[i][at] == want[i][at] {
				at++
			}
			require.Failf(t, "line differs", "line %d byte %d:\nwant …%.300s\ngot  …%.300s", i+1, at, want[i][at:], got[i][at:])
		}
	}
}

func TestARunSurvivesCloseAndResume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "deep", "a")
	run := mustCreate(t, dir)
	ctx := context.Background()
	require.NoError(t, run.Append(ctx, rich(t)))
	require.NoError(t, run.Append(ctx, simple("b", 0, 0)))
	failed := simple("c", 0, 0)
	failed.Outcome, failed.Score, failed.Passed = OutcomeModelError, nil, nil
	require.NoError(t, run.Append(ctx, failed))
	silent := simple("d", 0, 0)
	silent.Messages = silent.Messages[:1]
	require.NoError(t, run.Append(ctx, silent))
	require.Equal(t, 4, run.Len())
	before := run.Entries()
	require.NoError(t, run.Close(StatusInterrupted))
	require.NoError(t, run.Close(StatusDone), "only the first Close counts")
	require.Equal(t, StatusInterrupted, run.Manifest().Status)

	again := mustResume(t, dir)
	require.Empty(t, again.Repairs())
	require.Equal(t, before, again.Entries())
	loaded, err := again.Load(rich(t).Key())
	require.NoError(t, err)
	line, err := AppendRollout(nil, loaded)
	require.NoError(t, err)
	want, err := AppendRollout(nil, rich(t))
	require.NoError(t, err)
	require.Equal(t, string(want), string(line))
	_, err = again.Load(Key{"none", 0, 0})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, again.Append(ctx, simple("e", 0, 0)))
	require.NoError(t, again.Close(StatusDone))

	require.Len(t, readLines(t, filepath.Join(dir, rolloutsFile)), 5)
	require.Len(t, readLines(t, filepath.Join(dir, trajectoriesFile)), 3, "neither model errors nor rollouts without a model turn")
	checkAgreement(t, dir)
	manifest := again.Manifest()
	require.Len(t, manifest.Sessions, 2)
	require.Equal(t, 4, manifest.Sessions[1].Rollouts)
	require.Equal(t, StatusDone, manifest.Status)
}

func TestFilesOfARunAreGolden(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run := mustCreate(t, dir)
	ctx := context.Background()
	require.NoError(t, run.Append(ctx, rich(t)))
	require.NoError(t, run.Append(ctx, simple("plain", 0, 1)))
	broken := simple("broken", 0, 0)
	broken.Outcome, broken.Score, broken.Passed = OutcomeVerifierError, nil, nil
	broken.Error = &Failure{Class: "timeout", Message: "the verifier took longer than 60 s"}
	require.NoError(t, run.Append(ctx, broken))
	metrics := Metrics{
		ModelName:            "org/model-x",
		Duration:             812_400_000_000,
		GenerationParameters: json.RawMessage(`{"max_new_tokens":32000,"temperature":0.80}`),
		Values:               []Metric{{"eval/pass_rate", 0.5}, {"eval/a", 2}},
	}
	require.NoError(t, run.WriteMetrics(metrics))
	elsewhere := filepath.Join(t.TempDir(), "out", "evals")
	require.NoError(t, run.ExportMetrics(elsewhere, metrics))
	require.NoError(t, run.Close(StatusDone))
	for _, name := range []string{rolloutsFile, trajectoriesFile, samplesFile, metricsFile, manifestFile} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		if name == manifestFile {
			content = []byte(strings.ReplaceAll(string(content), testGoVersion(), "go1.x"))
		}
		golden(t, name, content)
	}
	for _, name := range []string{samplesFile, metricsFile} {
		content, err := os.ReadFile(filepath.Join(elsewhere, name))
		require.NoError(t, err)
		golden(t, name, content)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{lockFile, metricsFile, indexFile, rolloutsFile, manifestFile, samplesFile, trajectoriesFile}, names)
}

func testGoVersion() string { return (&Info{}).versions().Go }

func TestMetricsRefuseWhatIsNoFigure(t *testing.T) {
	run := mustCreate(t, t.TempDir())
	defer func() { require.NoError(t, run.Close(StatusDone)) }()
	nan := func() float64 { zero := 0.0; return zero / zero }()
	for name, c := range map[string]struct {
		metrics Metrics
		want    string
	}{
		"not a number": {Metrics{Values: []Metric{{"eval/x", nan}}}, `metric "eval/x" is NaN`},
		"twice":        {Metrics{Values: []Metric{{"a", 1}, {"a", 2}}}, "given twice"},
		"parameters":   {Metrics{GenerationParameters: json.RawMessage(`[1]`)}, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, run.WriteMetrics(c.metrics), c.want)
		})
	}
	require.NoError(t, run.WriteMetrics(Metrics{MisspeltTimeKey: true}))
	content, err := os.ReadFile(filepath.Join(run.Dir(), metricsFile))
	require.NoError(t, err)
	require.Equal(t, "0.0", gjson.GetBytes(content, "config_general.total_evaluation_time_secondes").Str)
	require.True(t, gjson.GetBytes(content, `results.atropos\|terminal-test_eval\|0`).Exists())
}

func TestCreateRefusesADirectoryThatIsTaken(t *testing.T) {
	t.Run("by a run", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, mustCreate(t, dir).Close(StatusDone))
		_, err := Create(dir, testInfo(t))
		require.ErrorIs(t, err, ErrExists)
		require.ErrorContains(t, err, "add --resume to go on with it, or choose another directory with --run-dir")
		require.ErrorContains(t, err, "evaluate of terminal-test")
	})
	t.Run("by other files, and leaves it untouched", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o644))
		_, err := Create(dir, testInfo(t))
		require.ErrorIs(t, err, ErrNotRun)
		require.ErrorContains(t, err, "thesis.tex")
		require.NoFileExists(t, filepath.Join(dir, lockFile))
	})
	t.Run("by rollouts whose run.json is gone", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, rolloutsFile), []byte("{}\n"), 0o644))
		_, err := Create(dir, testInfo(t))
		require.ErrorIs(t, err, ErrNotRun)
	})
	t.Run("by a file of that name", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		_, err := Create(path, testInfo(t))
		require.Error(t, err)
		_, err = Create(filepath.Join(path, "below"), testInfo(t))
		require.Error(t, err)
	})
	t.Run("by a damaged run", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, manifestFile), []byte("{"), 0o644))
		_, err := Create(dir, testInfo(t))
		require.ErrorIs(t, err, ErrExists)
		_, err = Resume(dir, testInfo(t))
		require.ErrorIs(t, err, ErrCorrupt)
		_, err = OpenReadOnly(dir)
		require.ErrorIs(t, err, ErrCorrupt)
	})
	t.Run("but not by what a process killed at its start left", func(t *testing.T) {
		dir := t.TempDir()
		for _, name := range []string{lockFile, rolloutsFile, trajectoriesFile, manifestFile + temporarySuffix} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		}
		require.NoError(t, mustCreate(t, dir).Close(StatusDone))
	})
}

func TestResumeNeedsARun(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		_, err := Resume(dir, testInfo(t))
		require.ErrorIs(t, err, ErrNotRun)
		require.ErrorContains(t, err, "without --resume")
		_, err = OpenReadOnly(dir)
		require.ErrorIs(t, err, ErrNotRun)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifestFile), []byte(`{"schema_version":99}`), 0o644))
	_, err := Resume(dir, testInfo(t))
	require.ErrorContains(t, err, "newer hermes-env")
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifestFile), []byte(`{}`), 0o644))
	_, err = Resume(dir, testInfo(t))
	require.ErrorContains(t, err, "schema_version is missing")
}

func TestInfoIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Info)
		want   string
	}{
		"command":     {func(i *Info) { i.Command = "train" }, "evaluate, process or serve"},
		"environment": {func(i *Info) { i.Environment = "" }, "no name"},
		"config":      {func(i *Info) { i.Config = json.RawMessage(`{"a":`) }, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			info := testInfo(t)
			c.change(&info)
			_, err := Create(t.TempDir(), info)
			require.ErrorContains(t, err, c.want)
			_, err = Resume(t.TempDir(), info)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestASecondProcessIsToldWhoOwnsTheRun(t *testing.T) {
	dir := t.TempDir()
	run := mustCreate(t, dir)
	_, err := Resume(dir, testInfo(t)) // another open file description, so as good as another process
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
	require.ErrorIs(t, err, ErrLocked)
	require.Equal(t, 4711, locked.PID)
	require.Equal(t, "host-a", locked.Host)
	require.ErrorContains(t, err, "process 4711 on host host-a")
	require.NoError(t, run.Close(StatusDone))
	require.NoError(t, mustResume(t, dir).Close(StatusDone))
}

func TestResumeRefusesOtherSettings(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, mustCreate(t, dir).Close(StatusInterrupted))
	for name, c := range map[string]struct {
		change func(*Info)
		want   []string
	}{
		"command":     {func(i *Info) { i.Command = "process" }, []string{"command: evaluate -> process"}},
		"environment": {func(i *Info) { i.Environment = "x" }, []string{"environment: terminal-test -> x"}},
		"config": {func(i *Info) {
			i.Config = json.RawMessage(`{"environment":"terminal-test","env":{"max_agent_turns":60,"agent_temperature":1.0},"openai":[{"model_name":"m"},{"model_name":"n"}]}`)
		}, []string{"env.max_agent_turns: 30 -> 60", `env.system_prompt: "<be> & good" -> (not set)`, `openai.1: (not set) -> {"model_name":"n"}`}},
		"digest alone": {func(i *Info) { i.ConfigDigest = "sha256:x" }, []string{"config digest: " + ConfigDigest(testInfo(t).Config) + " -> sha256:x"}},
		"tools": {func(i *Info) {
			tools, err := chat.NewToolset(append(testTools(t).Definitions()[:2:2], chat.ToolDefinition{Name: "todo", Description: "Keep two lists"})...)
			require.NoError(t, err)
			i.Tools = tools
		}, []string{`tools.todo.description: "Keep a list" -> "Keep two lists"`}},
	} {
		t.Run(name, func(t *testing.T) {
			info := testInfo(t)
			c.change(&info)
			_, err := Resume(dir, info)
			var changed *ConfigChangedError
			require.ErrorAs(t, err, &changed)
			require.ErrorIs(t, err, ErrConfigChanged)
			require.Equal(t, c.want, changed.Differences)
			require.ErrorContains(t, err, c.want[0])
		})
	}
	t.Run("but goes on when the digest says that nothing that counts differs", func(t *testing.T) {
		info := testInfo(t)
		info.ConfigDigest = ConfigDigest(info.Config)
		info.Config = json.RawMessage(strings.Replace(string(info.Config), `"m"`, `"m2"`, 1))
		info.Tools = nil
		run, err := resume(dir, info, testSettings())
		require.NoError(t, err)
		require.Equal(t, []string{"read_file", "terminal", "todo"}, run.Tools().Names())
		require.NoError(t, run.Close(StatusDone))
		m := run.Manifest()
		require.Equal(t, []string{`openai.0.model_name: "m" -> "m2"`}, m.Sessions[len(m.Sessions)-1].ConfigChanges)
	})
}

func TestDuplicatesAreRefused(t *testing.T) {
	dir := t.TempDir()
	run := mustCreate(t, dir)
	ctx := context.Background()
	require.NoError(t, run.Append(ctx, simple("a", 0, 0)))
	require.ErrorIs(t, run.Append(ctx, simple("a", 0, 0)), ErrDuplicate)
	sameID := simple("a", 0, 1)
	sameID.ID = "a-0-0"
	require.ErrorIs(t, run.Append(ctx, sameID), ErrDuplicate)
	invalid := simple("b", 0, 0)
	invalid.Outcome = "great"
	require.ErrorContains(t, run.Append(ctx, invalid), "unknown outcome")
	require.NoError(t, run.Append(ctx, simple("b", 0, 0)), "a refused rollout leaves its place free")

	// Of many at once with the same key exactly one is recorded.
	var wg sync.WaitGroup
	results := make([]error, 16)
	for i := range results {
		wg.Go(func() {
			r := simple("c", 0, 0)
			r.ID = fmt.Sprint("c", i)
			results[i] = run.Append(ctx, r)
		})
	}
	wg.Wait()
	recorded := 0
	for _, err := range results {
		if err == nil {
			recorded++
		} else {
			require.ErrorIs(t, err, ErrDuplicate)
		}
	}
	require.Equal(t, 1, recorded)
	require.NoError(t, run.Close(StatusDone))
	require.ErrorIs(t, run.Append(ctx, simple("z", 0, 0)), ErrClosed)
	resumed := mustResume(t, dir)
	require.ErrorIs(t, resumed.Append(ctx, simple("a", 0, 0)), ErrDuplicate)
	require.NoError(t, resumed.Close(StatusDone))
}

func TestManyWritersAtOnceAreAllRecordedInOneOrder(t *testing.T) {
	dir := t.TempDir()
	s := testSettings()
	s.memory = 64 << 10 // so small that writers wait for each other
	run, err := create(dir, testInfo(t), s)
	require.NoError(t, err)
	var wg sync.WaitGroup
	acknowledged := make(chan error, 640)
	for w := range 16 {
		wg.Go(func() {
			for i := range 20 {
				r := simple(fmt.Sprint("item", w), 0, i)
				r.Messages = append(r.Messages, chat.User(strings.Repeat("x", 5000)))
				if i%2 == 0 {
					acknowledged <- run.Append(context.Background(), r)
				} else {
					run.AppendAsync(context.Background(), r, func(err error) { acknowledged <- err })
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, run.Close(StatusDone))
	close(acknowledged)
	n := 0
	for err := range acknowledged {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 320, n)
	require.Len(t, readLines(t, filepath.Join(dir, rolloutsFile)), 320)
	checkAgreement(t, dir)
	again := mustResume(t, dir)
	require.Equal(t, run.Entries(), again.Entries())
	require.NoError(t, again.Close(StatusDone))
}

func TestAppendGivesUpWaitingForRoomWhenItsContextEnds(t *testing.T) {
	run := mustCreate(t, t.TempDir())
	require.NoError(t, run.memory.Acquire(context.Background(), run.settings.memory)) // the queue is full
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, run.Append(ctx, simple("a", 0, 0)), context.Canceled)
	run.memory.Release(run.settings.memory)
	require.NoError(t, run.Append(context.Background(), simple("a", 0, 0)))
	require.NoError(t, run.Close(StatusDone))
}

func TestARolloutLargerThanTheQueueIsRecorded(t *testing.T) {
	dir := t.TempDir()
	s := testSettings()
	s.memory = 4096
	run, err := create(dir, testInfo(t), s)
	require.NoError(t, err)
	big := simple("big", 0, 0)
	big.Messages = append(big.Messages, chat.User(strings.Repeat("y", 3<<20)))
	require.NoError(t, run.Append(context.Background(), big))
	require.NoError(t, run.Close(StatusDone))
	again := mustResume(t, dir)
	require.Equal(t, 1, again.Len())
	require.Empty(t, again.Repairs())
	require.NoError(t, again.Close(StatusDone))
}

func TestEachReadsWhileAnotherProcessWrites(t *testing.T) {
	dir := t.TempDir()
	run := mustCreate(t, dir)
	require.NoError(t, run.Append(context.Background(), simple("a", 0, 0)))
	require.NoError(t, run.Append(context.Background(), simple("b", 0, 0)))
	f, err := os.OpenFile(filepath.Join(dir, rolloutsFile), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"rollout_id":"half`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	reader, err := OpenReadOnly(dir)
	require.NoError(t, err)
	require.Equal(t, StatusRunning, reader.Manifest().Status)
	var ids []string
	collect := func(r *Rollout) error { ids = append(ids, r.ID); return nil }
	require.NoError(t, reader.Each(collect))
	require.NoError(t, reader.EachEntry(func(e Entry) error { ids = append(ids, e.ID); return nil }))
	require.NoError(t, run.Each(collect))
	require.Equal(t, []string{"a-0-0", "b-0-0", "a-0-0", "b-0-0", "a-0-0", "b-0-0"}, ids)
	stop := errors.New("enough")
	require.Equal(t, stop, reader.Each(func(*Rollout) error { return stop }))
	require.NoError(t, run.Close(StatusDone))
}

func TestReadersSeeAWholeRunWhileRolloutsAreSuperseded(t *testing.T) {
	dir := t.TempDir()
	run := mustCreate(t, dir)
	for i := range 12 {
		require.NoError(t, run.Append(context.Background(), simple("item", i, 0)))
	}
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				seen := 0
				if err := run.Each(func(*Rollout) error { seen++; return nil }); err != nil || seen == 0 {
					t.Errorf("read %d rollouts: %v", seen, err)
					return
				}
				if r, err := run.Load(Key{"item", 11, 0}); err != nil || r.Step != 11 {
					t.Errorf("load the last rollout: %v", err)
					return
				}
			}
		})
	}
	for i := range 11 {
		n, err := run.Supersede(func(e Entry) bool { return e.Step == i })
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	close(stop)
	readers.Wait()
	require.Equal(t, 1, run.Len())
	require.NoError(t, run.Close(StatusDone))
	checkAgreement(t, dir)
}

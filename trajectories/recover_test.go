package trajectories

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startedRun is a closed run with n rollouts.
func startedRun(t testing.TB, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	run := mustCreate(t, dir)
	for i := range n {
		require.NoError(t, run.Append(context.Background(), simple("item", i, 0)))
	}
	require.NoError(t, run.Close(StatusInterrupted))
	return dir
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, errors.Join(err, f.Close()))
}

func encoded(t testing.TB, r *Rollout) string {
	t.Helper()
	line, err := AppendRollout(nil, r)
	require.NoError(t, err)
	return string(line)
}

func TestATornLastLineIsRepairedAtEveryLength(t *testing.T) {
	whole := encoded(t, simple("torn", 0, 0))
	dir := startedRun(t, 2)
	path := filepath.Join(dir, rolloutsFile)
	for cut := 1; cut < len(whole); cut += 37 {
		appendTo(t, path, whole[:cut])
		run := mustResume(t, dir)
		require.Equal(t, 2, run.Len())
		require.Equal(t, []string{fmt.Sprintf("rollouts.jsonl: removed %d bytes of a rollout that was being written when the process ended", cut)}, run.Repairs())
		require.NoError(t, run.Close(StatusInterrupted))
		require.Len(t, readLines(t, path), 2)
	}
	m := mustResume(t, dir)
	sessions := m.Manifest().Sessions
	require.Empty(t, m.Repairs())
	require.NotEmpty(t, sessions[len(sessions)-2].Repairs, "what was repaired stays on record")
	require.NoError(t, m.Close(StatusDone))
}

func TestALastLineThatOnlyLacksItsNewlineIsKept(t *testing.T) {
	dir := startedRun(t, 2)
	path := filepath.Join(dir, rolloutsFile)
	appendTo(t, path, encoded(t, simple("whole", 0, 0)))
	run := mustResume(t, dir)
	require.Equal(t, 3, run.Len())
	require.Len(t, run.Repairs(), 2)
	require.NoError(t, run.Append(context.Background(), simple("next", 0, 0)))
	require.NoError(t, run.Close(StatusInterrupted))
	require.Len(t, readLines(t, path), 4)
	checkAgreement(t, dir)
}

func TestALastLineWithoutNewlineThatRepeatsAnotherIsRemoved(t *testing.T) {
	dir := startedRun(t, 2)
	appendTo(t, filepath.Join(dir, rolloutsFile), encoded(t, simple("item", 0, 0)))
	run := mustResume(t, dir)
	require.Equal(t, 2, run.Len())
	require.NoError(t, run.Close(StatusInterrupted))
}

func TestADamagedLineIsNamedAndNothingIsChanged(t *testing.T) {
	good := encoded(t, simple("good", 0, 0))
	unscored := strings.Replace(good, `"outcome":"scored"`, `"outcome":"model_error"`, 1)
	for name, c := range map[string]struct{ line, want string }{
		"not JSON":            {"garbage", "not valid JSON"},
		"zeroes":              {strings.Repeat("\x00", 100), "not valid JSON"},
		"empty":               {"", "not valid JSON"},
		"a list":              {"[1]", "not a JSON object"},
		"another object":      {`{"a":1}`, "not the record of a rollout"},
		"an unknown outcome":  {strings.Replace(good, `"scored"`, `"splendid"`, 1), `unknown outcome "splendid"`},
		"a broken step":       {strings.Replace(good, `"step":0`, `"step":"x"`, 1), `step is "x", not a number`},
		"a fractional step":   {strings.Replace(good, `"step":0`, `"step":0.5`, 1), "step is 0.5"},
		"a scored failure":    {unscored, "outcome model_error can not carry a score"},
		"no score":            {strings.Replace(good, `"score":0.0`, `"score":null`, 1), "outcome scored needs a score"},
		"a repeated rollout":  {encoded(t, simple("item", 0, 0)), "already recorded"},
		"damage in a message": {strings.Replace(good, `"content":"done"`, `"content":"do`+"\x00\x00"+`"`, 1), "not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := startedRun(t, 1)
			path := filepath.Join(dir, rolloutsFile)
			appendTo(t, path, c.line+"\n"+good+"\n{\"torn")
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			_, err = resume(dir, testInfo(t), testSettings())
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, path+" line 2: ")
			require.ErrorContains(t, err, c.want)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(before), string(after))
			reader, err := OpenReadOnly(dir)
			require.NoError(t, err)
			if name != "a repeated rollout" { // a reader keeps no index
				require.ErrorIs(t, reader.Each(func(*Rollout) error { return nil }), ErrCorrupt)
				require.ErrorIs(t, reader.EachEntry(func(Entry) error { return nil }), ErrCorrupt)
			}
		})
	}
}

func TestALineThatCanNotBeConvertedIsNamed(t *testing.T) {
	dir := startedRun(t, 1)
	broken := strings.Replace(encoded(t, simple("broken", 0, 0)), `"finished_at":"2026`, `"finished_at":"x`, 1)
	appendTo(t, filepath.Join(dir, rolloutsFile), broken+"\n")
	_, err := resume(dir, testInfo(t), testSettings())
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "rollout broken-0-0")
	require.ErrorContains(t, err, "finished_at")
	require.Len(t, readLines(t, filepath.Join(dir, rolloutsFile)), 2)
}

func TestTrajectoriesAreBroughtBackInStepWithRollouts(t *testing.T) {
	for name, damage := range map[string]func(lines []string) string{
		"missing":           func([]string) string { return "" },
		"the last is torn":  func(l []string) string { return strings.Join(l[:3], "\n") + "\n" + l[3][:200] },
		"some are missing":  func(l []string) string { return strings.Join(l[:2], "\n") + "\n" },
		"out of order":      func(l []string) string { return l[1] + "\n" + l[0] + "\n" + l[2] + "\n" + l[3] + "\n" },
		"one too many":      func(l []string) string { return strings.Join(append(l, l[3]), "\n") + "\n" },
		"zeroes at the end": func(l []string) string { return strings.Join(l[:2], "\n") + "\n" + strings.Repeat("\x00", 3000) },
		"zeroes in a line": func(l []string) string {
			return strings.Join(l[:3], "\n") + "\n" + l[3][:200] + strings.Repeat("\x00", len(l[3])-201) + "}\n"
		},
		"another byte in a line": func(l []string) string {
			return l[0] + "\n" + strings.Replace(l[1], `done"`, `dome"`, 1) + "\n" + l[2] + "\n" + l[3] + "\n"
		},
		"garbage":         func([]string) string { return "garbage\n" },
		"no newline":      func(l []string) string { return strings.Join(l, "\n") },
		"nothing to mend": func(l []string) string { return strings.Join(l, "\n") + "\n" },
	} {
		t.Run(name, func(t *testing.T) {
			dir := startedRun(t, 4)
			path := filepath.Join(dir, trajectoriesFile)
			require.NoError(t, os.WriteFile(path, []byte(damage(readLines(t, path))), 0o644))
			run := mustResume(t, dir)
			if name == "nothing to mend" {
				require.Empty(t, run.Repairs())
			} else {
				require.Len(t, run.Repairs(), 1)
			}
			require.NoError(t, run.Append(context.Background(), simple("later", 0, 0)))
			require.NoError(t, run.Close(StatusInterrupted))
			require.Len(t, readLines(t, path), 5)
			checkAgreement(t, dir)
		})
	}
}

func TestAnotherThinkOptionRewritesTheTrajectories(t *testing.T) {
	dir := startedRun(t, 2)
	path := filepath.Join(dir, trajectoriesFile)
	require.Contains(t, readLines(t, path)[0], "<think>")
	info := testInfo(t)
	info.OmitEmptyThink = true
	for range 2 {
		run, err := resume(dir, info, testSettings())
		require.NoError(t, err)
		require.NoError(t, run.Close(StatusInterrupted))
		lines := readLines(t, path)
		require.Len(t, lines, 2)
		require.NotContains(t, lines[0], "<think>")
	}
}

func TestRun_RewritesTrajectoriesWithMetadataAsText(t *testing.T) {
	dir := t.TempDir()
	run := mustCreate(t, dir)
	for i := range 3 {
		require.NoError(t, run.Append(t.Context(), described(i)))
	}
	require.NoError(t, run.Close(StatusInterrupted))
	path := filepath.Join(dir, trajectoriesFile)
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(want), `"environment":{"level":1}`)
	old := regexp.MustCompile(`"environment":\{"level":(\d)\},"verification":"\{\}"`).ReplaceAll(want, []byte(`"environment":"{\"level\":$1}"`))
	require.NotEqual(t, string(want), string(old))
	require.NoError(t, os.WriteFile(path, old, 0o644))
	run, err = resume(dir, testInfo(t), testSettings())
	require.NoError(t, err)
	require.NoError(t, run.Append(t.Context(), described(3)))
	require.NoError(t, run.Close(StatusDone))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(got), string(want)), "a column has one type in all lines")
	require.Equal(t, 4, bytes.Count(got, []byte{'\n'}))
}

func described(i int) *Rollout {
	r := simple("item", i, 0)
	r.Metadata = json.RawMessage(fmt.Sprintf(`{"level":%d}`, i))
	return r
}

func TestSupersededRolloutsMoveAndRunAgain(t *testing.T) {
	dir := t.TempDir()
	run := mustCreate(t, dir)
	ctx := context.Background()
	for i, outcome := range Outcomes() {
		r := simple(string(outcome), i, 0)
		r.Outcome = outcome
		if !outcome.Scored() {
			r.Score, r.Passed = nil, nil
		}
		require.NoError(t, run.Append(ctx, r))
	}
	again := func(e Entry) bool { return e.Outcome.Retryable() || e.Outcome == OutcomeLimit }
	n, err := run.Supersede(again)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	n, err = run.Supersede(again)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, 4, run.Len())
	checkAgreement(t, dir)
	require.Len(t, readLines(t, filepath.Join(dir, supersededFile)), 4)

	retried := simple(string(OutcomeLimit), 1, 0)
	require.NoError(t, run.Append(ctx, retried), "its place is free again")
	loaded, err := run.Load(retried.Key())
	require.NoError(t, err)
	require.Equal(t, OutcomeScored, loaded.Outcome)
	loaded, err = run.Load(Key{string(OutcomeVerifierError), 5, 0})
	require.NoError(t, err)
	require.Equal(t, OutcomeVerifierError, loaded.Outcome)
	require.NoError(t, run.Close(StatusDone))
	_, err = run.Supersede(again)
	require.ErrorIs(t, err, ErrClosed)
	checkAgreement(t, dir)

	resumed := mustResume(t, dir)
	require.Empty(t, resumed.Repairs(), "superseded lines with the id of a new one stay")
	require.Equal(t, 5, resumed.Len())
	require.NoError(t, resumed.Close(StatusDone))
	require.Len(t, readLines(t, filepath.Join(dir, supersededFile)), 4)
}

func TestAMoveThatWasKilledHalfwayIsUndone(t *testing.T) {
	dir := startedRun(t, 3)
	lines := readLines(t, filepath.Join(dir, rolloutsFile))
	old := strings.Replace(lines[0], `"model":"m"`, `"model":"n"`, 1)
	path := filepath.Join(dir, supersededFile)
	for name, tail := range map[string]string{
		"after the copy":  lines[1] + "\n" + lines[2] + "\n",
		"within the copy": lines[1] + "\n" + lines[2][:50],
		"within a line":   lines[2][:50],
		"copied twice":    lines[1] + "\n" + lines[1] + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, []byte("a comment\n"+old+"\n"+tail), 0o644))
			run := mustResume(t, dir)
			require.Len(t, run.Repairs(), 1)
			require.NoError(t, run.Close(StatusInterrupted))
			require.Equal(t, []string{"a comment", old}, readLines(t, path))
			require.Len(t, readLines(t, filepath.Join(dir, rolloutsFile)), 3)
		})
	}
}

func TestLeftTemporaryFilesAreRemovedOnResume(t *testing.T) {
	dir := startedRun(t, 1)
	for _, name := range []string{manifestFile, rolloutsFile, metricsFile} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+temporarySuffix), []byte("half"), 0o644))
	}
	require.NoError(t, mustResume(t, dir).Close(StatusDone))
	left, err := filepath.Glob(filepath.Join(dir, "*"+temporarySuffix))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestASessionThatWasKilledIsOnRecord(t *testing.T) {
	dir := startedRun(t, 1)
	m, err := readManifest(dir)
	require.NoError(t, err)
	m.Status, m.Sessions[0].Status, m.Sessions[0].EndedAt = StatusRunning, StatusRunning, ""
	require.NoError(t, m.write(dir))
	run := mustResume(t, dir)
	require.Equal(t, statusKilled, run.Manifest().Sessions[0].Status)
	require.NoError(t, run.Close(StatusDone))
}

func TestResume_RefusesARecordThatLostFinishedRollouts(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(lines []string) string
		want   string
	}{
		"cut within a line":      {func(l []string) string { return l[0] + "\n" + l[1][:len(l[1])/2] }, "the file was cut, and 3 of the 4 finished rollouts"},
		"cut at a newline":       {func(l []string) string { return l[0] + "\n" }, "the file was cut, and 3 of the 4 finished rollouts"},
		"cut before a newline":   {func(l []string) string { return l[0] + "\n" + l[1] }, "the file was cut, and 2 of the 4 finished rollouts"},
		"emptied":                {func([]string) string { return "" }, "the file was cut, and 4 of the 4 finished rollouts"},
		"a line taken away":      {func(l []string) string { return l[0] + "\n" + l[2] + "\n" + l[3] + "\n" }, "jsonl: 1 of the 4 finished rollouts"},
		"cut in the first of it": {func(l []string) string { return l[0][:100] }, "the file was cut, and 4 of the 4 finished rollouts"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := startedRun(t, 4)
			path, view := filepath.Join(dir, rolloutsFile), filepath.Join(dir, trajectoriesFile)
			damaged := c.damage(readLines(t, path))
			require.NoError(t, os.WriteFile(path, []byte(damaged), 0o644))
			before, err := os.ReadFile(view)
			require.NoError(t, err)
			for range 2 {
				_, err = resume(dir, testInfo(t), testSettings())
				require.ErrorIs(t, err, ErrCorrupt)
				require.ErrorContains(t, err, c.want)
				require.ErrorContains(t, err, "--allow-missing-rollouts")
			}
			after, err := os.ReadFile(view)
			require.NoError(t, err)
			require.Equal(t, string(before), string(after))
			kept, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, damaged, string(kept))
			info := testInfo(t)
			info.AllowMissing = true
			run, err := resume(dir, info, testSettings())
			require.NoError(t, err)
			require.Contains(t, run.Repairs()[0]+run.Repairs()[min(1, len(run.Repairs())-1)], "they run again")
			require.NoError(t, run.Close(StatusInterrupted))
			checkAgreement(t, dir)
			require.NoError(t, mustResume(t, dir).Close(StatusInterrupted))
		})
	}
}

package trajectories

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func dropped(step int, reason string) GroupDecision {
	return GroupDecision{Step: step, ItemID: "item <é>", Reason: reason, Text: "because \"" + reason + "\"", Rollouts: []string{"a", "b"}, Rules: "r1"}
}

func openDecisions(t *testing.T, run *Run) *GroupDecisions {
	t.Helper()
	d, err := run.OpenGroupDecisions()
	require.NoError(t, err)
	return d
}

func TestTheLastDecisionAboutAGroupHolds(t *testing.T) {
	dir := t.TempDir()
	run := mustCreate(t, dir)
	d := openDecisions(t, run)
	partial := GroupDecision{Step: 2, ItemID: "x", Kept: true, Rollouts: []string{"c"}, Rules: "r1", LeftOut: []LeftOut{{1, "too_long", "9 tokens"}, {3, "too_long", "8 tokens"}}}
	back := GroupDecision{Step: 1, ItemID: "item <é>", Kept: true, Rollouts: []string{"a", "b"}, Rules: "r2"}
	for _, decision := range []GroupDecision{dropped(0, "equal_scores"), dropped(1, "missing_member"), partial, dropped(3, "equal_scores"), back} {
		require.NoError(t, d.Record(decision))
	}
	want := GroupCounts{Dropped: map[string]int{"equal_scores": 2}, LeftOut: map[string]int{"too_long": 2}}
	require.Equal(t, want, d.Counts())
	check := func(d *GroupDecisions) {
		require.True(t, d.Stands(0, []string{"a", "b"}, "r1"))
		require.False(t, d.Stands(0, []string{"a", "c"}, "r1"), "another rollout is another group")
		require.False(t, d.Stands(0, []string{"a", "b"}, "r2"), "other rules may decide otherwise")
		require.False(t, d.Stands(1, []string{"a", "b"}, "r2"), "it was taken back")
		require.False(t, d.Stands(2, []string{"c"}, "r1"), "it was kept")
		require.False(t, d.Stands(9, nil, "r1"))
		require.True(t, d.Has(2))
		require.False(t, d.Has(9))
	}
	check(d)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.Record(dropped(7, "x")), ErrClosed)
	require.NoError(t, run.Close(StatusInterrupted))

	run = mustResume(t, dir)
	d = openDecisions(t, run)
	check(d)
	require.Equal(t, want, d.Counts())
	require.NoError(t, d.Close())
	require.NoError(t, run.Close(StatusDone))

	reader, err := OpenReadOnly(dir)
	require.NoError(t, err)
	var list []GroupDecision
	require.NoError(t, reader.GroupDecisions(func(d GroupDecision) error { list = append(list, d); return nil }))
	require.Equal(t, []GroupDecision{dropped(0, "equal_scores"), back, partial, dropped(3, "equal_scores")}, list)
	counts, err := reader.GroupCounts()
	require.NoError(t, err)
	require.Equal(t, want, counts)
	stop := errors.New("stop")
	require.ErrorIs(t, reader.GroupDecisions(func(GroupDecision) error { return stop }), stop)
}

func TestARunWithoutDecisionsHasNone(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, mustCreate(t, dir).Close(StatusDone))
	reader, err := OpenReadOnly(dir)
	require.NoError(t, err)
	counts, err := reader.GroupCounts()
	require.NoError(t, err)
	require.Empty(t, counts.Dropped)
	require.NoError(t, reader.GroupDecisions(func(GroupDecision) error { return errors.New("none") }))
}

func TestADecisionNotToBeReliedOnNeverStands(t *testing.T) {
	run := mustCreate(t, t.TempDir())
	d := openDecisions(t, run)
	decision := dropped(0, "environment_error")
	decision.Rules = ""
	require.NoError(t, d.Record(decision))
	require.False(t, d.Stands(0, decision.Rollouts, ""))
	require.NoError(t, d.Close())
	require.NoError(t, run.Close(StatusDone))
}

func TestATornDecisionIsRemovedAndADamagedOneNamed(t *testing.T) {
	whole := string(droppedLine()) + "\n"
	for name, c := range map[string]struct {
		content string
		left    string // of the file
		want    string // of the error
	}{
		"torn":             {whole + `{"step":1,"item_i`, whole, ""},
		"zeroes":           {whole + "\x00\x00\x00", whole, ""},
		"torn at once":     {`{"ste`, "", ""},
		"no JSON":          {whole + "{\n" + whole, "", "group_decisions.jsonl line 2: not a JSON object"},
		"no step":          {`{"kept":true}` + "\n", "", "the step is (not set)"},
		"half a step":      {`{"step":1.5,"kept":true}` + "\n", "", "the step is 1.5"},
		"neither":          {`{"step":1}` + "\n", "", "kept is (not set)"},
		"without a reason": {`{"step":1,"kept":false}` + "\n", "", "without a reason"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			run := mustCreate(t, dir)
			path := filepath.Join(dir, decisionsFile)
			require.NoError(t, os.WriteFile(path, []byte(c.content), 0o644))
			d, err := run.OpenGroupDecisions()
			if c.want != "" {
				require.ErrorIs(t, err, ErrCorrupt)
				require.ErrorContains(t, err, c.want)
				require.NoError(t, run.Close(StatusFailed))
				return
			}
			require.NoError(t, err)
			require.NoError(t, d.Record(dropped(5, "equal_scores")))
			require.NoError(t, d.Close())
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(content), c.left))
			require.Equal(t, strings.Count(c.left, "\n")+1, strings.Count(string(content), "\n"))
			require.NoError(t, run.Close(StatusDone))
		})
	}
}

func droppedLine() []byte {
	d := dropped(0, "equal_scores")
	return d.append(nil)
}

func TestADecisionThatTheDiskRefusesIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	s := testSettings()
	s.open = func(path string) (appendFile, error) {
		f, err := openAppend(path)
		if err != nil || !strings.HasSuffix(path, decisionsFile) {
			return f, err
		}
		return &refusing{appendFile: f}, nil
	}
	run, err := create(dir, testInfo(t), s)
	require.NoError(t, err)
	d := openDecisions(t, run)
	require.NoError(t, d.Record(dropped(0, "equal_scores")))
	require.ErrorIs(t, d.Record(dropped(1, "equal_scores")), ErrFailed)
	require.ErrorIs(t, d.Record(dropped(2, "equal_scores")), ErrFailed)
	require.False(t, d.Has(1))
	require.NoError(t, d.Close())
	require.Len(t, readLines(t, filepath.Join(dir, decisionsFile)), 1)
	require.NoError(t, run.Close(StatusFailed))
}

// refusing writes half of the second line.
type refusing struct {
	appendFile
	lines int
}

func (f *refusing) Write(p []byte) (int, error) {
	if f.lines++; f.lines < 2 {
		return f.appendFile.Write(p)
	}
	n, err := f.appendFile.Write(p[:len(p)/2])
	return n, errors.Join(err, syscall.ENOSPC)
}

func FuzzDecisionsAreReadBackOrRefused(f *testing.F) {
	d := dropped(3, "too_long")
	d.LeftOut = []LeftOut{{Attempt: 1, Reason: "r", Text: "t"}}
	f.Add(d.append(nil))
	f.Add([]byte(`{"step":1,"kept":true}`))
	f.Add([]byte(`{"step":-1,"kept":false,"reason":"x","left_out":3,"rollouts":{"a":[]}}`))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, line []byte) {
		d, err := decodeDecision(line)
		if err != nil {
			return
		}
		again, err := decodeDecision(d.append(nil))
		require.NoError(t, err)
		if d.Kept { // a kept group has no reason
			d.Reason, d.Text = "", ""
		}
		require.Equal(t, string(d.append(nil)), string(again.append(nil)))
	})
}

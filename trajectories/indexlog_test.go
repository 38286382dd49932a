package trajectories

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// fillFields gives every field below v a value that no other field has.
func fillFields(t *testing.T, v reflect.Value, next *int) {
	t.Helper()
	*next++
	if v.CanAddr() && !v.CanSet() {
		v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillFields(t, v.Field(i), next)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillFields(t, v.Elem(), next)
	case reflect.String:
		v.SetString(strings.Repeat("x", *next))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Float64:
		v.SetFloat(float64(*next) + 0.1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillFields(t, v.Index(i), next)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(maxTestLimits - 1))
	default:
		t.Fatalf("a field of type %s", v.Type())
	}
}

func TestAFrameKeepsEveryFieldOfItsEntries(t *testing.T) {
	next := 100
	var full Entry
	fillFields(t, reflect.ValueOf(&full).Elem(), &next)
	full.offset, full.segment = 0, 0
	bare := Entry{Key: Key{ItemID: "i"}, ID: "r", Outcome: OutcomeCancelled, length: 5}
	f := indexFrame{rollouts: span{full.length + bare.length + 2, 1}, view: span{7, 2}, entries: []Entry{full, bare}}
	r := &frameReader{rest: append(f.append(nil), f.append(nil)...), texts: map[string]string{}}
	for range 2 {
		got, err := r.next()
		require.NoError(t, err)
		require.Equal(t, f, got)
	}
	require.Empty(t, r.rest)
}

// resumedFrom opens a run and says how many of its rollouts the index file gave.
func resumedFrom(t *testing.T, dir string) (run *Run, indexed int) {
	t.Helper()
	run = mustResume(t, dir)
	return run, run.known.entries
}

func TestAResumeParsesOnlyWhatTheIndexDoesNotKnow(t *testing.T) {
	dir := startedRun(t, 5)
	index := filepath.Join(dir, indexFile)
	whole, err := os.ReadFile(index)
	require.NoError(t, err)
	check := func(name string, indexed int) {
		t.Helper()
		run, known := resumedFrom(t, dir)
		require.Equal(t, indexed, known, name)
		require.Equal(t, 5, run.Len(), name)
		require.Empty(t, run.Repairs(), name)
		for i := range 5 {
			r, err := run.Load(Key{"item", i, 0})
			require.NoError(t, err, name)
			require.Equal(t, simple("item", i, 0).ID, r.ID)
		}
		require.NoError(t, run.Close(StatusInterrupted))
		checkAgreement(t, dir)
		run, known = resumedFrom(t, dir)
		require.Equal(t, 5, known, "%s: the index was brought up to date", name)
		require.NoError(t, run.Close(StatusInterrupted))
	}
	check("whole", 5)
	for cut := 0; cut < len(whole); cut += 83 {
		require.NoError(t, os.WriteFile(index, whole[:cut], 0o644))
		run, known := resumedFrom(t, dir)
		require.Less(t, known, 5)
		require.Equal(t, 5, run.Len())
		require.NoError(t, run.Close(StatusInterrupted))
	}
	check("cut", 5)
	require.NoError(t, os.Remove(index))
	check("missing", 0)
	require.NoError(t, os.WriteFile(index, append([]byte("hermes-env rollouts index 0\n"), whole[len(indexHeader):]...), 0o644))
	check("of another version", 0)
	require.NoError(t, os.WriteFile(index, bytes.Repeat([]byte{0}, 3*len(whole)), 0o644))
	check("zeroes after a power cut", 0)
	require.NoError(t, os.WriteFile(index, append(bytes.Clone(whole), "garbage"...), 0o644))
	check("with garbage at its end", 5)
	other, err := os.ReadFile(filepath.Join(startedRun(t, 9), indexFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(index, other, 0o644))
	_, err = resume(dir, testInfo(t), testSettings())
	require.ErrorContains(t, err, "4 of the 9 finished rollouts", "of a longer run that began alike")
	require.NoError(t, os.Remove(index))
	require.NoError(t, os.Mkdir(index, 0o755))
	run, known := resumedFrom(t, dir)
	require.Zero(t, known)
	require.Equal(t, 5, run.Len(), "a run goes on without an index")
	require.NoError(t, run.Append(context.Background(), simple("more", 0, 0)))
	require.NoError(t, run.Close(StatusInterrupted))
}

func TestALineChangedByHandIsReadAgain(t *testing.T) {
	dir := startedRun(t, 4)
	path := filepath.Join(dir, rolloutsFile)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(content), "\n")
	require.Contains(t, lines[2], `"score":0.0`)
	lines[2] = strings.Replace(lines[2], `"score":0.0`, `"score":0.7`, 1)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644))
	run, known := resumedFrom(t, dir)
	require.Equal(t, 2, known)
	entry, ok := run.Lookup(Key{"item", 2, 0})
	require.True(t, ok)
	require.InDelta(t, 0.7, *entry.Score, 0)
	require.NoError(t, run.Close(StatusInterrupted))
	run, known = resumedFrom(t, dir)
	require.Equal(t, 4, known)
	require.NoError(t, run.Close(StatusInterrupted))

	// A line that is damaged is found, whatever the index says.
	lines[1] = strings.Replace(lines[1], `"content":"done"`, `"content":"do`+"\x00\x00"+`"`, 1)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644))
	_, err = resume(dir, testInfo(t), testSettings())
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "line 2: not valid JSON")
}

func TestLinesTakenAwayByHandAreGone(t *testing.T) {
	dir := startedRun(t, 4)
	path := filepath.Join(dir, rolloutsFile)
	lines := readLines(t, path)
	require.NoError(t, os.WriteFile(path, []byte(lines[0]+"\n"+lines[1]+"\n"), 0o644))
	info := testInfo(t)
	info.AllowMissing = true
	run, err := resume(dir, info, testSettings())
	require.NoError(t, err)
	require.Equal(t, []string{
		"rollouts.jsonl: the file was cut, and 2 of the 4 finished rollouts that rollouts.index knows are gone; they run again",
		"trajectories.jsonl: kept 2 lines, wrote 0 again from rollouts.jsonl",
	}, run.Repairs())
	require.Equal(t, 2, run.Len())
	require.NoError(t, run.Append(context.Background(), simple("item", 3, 0)))
	require.NoError(t, run.Close(StatusInterrupted))
	checkAgreement(t, dir)
	run, known := resumedFrom(t, dir)
	require.Equal(t, 3, known)
	require.NoError(t, run.Close(StatusInterrupted))
}

func TestTheIndexFollowsARewrite(t *testing.T) {
	dir := startedRun(t, 6)
	run := mustResume(t, dir)
	n, err := run.Supersede(func(e Entry) bool { return e.Step == 1 || e.Step == 4 })
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.NoError(t, run.Append(context.Background(), simple("item", 1, 0)))
	require.NoError(t, run.Close(StatusInterrupted))
	run, known := resumedFrom(t, dir)
	require.Equal(t, 5, known)
	require.Empty(t, run.Repairs())
	require.NoError(t, run.Close(StatusInterrupted))
	checkAgreement(t, dir)
}

func TestADiskThatRefusesTheIndexCostsNothing(t *testing.T) {
	for name, disk := range map[string]*faultyDisk{
		"from the start": {suffix: indexFile, room: 0, writeErr: syscall.ENOSPC},
		"later":          {suffix: indexFile, room: 700, writeErr: syscall.ENOSPC},
		"no cutting":     {suffix: indexFile, room: -1, truncErr: syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dir := filepath.Join(base, "run")
			s := testSettings()
			s.open = disk.open
			run, err := create(dir, testInfo(t), s)
			require.NoError(t, err)
			acknowledged, refusal := fill(t, run, base)
			require.NoError(t, refusal)
			require.Len(t, acknowledged, 8)
			require.NoError(t, run.Close(StatusDone))
			again, known := resumedFrom(t, dir)
			require.Less(t, known, 8)
			require.Equal(t, 8, again.Len())
			require.NoError(t, again.Close(StatusDone))
			again, known = resumedFrom(t, dir)
			require.Equal(t, 8, known)
			require.NoError(t, again.Close(StatusDone))
		})
	}
}

func FuzzFrames(f *testing.F) {
	frame := indexFrame{rollouts: span{6, 1}, view: span{7, 2}, entries: []Entry{{Key: Key{ItemID: "i"}, ID: "r", length: 5, Score: pointer(1.0), Passed: pointer(true)}}}
	f.Add(frame.append(nil))
	frame.entries[0].Tampering = &TamperingKinds{Active: []string{"signal"}, Noted: []string{"replaced", "startup"}, Acted: true}
	f.Add(frame.append(nil))
	f.Add(append(frame.append(nil), frame.append(nil)[:30]...))
	f.Add([]byte{5, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, content []byte) {
		r := &frameReader{rest: content, texts: map[string]string{}}
		for len(r.rest) > 0 {
			before := len(r.rest)
			got, err := r.next()
			if err != nil {
				require.Len(t, r.rest, before, "a frame that is none takes nothing")
				break
			}
			var size int64
			for _, e := range got.entries {
				size += e.length + 1
			}
			require.Equal(t, got.rollouts.length, size)
			again := &frameReader{rest: got.append(nil), texts: map[string]string{}}
			same, err := again.next()
			require.NoError(t, err)
			require.Equal(t, len(got.entries), len(same.entries))
		}
	})
}

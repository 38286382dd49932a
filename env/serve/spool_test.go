package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestIntervalsAreTheSetOfWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set intervals
		known := map[int64]bool{}
		for _, n := range rapid.SliceOfN(rapid.Int64Range(0, 40), 0, 60).Draw(t, "numbers") {
			set.add(n)
			known[n] = true
		}
		for n := int64(-1); n <= 42; n++ {
			require.Equal(t, known[n], set.has(n), "%d in %v", n, set)
		}
		for i := 1; i < len(set); i++ {
			require.Greater(t, set[i][0], set[i-1][1]+1, "runs neither overlap nor touch: %v", set)
		}
	})
}

// copied returns a copy of a directory: what a process killed now leaves behind.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

func parcel(step int) Parcel {
	return Parcel{Step: step, ItemID: fmt.Sprint("item ", step), Key: fmt.Sprint("key-", step), Sequences: 2, Tokens: 10}
}

func data(step int) []byte { return fmt.Appendf(nil, "group %d %0200d", step, step) }

func TestASpoolRemembersWhatWasAddedSentAndRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := openSpool(dir, 0)
	require.NoError(t, err)
	for step := range 5 {
		require.NoError(t, s.add(parcel(step), data(step)))
	}
	require.ErrorContains(t, s.add(parcel(3), data(3)), "the group of step 3 is there already")
	require.NoError(t, s.record(&spoolEvent{Op: opSent, Step: 1}))
	require.NoError(t, s.record(&spoolEvent{Op: opRefused, Step: 2}))
	require.NoError(t, s.record(&spoolEvent{Op: opAssign, Step: 3, Identity: &Identity{EnvID: 7, Generation: "g"}}))
	require.NoError(t, s.record(&spoolEvent{Op: opStep, Step: 12}))
	run := s.run()

	killed, err := openSpool(copied(t, dir), 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, killed.close()) }()
	require.NoError(t, s.close())
	require.Equal(t, run, killed.run())
	pending, sent, refused := killed.counts()
	require.Equal(t, 3, pending)
	require.Equal(t, Tally{1, 2, 10}, sent)
	require.Equal(t, Tally{1, 2, 10}, refused)
	for step := range 5 {
		require.True(t, killed.has(step))
	}
	require.False(t, killed.has(5))
	var steps []int
	for _, p := range killed.take(10) {
		steps = append(steps, p.Step)
		content, err := killed.read(p)
		require.NoError(t, err)
		require.Equal(t, data(p.Step), content)
		if p.Step == 3 {
			require.Equal(t, &Identity{EnvID: 7, Generation: "g"}, p.Sender)
		}
	}
	require.Equal(t, []int{0, 3, 4}, steps, "the oldest first")
	require.Empty(t, killed.take(10), "what is being sent is not taken again")
	killed.giveBack(parcel(3))
	require.Len(t, killed.take(10), 1)
	killed.look(func(state *spoolState) { require.EqualValues(t, 12, *state.Step) })
}

func TestASpoolLetsGoOfWhatWasSent(t *testing.T) {
	dir := t.TempDir()
	s, err := openSpool(dir, 4<<10)
	require.NoError(t, err)
	const kept = 17 // stays unsent while hundreds of others come and go
	for step := range 400 {
		require.NoError(t, s.add(parcel(step), data(step)))
		if step != kept {
			require.NoError(t, s.record(&spoolEvent{Op: opSent, Step: int64(step)}))
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(files), 4, "the newest, the one before and the one with the unsent group")
	require.NoError(t, s.close())

	s, err = openSpool(dir, 4<<10)
	require.NoError(t, err)
	list := s.take(2)
	require.Len(t, list, 1)
	content, err := s.read(list[0])
	require.NoError(t, err)
	require.Equal(t, data(kept), content)
	_, sent, _ := s.counts()
	require.EqualValues(t, 399, sent.Groups)
	s.look(func(state *spoolState) { require.Equal(t, intervals{{0, 399}}, state.Taken) })
	require.NoError(t, s.record(&spoolEvent{Op: opSent, Step: kept}))
	for step := 400; step < 500; step++ {
		require.NoError(t, s.add(parcel(step), data(step)))
		require.NoError(t, s.record(&spoolEvent{Op: opSent, Step: int64(step)}))
	}
	files, err = filepath.Glob(filepath.Join(dir, "*.journal"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(files), 2)
	require.NoError(t, s.close())
}

func TestTwoProcessesDoNotShareASpool(t *testing.T) {
	dir := t.TempDir()
	s, err := openSpool(dir, 0)
	require.NoError(t, err)
	_, err = openSpool(dir, 0)
	require.ErrorContains(t, err, "another process uses the state directory")
	require.NoError(t, s.close())
}

func TestASpoolOfMissingFilesIsAnErrorThatSaysSo(t *testing.T) {
	dir := t.TempDir()
	s, err := openSpool(dir, 2<<10)
	require.NoError(t, err)
	for step := range 30 {
		require.NoError(t, s.add(parcel(step), data(step)))
	}
	require.NoError(t, s.close())
	require.NoError(t, os.Remove(filepath.Join(dir, "00000001.journal")))
	_, err = openSpool(dir, 2<<10)
	require.ErrorContains(t, err, "the data of the group of step 0 is missing: a file of the spool is gone")
}

func FuzzASnapshotOfForeignBytesNeverPanics(f *testing.F) {
	f.Add([]byte(`{"run":"a","taken":[[0,3]],"pending":[{"step":1,"key":"k","place":{"at":0,"len":1,"check":0}}]}`))
	f.Add([]byte(`{"taken":[[3,0]],"pending":[null]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, snapshot []byte) {
		s, err := restoreSpool(snapshot)
		if err != nil {
			return
		}
		s.Taken.add(2)
		require.True(t, s.Taken.has(2))
	})
}

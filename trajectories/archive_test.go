package trajectories

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// archivedRun is a run whose record has been archived several times, and how many
// rollouts it has.
func archivedRun(t *testing.T, dir string, c ArchiveConfig) (run *Run, n int) {
	t.Helper()
	run = mustCreate(t, dir)
	require.NoError(t, run.Archive(c))
	n = 60
	for i := range n {
		require.NoError(t, run.Append(context.Background(), simple("item", i, 0)))
	}
	settle(t, run)
	require.Greater(t, len(run.segments), 3)
	return run, n
}

// settle waits for the writer, which archives after it has acknowledged.
func settle(t *testing.T, run *Run) {
	t.Helper()
	require.NoError(t, run.exclusive(func() error { return nil }))
}

// checkArchived checks that a run knows, reads and refuses n rollouts.
func checkArchived(t *testing.T, run *Run, n int) {
	t.Helper()
	require.Equal(t, n, run.Len())
	entries := run.Entries()
	require.Len(t, entries, n)
	for i := range n {
		want := simple("item", i, 0)
		require.Equal(t, want.ID, entries[i].ID)
		got, err := run.Load(want.Key())
		require.NoError(t, err)
		require.Equal(t, want.ID, got.ID)
		entry, ok := run.Lookup(want.Key())
		require.True(t, ok)
		require.Equal(t, want.ID, entry.ID)
		require.ErrorIs(t, run.Append(context.Background(), want), ErrDuplicate)
	}
	seen := 0
	require.NoError(t, run.Each(func(r *Rollout) error {
		require.Equal(t, seen, r.Step)
		seen++
		return nil
	}))
	require.Equal(t, n, seen)
	require.Equal(t, n, run.Spent().Recorded)
}

func TestRun_ArchivesOlderRolloutsAndStillKnowsThem(t *testing.T) {
	dir := t.TempDir()
	run, n := archivedRun(t, dir, ArchiveConfig{SegmentBytes: 8 << 10})
	checkArchived(t, run, n)
	require.NoError(t, run.Close(StatusInterrupted))
	size := sizeOf(t, filepath.Join(dir, rolloutsFile))
	require.Less(t, size, int64(8<<10))

	reader, err := OpenReadOnly(dir)
	require.NoError(t, err)
	seen, loaded := 0, 0
	require.NoError(t, reader.Each(func(r *Rollout) error {
		require.Equal(t, seen, r.Step)
		seen++
		return nil
	}))
	require.NoError(t, reader.EachEntry(func(e Entry) error {
		r, err := reader.Load(e)
		require.NoError(t, err)
		require.Equal(t, loaded, r.Step)
		loaded++
		return nil
	}))
	require.Equal(t, []int{n, n}, []int{seen, loaded})
	files, err := RecordFiles(dir)
	require.NoError(t, err)
	require.Len(t, files, len(run.segments)+1)

	run = mustResume(t, dir)
	require.Empty(t, run.Repairs())
	checkArchived(t, run, n)
	require.NoError(t, run.Archive(ArchiveConfig{SegmentBytes: 8 << 10}))
	for i := n; i < n+20; i++ {
		require.NoError(t, run.Append(context.Background(), simple("item", i, 0)))
	}
	checkArchived(t, run, n+20)
	require.NoError(t, run.Close(StatusDone))
}

func TestRun_EmptiesARecordThatAKillLeftBesideItsSegment(t *testing.T) {
	dir := t.TempDir()
	run, n := archivedRun(t, dir, ArchiveConfig{SegmentBytes: 8 << 10})
	require.NoError(t, run.Archive(ArchiveConfig{SegmentBytes: 1})) // nothing is left in rollouts.jsonl
	last := run.segments[len(run.segments)-1]
	require.NoError(t, run.Close(StatusInterrupted))
	lines, err := openSegment(dir, last.number)
	require.NoError(t, err)
	content, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, lines.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, rolloutsFile), content, 0o644))

	reader, err := OpenReadOnly(dir)
	require.NoError(t, err)
	seen := 0
	require.NoError(t, reader.EachEntry(func(Entry) error { seen++; return nil }))
	require.NoError(t, reader.Each(func(*Rollout) error { seen++; return nil }))
	require.Equal(t, 2*n, seen, "a reader does not see them twice")

	run = mustResume(t, dir)
	require.Len(t, run.Repairs(), 1)
	checkArchived(t, run, n)
	require.NoError(t, run.Close(StatusInterrupted))

	// Lines of a segment whose index a kill came before are of no account.
	require.NoError(t, os.WriteFile(segmentLines(dir, last.number+1), []byte("torn"), 0o644))
	run = mustResume(t, dir)
	require.NoError(t, run.Append(context.Background(), simple("item", n, 0)))
	require.NoError(t, run.Archive(ArchiveConfig{SegmentBytes: 1}))
	checkArchived(t, run, n+1)
	require.NoError(t, run.Close(StatusInterrupted))

	// Damage is found, and nothing is changed.
	require.NoError(t, os.WriteFile(filepath.Join(dir, rolloutsFile), content[:len(content)/2], 0o644))
	_, err = resume(dir, testInfo(t), testSettings())
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestRun_DropsConversationsOfSegmentsBySizeAndAge(t *testing.T) {
	dir := t.TempDir()
	run, n := archivedRun(t, dir, ArchiveConfig{SegmentBytes: 8 << 10, MaxBytes: 1})
	require.NoError(t, run.Append(context.Background(), simple("item", n, 0)))
	n++
	require.Len(t, run.Entries(), n, "what is known of the rollouts stays")
	_, err := run.Load(Key{"item", 0, 0})
	require.ErrorIs(t, err, os.ErrNotExist)
	recorded, same := run.Recorded(Key{"item", 0, 0}, "sha256:1")
	require.True(t, recorded && same)
	require.ErrorIs(t, run.Append(context.Background(), simple("item", 0, 0)), ErrDuplicate)
	require.NoError(t, run.Close(StatusInterrupted))
	files, err := RecordFiles(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)

	run = mustResume(t, dir)
	require.Equal(t, n, run.Len())
	require.NoError(t, run.Archive(ArchiveConfig{SegmentBytes: 1}))
	files, err = RecordFiles(dir)
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.NoError(t, os.Chtimes(files[0], fixedTime, fixedTime.Add(-2*time.Hour)))
	require.NoError(t, run.Archive(ArchiveConfig{SegmentBytes: 1 << 30, MaxAge: time.Hour}))
	require.NoError(t, run.Close(StatusInterrupted))
	files, err = RecordFiles(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
}

func TestRun_ReadsSegmentsWhoseIndexIsOfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	run, n := archivedRun(t, dir, ArchiveConfig{SegmentBytes: 8 << 10})
	require.NoError(t, run.Close(StatusInterrupted))
	require.NoError(t, os.WriteFile(segmentIndex(dir, 2), []byte("hermes-env rollouts index 0\n"), 0o644))
	run = mustResume(t, dir)
	checkArchived(t, run, n)
	require.NoError(t, run.Close(StatusInterrupted))
	require.NoError(t, os.Remove(segmentLines(dir, 2)))
	_, err := resume(dir, testInfo(t), testSettings())
	require.ErrorContains(t, err, "of another version")
}

func TestRun_SupersedesOnlyWhatIsNotArchived(t *testing.T) {
	dir := t.TempDir()
	run, n := archivedRun(t, dir, ArchiveConfig{SegmentBytes: 8 << 10})
	require.NoError(t, run.Append(context.Background(), simple("item", n, 0)))
	settle(t, run)
	current := run.index.n - run.index.base
	require.Positive(t, current)
	dropped, err := run.Supersede(func(e Entry) bool { return e.Step%2 == n%2 })
	require.NoError(t, err)
	require.Equal(t, (current+1)/2, dropped)
	require.Equal(t, n+1-dropped, run.Len())
	_, ok := run.Lookup(Key{"item", n, 0})
	require.False(t, ok)
	again := simple("item", n, 0)
	again.ID = "again"
	require.NoError(t, run.Append(context.Background(), again))
	require.NoError(t, run.Close(StatusInterrupted))
	run = mustResume(t, dir)
	require.Empty(t, run.Repairs())
	require.Equal(t, n+2-dropped, run.Len())
	require.NoError(t, run.Close(StatusDone))
}

func TestRun_LosesNothingWhenKilledWhileArchiving(t *testing.T) {
	slowtest.Require(t)
	t.Setenv(archiveVariable, "1")
	base := quickDir(t)
	random := rand.New(rand.NewPCG(3, 4))
	rollouts, groups := map[string]bool{}, map[string]bool{}
	for range slowtest.Times(40, 400) {
		acknowledge(t, base, random, rollouts, groups)
		run := mustResume(t, filepath.Join(base, childRun))
		known, keys := map[string]bool{}, map[Key]bool{}
		n := 0
		require.NoError(t, run.EachEntry(func(e Entry) error {
			require.False(t, keys[e.Key], "%v is there twice", e.Key)
			known[e.ID], keys[e.Key] = true, true
			n++
			return nil
		}))
		require.Equal(t, run.Len(), n)
		read := 0
		require.NoError(t, run.Each(func(r *Rollout) error {
			require.True(t, known[r.ID])
			read++
			return nil
		}))
		require.Equal(t, n, read)
		require.NoError(t, run.Close(StatusInterrupted))
		if _, err := os.Stat(filepath.Join(base, childRun, supersededFile)); err == nil {
			for _, line := range readLines(t, filepath.Join(base, childRun, supersededFile)) {
				known[gjson.Get(line, "rollout_id").Str] = true
			}
		}
		for id := range rollouts {
			require.True(t, known[id], "rollout %s is gone", id)
		}
	}
	numbers, err := segmentNumbers(filepath.Join(base, childRun))
	require.NoError(t, err)
	require.Greater(t, len(numbers), 5)
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

func TestRun_SaysThatTheIndexOfASegmentIsMissing(t *testing.T) {
	dir := t.TempDir()
	run, n := archivedRun(t, dir, ArchiveConfig{SegmentBytes: 8 << 10})
	gone := run.segments[1].n
	require.NoError(t, run.Close(StatusInterrupted))
	require.NoError(t, os.Remove(segmentIndex(dir, 2)))
	run = mustResume(t, dir)
	require.Equal(t, []string{"archive/000002.index was missing: wrote it again from 000002.jsonl.zst"}, run.Repairs())
	checkArchived(t, run, n)
	require.NoError(t, run.Close(StatusInterrupted))
	run = mustResume(t, dir)
	require.Empty(t, run.Repairs())
	require.NoError(t, run.Close(StatusInterrupted))

	require.NoError(t, os.Remove(segmentIndex(dir, 2)))
	require.NoError(t, os.Remove(segmentLines(dir, 2)))
	for range 2 {
		run = mustResume(t, dir)
		require.Len(t, run.Repairs(), 1)
		require.Contains(t, run.Repairs()[0], "archive/000002.index is missing, and so is 000002.jsonl.zst")
		require.Equal(t, n-gone, run.Len())
		require.NoError(t, run.Close(StatusInterrupted))
	}
}

func TestRun_CompressesTheIndexOfASegment(t *testing.T) {
	dir := t.TempDir()
	run, n := archivedRun(t, dir, ArchiveConfig{SegmentBytes: 8 << 10})
	require.NoError(t, run.Close(StatusInterrupted))
	var plain []byte
	for i := range run.segments {
		path := segmentIndex(dir, i+1)
		f, err := os.Open(path)
		require.NoError(t, err)
		stream := newFrameStream(f)
		require.NotNil(t, stream.unpacked)
		plain = []byte(indexHeader)
		for {
			frame, err := stream.next()
			if err != nil {
				break
			}
			plain = frame.append(plain)
		}
		stream.close()
		require.Less(t, sizeOf(t, path), int64(len(plain))/2)
		if i == 1 { // as earlier versions wrote it
			require.NoError(t, os.WriteFile(path, plain, 0o644))
		}
	}
	run = mustResume(t, dir)
	checkArchived(t, run, n)
	require.NoError(t, run.Close(StatusInterrupted))

	packed, err := os.ReadFile(segmentIndex(dir, 1))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(segmentIndex(dir, 1), packed[:len(packed)/2], 0o644))
	run = mustResume(t, dir)
	checkArchived(t, run, n) // from the lines
	require.NoError(t, run.Close(StatusInterrupted))
	require.NoError(t, os.Remove(segmentLines(dir, 1)))
	_, err = resume(dir, testInfo(t), testSettings())
	require.ErrorIs(t, err, ErrCorrupt)
}

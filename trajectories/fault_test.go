package trajectories

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// faultyDisk opens real files that fail where a test says so.
type faultyDisk struct {
	mu       sync.Mutex
	suffix   string // of the files that fail
	room     int    // bytes that can still be written to them; negative for no limit
	writeErr error
	syncErr  error
	truncErr error
}

func (d *faultyDisk) open(path string) (appendFile, error) {
	f, err := openAppend(path)
	if err != nil || !strings.HasSuffix(path, d.suffix) {
		return f, err
	}
	return &faultyFile{appendFile: f, disk: d}, nil
}

type faultyFile struct {
	appendFile
	disk *faultyDisk
}

func (f *faultyFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.room < 0 || f.disk.room >= len(p) {
		if f.disk.room >= 0 {
			f.disk.room -= len(p)
		}
		return f.appendFile.Write(p)
	}
	n, err := f.appendFile.Write(p[:f.disk.room])
	f.disk.room = 0
	return n, errors.Join(err, f.disk.writeErr)
}

func (f *faultyFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.syncErr != nil {
		return f.disk.syncErr
	}
	return f.appendFile.Sync()
}

func (f *faultyFile) Truncate(size int64) error {
	if f.disk.truncErr != nil {
		return f.disk.truncErr
	}
	return f.appendFile.Truncate(size)
}

func TestADiskThatFailsLosesNothingAcknowledged(t *testing.T) {
	for name, c := range map[string]struct {
		disk   *faultyDisk
		cause  error
		advice string
	}{
		"no space":                {&faultyDisk{suffix: rolloutsFile, room: 2500, writeErr: syscall.ENOSPC}, syscall.ENOSPC, "free space and run again with --resume"},
		"over quota":              {&faultyDisk{suffix: rolloutsFile, room: 2500, writeErr: syscall.EDQUOT}, syscall.EDQUOT, "free space and run again with --resume"},
		"input/output error":      {&faultyDisk{suffix: rolloutsFile, room: 2500, writeErr: syscall.EIO}, syscall.EIO, "check the disk"},
		"became read-only":        {&faultyDisk{suffix: rolloutsFile, room: 2500, writeErr: syscall.EROFS}, syscall.EROFS, "make the directory writable"},
		"sync fails":              {&faultyDisk{suffix: rolloutsFile, room: -1, syncErr: syscall.EIO}, syscall.EIO, "check the disk"},
		"no way back either":      {&faultyDisk{suffix: rolloutsFile, room: 2500, writeErr: syscall.ENOSPC, truncErr: syscall.EIO}, syscall.ENOSPC, "free space"},
		"no room for the view":    {&faultyDisk{suffix: trajectoriesFile, room: 5000, writeErr: syscall.ENOSPC}, syscall.ENOSPC, "free space"},
		"no room for the journal": {&faultyDisk{suffix: groupsFile, room: 500, writeErr: syscall.ENOSPC}, syscall.ENOSPC, "free space"},
		"no room for the groups":  {&faultyDisk{suffix: "out.jsonl", room: 1000, writeErr: syscall.ENOSPC}, syscall.ENOSPC, "free space"},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dir := filepath.Join(base, "run")
			s := testSettings()
			s.open = c.disk.open
			run, err := create(dir, testInfo(t), s)
			require.NoError(t, err)
			acknowledged, refusal := fill(t, run, base)
			require.ErrorIs(t, refusal, c.cause)
			require.ErrorIs(t, refusal, ErrFailed)
			require.ErrorContains(t, refusal, c.advice)
			inGroups := strings.Contains(name, "journal") || strings.Contains(name, "groups")
			err = run.Close(StatusDone)
			if !inGroups {
				require.ErrorIs(t, err, c.cause)
				require.Equal(t, StatusFailed, run.Manifest().Status)
				require.Contains(t, run.Manifest().Error, c.advice)
				require.ErrorIs(t, run.Append(context.Background(), simple("late", 0, 0)), ErrClosed)
			}
			if c.disk.truncErr == nil {
				require.Len(t, readLines(t, filepath.Join(dir, rolloutsFile)), len(acknowledged), "the torn part is gone at once")
			}
			// With space again everything acknowledged is there, and the rest can follow.
			again := mustResume(t, dir)
			for _, key := range acknowledged {
				_, ok := again.Lookup(key)
				require.True(t, ok, "%v", key)
			}
			_, refusal = fill(t, again, base)
			require.NoError(t, refusal)
			require.NoError(t, again.Close(StatusDone))
			require.Len(t, readLines(t, filepath.Join(dir, rolloutsFile)), 8)
			require.Len(t, readLines(t, filepath.Join(base, "out.jsonl")), 8)
			checkAgreement(t, dir)
		})
	}
}

// fill records eight rollouts and groups, those that are missing, until the disk refuses.
func fill(t *testing.T, run *Run, base string) (acknowledged []Key, refusal error) {
	t.Helper()
	groups, err := run.OpenGroups(GroupConfig{Path: filepath.Join(base, "out.jsonl")})
	require.NoError(t, err)
	defer func() { require.NoError(t, groups.Close()) }()
	for step := range 8 {
		r := simple("item", step, 0)
		r.Messages = append(r.Messages, chat.User(strings.Repeat("w", 600)))
		if _, ok := run.Lookup(r.Key()); !ok {
			if err := run.Append(context.Background(), r); err != nil {
				return acknowledged, err
			}
		}
		acknowledged = append(acknowledged, r.Key())
		if groups.Has(step) {
			continue
		}
		if err := groups.Write(Group{Step: step, Sequences: []Sequence{{Messages: r.Messages}}}); err != nil {
			return acknowledged, err
		}
	}
	return acknowledged, nil
}

// gatedFile lets a test hold up a sync and counts them.
type gatedFile struct {
	appendFile
	entered chan struct{}
	proceed chan struct{}
	syncs   int
}

func (f *gatedFile) Sync() error {
	f.syncs++
	f.entered <- struct{}{}
	<-f.proceed
	return f.appendFile.Sync()
}

func TestRolloutsThatCameInWhileTheDiskWasBusyShareOneSync(t *testing.T) {
	gate := &gatedFile{entered: make(chan struct{}), proceed: make(chan struct{})}
	s := testSettings()
	s.open = func(path string) (appendFile, error) {
		f, err := openAppend(path)
		if err != nil || !strings.HasSuffix(path, rolloutsFile) {
			return f, err
		}
		gate.appendFile = f
		return gate, nil
	}
	dir := t.TempDir()
	run, err := create(dir, testInfo(t), s)
	require.NoError(t, err)
	var acknowledged sync.WaitGroup
	record := func(i int) {
		acknowledged.Add(1)
		run.AppendAsync(context.Background(), simple("item", i, 0), func(err error) {
			if err != nil {
				t.Error(err)
			}
			acknowledged.Done()
		})
	}
	record(0)
	<-gate.entered
	for i := range 99 {
		record(1 + i)
	}
	require.Zero(t, run.Len(), "nothing counts as recorded before it is synced")
	gate.proceed <- struct{}{}
	<-gate.entered
	require.Equal(t, 1, run.Len())
	gate.proceed <- struct{}{}
	acknowledged.Wait()
	require.Equal(t, 2, gate.syncs)
	require.NoError(t, run.Close(StatusDone))
	require.Len(t, readLines(t, filepath.Join(dir, rolloutsFile)), 100)
}

func TestEveryWaitingWriterIsToldWhenTheDiskFails(t *testing.T) {
	s := testSettings()
	disk := &faultyDisk{suffix: rolloutsFile, room: 0, writeErr: syscall.ENOSPC}
	s.open = disk.open
	run, err := create(t.TempDir(), testInfo(t), s)
	require.NoError(t, err)
	var wg sync.WaitGroup
	results := make([]error, 50)
	for i := range results {
		wg.Go(func() { results[i] = run.Append(context.Background(), simple("item", i, 0)) })
	}
	wg.Wait()
	for _, err := range results {
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	_, err = run.Supersede(func(Entry) bool { return true })
	require.ErrorIs(t, err, ErrFailed)
	require.Zero(t, run.Len())
	require.ErrorIs(t, run.Close(StatusDone), ErrFailed)
}

func TestSupersedeThatFailsKeepsEveryRollout(t *testing.T) {
	for name, disk := range map[string]*faultyDisk{
		"copying": {suffix: supersededFile, room: 10, writeErr: syscall.ENOSPC},
		"syncing": {suffix: supersededFile, room: -1, syncErr: syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			dir := startedRun(t, 3)
			s := testSettings()
			s.open = disk.open
			run, err := resume(dir, testInfo(t), s)
			require.NoError(t, err)
			_, err = run.Supersede(func(e Entry) bool { return e.Step == 1 })
			require.Error(t, err)
			require.Equal(t, 3, run.Len())
			require.NoError(t, run.Append(context.Background(), simple("more", 0, 0)), "nothing was changed, so it can go on")
			require.NoError(t, run.Close(StatusDone))
			require.Empty(t, readLines(t, filepath.Join(dir, supersededFile)))
			require.Len(t, readLines(t, filepath.Join(dir, rolloutsFile)), 4)
		})
	}
}

func TestSupersedeThatCanNotRewriteTakesItsCopiesBack(t *testing.T) {
	dir := startedRun(t, 3)
	run := mustResume(t, dir)
	obstacle := filepath.Join(dir, rolloutsFile+temporarySuffix)
	require.NoError(t, os.Mkdir(obstacle, 0o755))
	first := func(e Entry) bool { return e.Step == 0 }
	_, err := run.Supersede(first)
	require.ErrorContains(t, err, "rewrite")
	require.Empty(t, readLines(t, filepath.Join(dir, supersededFile)))
	require.NoError(t, os.Remove(obstacle))
	n, err := run.Supersede(first)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, run.Close(StatusDone))
	require.Len(t, readLines(t, filepath.Join(dir, supersededFile)), 1)
	again := mustResume(t, dir)
	require.Empty(t, again.Repairs())
	require.NoError(t, again.Close(StatusDone))
}

func TestADirectoryOneMayNotWriteToIsSaidClearly(t *testing.T) {
	if os.Geteuid() == 0 {
		// The rules of permission do not bind root; a directory inside a device file does.
		_, err := Create("/dev/null/run", testInfo(t))
		require.ErrorContains(t, err, "/dev/null")
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	_, err := Create(filepath.Join(dir, "run"), testInfo(t))
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorContains(t, err, "--run-dir")
}

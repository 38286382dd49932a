package trajectories

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

func smallGroup(step int) Group {
	return Group{Step: step, Sequences: []Sequence{{Messages: []chat.Message{chat.User("x"), chat.Assistant("y", "")}}}}
}

func TestGroupsThatCameInWhileTheDiskWasBusyAreWrittenTogether(t *testing.T) {
	base := t.TempDir()
	gate := &gatedFile{entered: make(chan struct{}), proceed: make(chan struct{})}
	s := testSettings()
	s.open = func(path string) (appendFile, error) {
		f, err := openAppend(path)
		if err != nil || !strings.HasSuffix(path, "groups.jsonl") {
			return f, err
		}
		gate.appendFile = f
		return gate, nil
	}
	dir := filepath.Join(base, "run")
	run, err := create(dir, testInfo(t), s)
	require.NoError(t, err)
	w, err := run.OpenGroups(GroupConfig{Path: filepath.Join(base, "groups.jsonl")})
	require.NoError(t, err)
	var wait sync.WaitGroup
	wait.Go(func() { require.NoError(t, w.Write(smallGroup(0))) })
	<-gate.entered
	for step := 1; step < 50; step++ {
		wait.Go(func() { require.NoError(t, w.Write(smallGroup(step))) })
	}
	waitFor(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.waiting) == 49
	})
	require.Zero(t, w.Len(), "nothing counts as written before it is synced")
	require.ErrorIs(t, w.Write(smallGroup(0)), ErrDuplicate)
	require.ErrorIs(t, w.Write(smallGroup(7)), ErrDuplicate)
	gate.proceed <- struct{}{}
	<-gate.entered
	gate.proceed <- struct{}{}
	wait.Wait()
	require.Equal(t, 2, gate.syncs)
	require.Equal(t, 50, w.Len())
	require.NoError(t, w.Close())
	require.NoError(t, run.Close(StatusInterrupted))
	again := mustResume(t, dir)
	w, err = again.OpenGroups(GroupConfig{Path: filepath.Join(base, "groups.jsonl")})
	require.NoError(t, err)
	require.Equal(t, 50, w.Len())
	require.NoError(t, w.Close())
	require.NoError(t, again.Close(StatusDone))
	require.Len(t, readLines(t, filepath.Join(base, "groups.jsonl")), 50)
}

// waitFor lets other goroutines run until a condition holds.
func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	for range 100_000_000 {
		if holds() {
			return
		}
		if ended := t.Context().Err(); ended != nil {
			break
		}
		runtime.Gosched()
	}
	t.Fatal("it never came to it")
}

func TestABatchOfGroupsThatWasKilledIsKeptAsFarAsItIsWhole(t *testing.T) {
	base := quickDir(t)
	dir, path := filepath.Join(base, "run"), filepath.Join(base, "groups.jsonl")
	run := mustCreate(t, dir)
	w, err := run.OpenGroups(GroupConfig{Path: path})
	require.NoError(t, err)
	require.NoError(t, w.Write(smallGroup(0)))
	// Three groups of one commit, as goroutines that wait together make them.
	w.mu.Lock()
	for step := 1; step <= 3; step++ {
		line, err := AppendGroup(nil, smallGroup(step), false)
		require.NoError(t, err)
		line = append(line, '\n')
		w.waiting = append(w.waiting, &waitingGroup{intent: groupIntent{step: step, size: int64(len(line)), digest: fmt.Sprintf("%x", sha256.Sum256(line))}, line: line})
	}
	w.commit()
	w.mu.Unlock()
	require.NoError(t, w.Close())
	require.NoError(t, run.Close(StatusInterrupted))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	journal, err := os.ReadFile(filepath.Join(dir, groupsFile))
	require.NoError(t, err)
	first := strings.Index(string(whole), "\n") + 1
	for size := len(whole); size >= 0; size -= 1 + size%43 {
		require.NoError(t, os.WriteFile(path, whole[:size], 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, groupsFile), journal, 0o644))
		again := mustResume(t, dir)
		w, err := again.OpenGroups(GroupConfig{Path: path})
		if size < first {
			require.ErrorIs(t, err, ErrCorrupt, "the first was durable before the batch began")
			require.NoError(t, again.Close(StatusInterrupted))
			if size < first-2 {
				break
			}
			continue
		}
		require.NoError(t, err)
		require.Equal(t, strings.Count(string(whole[:size]), "\n"), w.Len())
		for step := range 4 {
			if !w.Has(step) {
				require.NoError(t, w.Write(smallGroup(step)))
			}
		}
		require.NoError(t, w.Close())
		require.NoError(t, again.Close(StatusInterrupted))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(whole), string(got))
	}
}

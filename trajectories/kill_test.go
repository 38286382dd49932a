package trajectories

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// childVariable names the directory in which this test binary, started again,
// records rollouts until it is killed.
const childVariable = "HERMES_ENV_TRAJECTORIES_CHILD"

// archiveVariable has the child archive its record.
const archiveVariable = "HERMES_ENV_TRAJECTORIES_ARCHIVE"

const (
	childRun       = "run"
	childGroups    = "groups.jsonl"
	childGroupSize = 4
)

// runChild goes on with the run in base, as the runner does: what must be run
// again is superseded, what is there is skipped, complete groups are written.
// Each acknowledgement is told on standard output.
func runChild(base string) int {
	if err := record(base); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func record(base string) error {
	tools, err := newTestTools()
	if err != nil {
		return err
	}
	dir := filepath.Join(base, childRun)
	run, err := Resume(dir, newTestInfo(tools))
	if errors.Is(err, ErrNotRun) {
		run, err = Create(dir, newTestInfo(tools))
	}
	if err != nil {
		return err
	}
	if os.Getenv(archiveVariable) != "" {
		if err := run.Archive(ArchiveConfig{SegmentBytes: 48 << 10}); err != nil {
			return err
		}
	}
	if _, err := run.Supersede(func(e Entry) bool { return e.Outcome.Retryable() }); err != nil {
		return err
	}
	groups, err := run.OpenGroups(GroupConfig{Path: filepath.Join(base, childGroups), IncludeMessages: true})
	if err != nil {
		return err
	}
	for step := 0; ; step++ {
		if err := recordStep(run, groups, step); err != nil {
			return err
		}
	}
}

func recordStep(run *Run, groups *GroupWriter, step int) error {
	var wait errgroup.Group
	for attempt := range childGroupSize {
		r := simple("item", step, attempt)
		if _, there := run.Lookup(r.Key()); there {
			continue
		}
		wait.Go(func() error {
			r.ID = fmt.Sprintf("%d-%d-%d", step, attempt, os.Getpid())
			r.Messages = append(r.Messages, chat.User(strings.Repeat("z", (step*7919+attempt*104729)%12_000)))
			if (step+attempt+os.Getpid())%7 == 0 {
				r.Outcome, r.Score, r.Passed = OutcomeModelError, nil, nil
			}
			if err := run.Append(context.Background(), r); err != nil {
				return err
			}
			_, err := fmt.Printf("rollout %s %s\n", r.ID, r.Outcome)
			return err
		})
	}
	if err := wait.Wait(); err != nil || groups.Has(step) {
		return err
	}
	g := Group{Step: step}
	for attempt := range childGroupSize {
		r, err := run.Load(Key{"item", step, attempt})
		if err != nil {
			return err
		}
		if r.Score == nil {
			return nil // incomplete: a later session completes it
		}
		g.Sequences = append(g.Sequences, Sequence{Score: *r.Score, Messages: append(r.Messages, chat.System(fmt.Sprint("step ", step)))})
	}
	if err := groups.Write(g); err != nil {
		return err
	}
	_, err := fmt.Printf("group %d\n", step)
	return err
}

func TestNothingIsLostOrDoubledWhenTheProcessIsKilledAtRandomInstants(t *testing.T) {
	slowtest.Require(t)
	base := quickDir(t) // a kill, unlike a power cut, spares what was written and not yet synced
	random := rand.New(rand.NewPCG(1, 2))
	rollouts := map[string]bool{}
	written := map[string]bool{}
	kills := slowtest.Times(12, 200)
	for range kills {
		acknowledge(t, base, random, rollouts, written)
		checkKilledRun(t, base, rollouts, written)
	}
	require.Greater(t, len(rollouts), kills)
	require.NotEmpty(t, written)
	require.NotEmpty(t, readLines(t, filepath.Join(base, childRun, supersededFile)), "superseding was not exercised")
}

// acknowledge lets a child record for a while, kills it and notes what it was told is safe.
func acknowledge(t *testing.T, base string, random *rand.Rand, rollouts, groups map[string]bool) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+base)
	var complaints strings.Builder
	child.Stderr = &complaints
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	count := random.IntN(12)
	delay := time.Duration(random.IntN(3000)) * time.Microsecond
	lines := bufio.NewScanner(out)
	killed := make(chan error, 1)
	if count == 0 { // also at the very start, before anything is recorded
		go func() { time.Sleep(10 * delay); killed <- child.Process.Kill() }()
	}
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		switch fields[0] {
		case "rollout":
			rollouts[fields[1]] = true
		case "group":
			groups[fields[1]] = true
		}
		if n == count {
			go func() { time.Sleep(delay); killed <- child.Process.Kill() }()
		}
	}
	select {
	case err := <-killed:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		require.NoError(t, child.Process.Kill())
		require.Fail(t, "the child ended by itself", complaints.String())
	}
	require.Error(t, child.Wait())
	require.Empty(t, complaints.String())
}

func checkKilledRun(t *testing.T, base string, rollouts, groups map[string]bool) {
	t.Helper()
	dir := filepath.Join(base, childRun)
	run, err := resume(dir, testInfo(t), testSettings())
	if errors.Is(err, ErrNotRun) {
		require.Empty(t, rollouts, "a run that has recorded something is a run")
		return
	}
	require.NoError(t, err)
	writer, err := run.OpenGroups(GroupConfig{Path: filepath.Join(base, childGroups), IncludeMessages: true})
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	require.NoError(t, run.Close(StatusInterrupted))
	checkAgreement(t, dir)

	lines := map[string]int{}
	for _, name := range []string{rolloutsFile, supersededFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			continue
		}
		for _, line := range readLines(t, filepath.Join(dir, name)) {
			require.True(t, gjson.Valid(line))
			lines[gjson.Get(line, "rollout_id").Str]++
		}
	}
	for id := range rollouts {
		require.Equal(t, 1, lines[id], "rollout %s", id)
	}
	for id, n := range lines {
		require.Equal(t, 1, n, "rollout %s", id)
	}
	steps := map[string]int{}
	for _, line := range readLines(t, writer.Path()) {
		require.True(t, gjson.Valid(line))
		steps[strings.TrimPrefix(gjson.Get(line, "messages.0.@reverse.0.content").Str, "step ")]++
	}
	for step, n := range steps {
		require.Equal(t, 1, n, "group %s", step)
	}
	for step := range groups {
		require.Equal(t, 1, steps[step], "group %s", step)
	}
}

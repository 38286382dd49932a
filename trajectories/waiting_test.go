package trajectories

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// unscored returns a finished conversation without a score.
func unscored(n int) *Rollout {
	return &Rollout{
		ID: fmt.Sprintf("r%d", n), ItemID: fmt.Sprintf("item-%d", n), ItemDigest: "sha256:0", Outcome: OutcomeCancelled,
		Error: &Failure{Class: ClassWaiting, Message: "waits"}, StopReason: "natural", TurnsUsed: 1, ToolCalls: 2, InvalidToolCalls: 1,
		Spend:    &Spend{Agent: Bill{Calls: 1, PromptTokens: 10}},
		Messages: []chat.Message{chat.User("q"), chat.Assistant(fmt.Sprint("answer ", n), "")},
	}
}

func waitingSegments(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, waitingDir, "*"))
	require.NoError(t, err)
	return found
}

func TestRun_KeepsConversationsWithoutScoreAcrossAKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	info := Info{Command: "evaluate", Environment: "e", Config: []byte(`{}`)}
	run, err := Create(dir, info)
	require.NoError(t, err)
	for n := range 3 {
		require.NoError(t, run.KeepWaiting(context.Background(), unscored(n)))
	}
	scored := unscored(0)
	score := 1.0
	scored.Outcome, scored.Error, scored.Score = OutcomeScored, nil, &score
	require.NoError(t, run.Append(context.Background(), scored))
	kept, err := run.Waiting(scored.Key())
	require.NoError(t, err)
	require.Nil(t, kept, "what is recorded doesn't wait")
	require.Equal(t, 1, run.Spent().Calls, "conversations count when they are recorded")

	// What a killed process leaves: no Close, and a torn line at the end.
	killed := filepath.Join(t.TempDir(), "killed")
	require.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
	require.NoError(t, run.Close(StatusDone))
	segments := waitingSegments(t, killed)
	require.Len(t, segments, 1)
	f, err := os.OpenFile(segments[0], os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"rollout_id":"r9","item_id":"it`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	run, err = Resume(killed, info)
	require.NoError(t, err)
	require.Len(t, run.WaitingKeys(), 2)
	require.Equal(t, 3, run.Spent().Calls, "what was paid counts")
	for n := 1; n < 3; n++ {
		kept, err := run.Waiting(unscored(n).Key())
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("answer ", n), kept.Messages[1].Text())
		require.Equal(t, 2, kept.ToolCalls)
		require.Equal(t, 1, kept.InvalidToolCalls)
		done := unscored(n)
		done.Outcome, done.Error, done.Score = OutcomeScored, nil, &score
		require.NoError(t, run.Append(context.Background(), done))
	}
	require.Equal(t, 3, run.Spent().Calls, "once")
	require.Empty(t, waitingSegments(t, killed), "nothing waits")
	require.NoError(t, run.Close(StatusDone))
	require.NoDirExists(t, filepath.Join(killed, waitingDir))
}

func TestRun_RemovesSegmentsOfConversationsThatAreRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run, err := Create(dir, Info{Command: "evaluate", Environment: "e", Config: []byte(`{}`)})
	require.NoError(t, err)
	score := 1.0
	long := chat.Assistant(string(make([]byte, segmentBytes/5)), "")
	for n := range 30 {
		r := unscored(n)
		r.Messages[1] = long
		require.NoError(t, run.KeepWaiting(context.Background(), r))
		if n == 7 {
			continue // never scored in this session
		}
		r.Outcome, r.Error, r.Score = OutcomeScored, nil, &score
		require.NoError(t, run.Append(context.Background(), r))
		require.LessOrEqual(t, len(waitingSegments(t, dir)), 2)
	}
	require.NoError(t, run.Close(StatusDone))
	require.Len(t, waitingSegments(t, dir), 1)
}

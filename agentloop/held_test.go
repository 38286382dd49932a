package agentloop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
)

// slowModel answers after ten seconds, with a call that is refused.
type slowModel struct{}

func (slowModel) Complete(ctx context.Context, _ *model.Request) (*model.Response, error) {
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
		return nil, &model.Error{Kind: model.KindCancelled, Err: ctx.Err()}
	}
	return &model.Response{Message: chat.Assistant("", "", chat.ToolCall{ID: "c", Name: "none", Arguments: "{}"}), FinishReason: "tool_calls"}, nil
}

func TestTheTimeLimitOfALoopDoesNotCountWaitsForARate(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration // ends a call that is under way
		elapsed time.Duration // asked for between turns
		turns   int
		reason  agentloop.StopReason
	}{
		"three turns fit into 35 seconds":          {35 * time.Second, 35 * time.Second, 3, agentloop.StopTurnLimit},
		"the third is broken off after 25 seconds": {25 * time.Second, 25 * time.Second, 3, agentloop.StopTimeLimit},
		"no third is begun after 20":               {0, 20 * time.Second, 2, agentloop.StopTimeLimit},
		"without a limit the waits are measured":   {0, 0, 3, agentloop.StopTurnLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool, err := model.NewPool(model.PoolConfig{}, model.Member{Client: slowModel{}, Rates: model.Rates{RequestsPerMinute: 1}})
				require.NoError(t, err)
				r, err := agentloop.Run(t.Context(), agentloop.Config{
					Model: pool, Tools: echoTools(t), Timeout: c.timeout,
					Stop: []agentloop.StopCondition{agentloop.MaxTurns(3), agentloop.MaxElapsed(c.elapsed)},
				}, []chat.Message{chat.User("go")})
				require.NoError(t, err)
				require.Equal(t, c.reason, r.StopReason)
				require.Equal(t, c.turns, r.TurnsUsed)
				require.Zero(t, r.Turns[0].Held)
				require.Equal(t, 50*time.Second, r.Turns[1].Held)
				require.Equal(t, time.Minute, r.Turns[1].Model)
			})
		})
	}
}

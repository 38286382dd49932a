package agentloop

import (
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Progress is what a stop condition sees between two turns.
type Progress struct {
	Turns    int // model calls made so far
	Usage    chat.Usage
	Elapsed  time.Duration  // without the time in which the rates of servers held requests back
	Messages []chat.Message // shared, not to be modified
}

// StopCondition is asked before every model call; a non-empty reason ends the loop.
type StopCondition func(Progress) StopReason

// MaxTurns stops after n model calls; n <= 0 never stops.
func MaxTurns(n int) StopCondition {
	return func(p Progress) StopReason {
		if n > 0 && p.Turns >= n {
			return StopTurnLimit
		}
		return ""
	}
}

// MaxTokens stops once prompts and completions together used n tokens; n <= 0 never stops.
func MaxTokens(n int64) StopCondition {
	return func(p Progress) StopReason {
		if n > 0 && p.Usage.TotalTokens >= n {
			return StopTokenLimit
		}
		return ""
	}
}

// MaxElapsed stops once the loop has run for d; d <= 0 never stops. It is only
// asked between turns: set Config.Timeout to also end a call that is under way.
func MaxElapsed(d time.Duration) StopCondition {
	return func(p Progress) StopReason {
		if d > 0 && p.Elapsed >= d {
			return StopTimeLimit
		}
		return ""
	}
}

package trajectories

import "fmt"

// Outcome is how a rollout ended; every rollout has exactly one.
type Outcome string

// The outcomes. Only the first three may carry a score.
const (
	OutcomeScored        Outcome = "scored"         // the verifier ran and gave a score
	OutcomeLimit         Outcome = "limit"          // turns, tokens, wall clock or money ran out
	OutcomeAgentError    Outcome = "agent_error"    // the model's own fault, for example nothing but invalid calls
	OutcomeModelError    Outcome = "model_error"    // the endpoint failed after retries
	OutcomeSandboxError  Outcome = "sandbox_error"  // image, container or transport
	OutcomeVerifierError Outcome = "verifier_error" // the verifier crashed, timed out or left no reward

	// OutcomeEnvironmentError is that of a rollout that could not start: the environment
	// made no prompt, sandbox or stages of the item.
	OutcomeEnvironmentError Outcome = "environment_error"

	OutcomeCancelled Outcome = "cancelled" // a signal, or a run told to stop at its first failure
)

// Outcomes lists every outcome in the order reports show them.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeScored, OutcomeLimit, OutcomeAgentError, OutcomeModelError,
		OutcomeSandboxError, OutcomeVerifierError, OutcomeEnvironmentError, OutcomeCancelled,
	}
}

// ParseOutcome reads the name of an outcome.
func ParseOutcome(name string) (Outcome, error) {
	for _, o := range Outcomes() {
		if string(o) == name {
			return o, nil
		}
	}
	return "", fmt.Errorf("unknown outcome %q", name)
}

// Scored says whether a rollout of this outcome may carry a score.
func (o Outcome) Scored() bool {
	return o == OutcomeScored || o == OutcomeLimit || o == OutcomeAgentError
}

// Retryable says whether a rollout of this outcome is run again on resume,
// because something other than the model's work decided it.
func (o Outcome) Retryable() bool {
	return o == OutcomeModelError || o == OutcomeSandboxError || o == OutcomeCancelled
}

// Trained says whether a rollout of this outcome belongs into trajectories.jsonl,
// provided that the model spoke at all: what the model did is then complete, even
// where the verifier failed.
func (o Outcome) Trained() bool { return o.Scored() || o == OutcomeVerifierError }

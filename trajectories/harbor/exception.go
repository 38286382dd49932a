package harbor

import (
	"regexp"
	"time"

	"github.com/hermes-env/hermes-env/trajectories"
)

// harborClass matches error classes that already are names of Harbor's exceptions.
var harborClass = regexp.MustCompile(`^[A-Z][A-Za-z]+Error$`)

// modelExceptions are Harbor's names for what the model's endpoint does.
func modelExceptions() map[string]string {
	return map[string]string{
		"rate_limit": "ApiRateLimitError", "overloaded": "ApiOverloadedError", "server_error": "ApiInternalServerError",
		"network": "ApiConnectionClosedError", "timeout": "ApiResponseStalledError", "stalled": "ApiResponseStalledError",
		"auth": "AgentAuthenticationError", "permission": "AgentAuthenticationError", "billing": "ApiUsageLimitError",
		"not_found": "ModelNotFoundError", "content_filter": "AgentSafetyRefusalError", "context_length": "ContextLengthExceededError",
	}
}

// ExceptionType is the name of Harbor's exception for how a rollout ended, "" for
// none. A limit on turns or tokens is the agent's own in Harbor and no exception;
// one on time is an AgentTimeoutError, with which a trial may still have a reward.
func ExceptionType(r *trajectories.Rollout) string {
	class := ""
	if r.Error != nil {
		class = r.Error.Class
	}
	if harborClass.MatchString(class) {
		return class
	}
	switch r.Outcome {
	case trajectories.OutcomeLimit:
		if r.StopReason == "time_limit" || r.StopReason == "timeout" {
			return "AgentTimeoutError"
		}
	case trajectories.OutcomeAgentError:
		return "InvalidToolCallsError"
	case trajectories.OutcomeModelError:
		if name := modelExceptions()[class]; name != "" {
			return name
		}
		return "ApiError"
	case trajectories.OutcomeSandboxError:
		return "RuntimeError"
	case trajectories.OutcomeVerifierError:
		if class == "timeout" {
			return "VerifierTimeoutError"
		}
		return "VerifierError"
	case trajectories.OutcomeEnvironmentError:
		return "EnvironmentError"
	case trajectories.OutcomeCancelled:
		return "CancelledError"
	}
	return ""
}

func exception(r *trajectories.Rollout) *exceptionInfo {
	name := ExceptionType(r)
	if name == "" {
		return nil
	}
	message := string(r.Outcome) + ": " + r.StopReason
	if r.Error != nil {
		message = r.Error.Message
	}
	return &exceptionInfo{Type: name, Message: message, Traceback: name + ": " + message + "\n", OccurredAt: stamp(r.FinishedAt)}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// phases lays the recorded durations one after the other: sandbox, agent, verifier.
// The record has no moments, so that is what they are: durations.
func phases(r *trajectories.Rollout) (environment, agent, verifier *timing) {
	at := r.StartedAt
	next := func(seconds float64) *timing {
		from := at
		at = at.Add(time.Duration(seconds * float64(time.Second)))
		return &timing{stamp(from), stamp(at)}
	}
	t := r.Timings
	environment = next(t.Sandbox)
	agent = next(max(0, t.Total-t.Sandbox-t.Verify))
	if t.Verify > 0 {
		verifier = next(t.Verify)
	}
	return environment, agent, verifier
}

package cli

import (
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env/config"
)

// connectChat makes the client of a server that is asked for chat completions.
func (j *job) connectChat(s model.Server) (model.Client, error) {
	client, err := model.NewChat(s)
	if err != nil {
		return nil, err
	}
	ask := j.cfg.Env.Reasoning
	if !ask.Active() {
		return client, nil
	}
	r := model.Reasoning{Effort: ask.ReasoningEffort}
	if ask.MaxReasoningTokens != nil {
		r.MaxTokens = *ask.MaxReasoningTokens
	}
	return model.WithReasoning(client, s.BaseURL, r), nil
}

// requestsAtOnce is how many requests a server gets at once in a run of a mode.
func requestsAtOnce(s config.Server, mode config.Mode) int {
	if mode == config.Evaluate && s.NumRequestsForEval > 0 {
		return min(s.NumRequestsForEval, s.NumMaxRequestsAtOnce)
	}
	return s.NumMaxRequestsAtOnce
}

// evalWorkers is how many rollouts of an evaluation run at once beside training, so that
// its requests keep to openai.num_requests_for_eval: a rollout makes one at a time.
func evalWorkers(cfg *config.Resolved) int {
	requests := 0
	for _, s := range cfg.Servers {
		requests += requestsAtOnce(s, config.Evaluate)
	}
	if requests == 0 {
		return cfg.Env.MaxEvalWorkers
	}
	return min(cfg.Env.MaxEvalWorkers, requests)
}

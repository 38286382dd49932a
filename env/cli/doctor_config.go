package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env/config"
)

// environment runs the environment's own check of what it needs.
func (d *doctor) environment(ctx context.Context, j *job) []finding {
	err := errors.Join(j.environment.Setup(ctx), j.closeEnvironment())
	switch {
	case err != nil && ctx.Err() != nil:
		return []finding{{Check: "environment", Level: levelWarning, Found: fmt.Sprintf("%s is not set up within %s", j.cfg.Environment, partLimit),
			Fix: d.typed(string(j.mode)+" --dry-run") + " with the same flags waits for it"}}
	case err != nil:
		return []finding{{Check: "environment", Level: levelProblem, Found: fmt.Sprintf("set up environment %s: %v", j.cfg.Environment, err)}}
	}
	return []finding{{Check: "environment", Level: levelOK, Found: j.cfg.Environment + " has what it needs"}}
}

// models asks each server for its models, all at once.
func (d *doctor) models(ctx context.Context, j *job) []finding {
	if j.cfg.Agent != config.AgentModel {
		return []finding{{Check: "server", Level: levelOK, Found: "none is needed for the agent " + j.cfg.Agent}}
	}
	ctx, cancel := context.WithTimeout(ctx, modelTime)
	defer cancel()
	found := make([]finding, len(j.cfg.Servers))
	var wg sync.WaitGroup
	for i, s := range j.cfg.Servers {
		wg.Go(func() { found[i] = d.server(ctx, j, s) })
	}
	wg.Wait()
	return found
}

// server checks one model server. Keys are never shown, only where they come from.
func (d *doctor) server(ctx context.Context, j *job, s config.Server) finding {
	if scheme, script, ok := s.Embedded(); ok && scheme == replayScheme {
		if _, err := j.replayScript(script); err != nil {
			return finding{Check: "server", Level: levelProblem, Found: err.Error(), Fix: "name a script that exists: openai.base_url replay:FILE"}
		}
		return finding{Check: "server", Level: levelOK, Found: s.BaseURL + " is built in and its script can be read"}
	}
	key := "without a key"
	if s.APIKey.IsSet() {
		key = "with the key from " + s.KeySource
	}
	name := fmt.Sprintf("%s at %s, %s", s.ModelName, s.BaseURL, key)
	if !s.HealthCheck {
		return finding{Check: "server", Level: levelOK, Found: name + " (not asked: openai.health_check is false)"}
	}
	err := model.Probe(ctx, model.Server{
		BaseURL: s.BaseURL, Model: s.ModelName, APIKey: s.APIKey.Reveal(), KeySource: s.KeySource, Timeout: modelTime,
	})
	if err == nil {
		return finding{Check: "server", Level: levelOK, Found: name + ", answers"}
	}
	f := finding{Check: "server", Level: levelProblem, Found: fmt.Sprintf("%s: %v", name, err), Fix: "check openai.base_url and openai.model_name, and that the server runs"}
	var e *model.Error
	if errors.As(err, &e) {
		switch {
		case e.Kind == model.KindAuth:
			f.Fix = "put a valid key into " + orText(s.KeySource, "openai.api_key_env, which names the variable that holds it")
		case e.Retryable() && e.Kind != model.KindNetwork:
			f.Level, f.Fix = levelWarning, "try again later; a run goes on and tries requests again"
		}
	}
	return f
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

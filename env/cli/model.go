package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/replay"
	"github.com/hermes-env/hermes-env/env/config"
)

// replayScheme as base_url starts the embedded model: "replay:" plays the
// environment's own script, "replay:FILE" a script or a recorded rollouts.jsonl.
const replayScheme = "replay"

// modelClient is the client of a run and what has to be closed after it.
type modelClient struct {
	client  model.Client // nil without a model
	name    string       // as recorded with every rollout
	servers []string     // for people
	rawText bool         // the servers return tool calls as the model wrote them
	// sessions opens token-exact sessions; nil where the servers report no tokens.
	sessions func() (model.Session, error)
	// rates says how far the servers' rates hold the run back; nil without servers.
	rates func() model.RateStatus
	// share leaves a part of the servers to others; nil where there are none.
	share   func(float64)
	closers []func() error
}

func (m *modelClient) close() error {
	var errs []error
	for i := len(m.closers) - 1; i >= 0; i-- {
		errs = append(errs, m.closers[i]())
	}
	return errors.Join(errs...)
}

func (m *modelClient) describe() string {
	if m.client == nil {
		return m.name
	}
	return m.name + " at " + strings.Join(m.servers, ", ")
}

// startModel connects to the configured servers, or starts the embedded one.
func (j *job) startModel(ctx context.Context) (_ *modelClient, err error) {
	if j.cfg.Agent != config.AgentModel {
		return &modelClient{name: "agent " + j.cfg.Agent}, nil
	}
	m := &modelClient{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	var names []string
	var servers []model.Server
	tokenExact := false
	policy := model.RetryPolicy{OnRetry: j.out.ModelRetry, MaxAttempts: 1}
	for i, s := range j.cfg.Servers {
		if first := j.cfg.Servers[0].ServerType; s.ServerType != first {
			return nil, fail(ExitUsage, fmt.Errorf("openai[%d].server_type: %s, but the servers before it are %s; use one kind of server in a run", i, s.ServerType, first))
		}
		m.rawText = s.ServerType != typeOpenAI
		tokenExact = (tokenExact || i == 0) && samplesTokens(s)
		base := s.BaseURL
		scheme, script, embedded := s.Embedded()
		if embedded && scheme == replayScheme {
			if base, err = j.startReplay(ctx, m, script); err != nil {
				return nil, err
			}
		}
		server := model.Server{
			BaseURL: base, Model: s.ModelName, APIKey: s.APIKey.Reveal(), KeySource: s.KeySource,
			Timeout: s.Timeout.Duration(), StallTimeout: s.StallTimeout.Duration(),
			Weight: s.Weight, MaxConcurrent: requestsAtOnce(s, j.mode), Rates: model.Rates{RequestsPerMinute: s.RequestsPerMinute, TokensPerMinute: s.TokensPerMinute, OnRefusal: model.RefusalPolicy(s.OnRateLimit)}, Price: (*model.Price)(s.Price()),
		}
		if s.StallTimeout == 0 {
			server.StallTimeout = -1
		}
		if s.HealthCheck && !embedded {
			if err := j.probe(ctx, server); err != nil {
				return nil, err
			}
		}
		// A failed request may be tried again on any server, so the patience is the
		// pool's: that of the most patient one.
		if d := s.MaxRetryTime.Duration(); d > 0 {
			policy.MaxAttempts = 0
			policy.MaxElapsed = max(policy.MaxElapsed, d)
		}
		servers = append(servers, server)
		names = append(names, s.ModelName)
		m.servers = append(m.servers, s.BaseURL)
	}
	m.name = strings.Join(unique(names), ",")
	if tokenExact {
		return m, j.startSessions(ctx, m, servers, policy)
	}
	pool, err := model.ForClients(servers, model.PoolConfig{}, j.connectChat)
	if err != nil {
		return nil, fail(ExitUsage, err)
	}
	m.closers = append(m.closers, func() error { pool.CloseIdleConnections(); return nil })
	m.watchRates(pool, j.out)
	m.client = j.metrics.timed(model.Retry(pool, policy), pool)
	return m, nil
}

// probe asks a server for its models before the run starts. Trouble that may
// pass is left to the retries of the requests themselves.
func (j *job) probe(ctx context.Context, server model.Server) error {
	err := model.Probe(ctx, server)
	if err == nil {
		return nil
	}
	var e *model.Error
	if errors.As(err, &e) && e.Retryable() && e.Kind != model.KindNetwork {
		j.out.Warn(fmt.Sprintf("health check: %v; going on, requests will be tried again", err))
		return nil
	}
	return fmt.Errorf("health check: %w (openai.health_check: false skips it)", err)
}

// startReplay starts the embedded model and returns its address.
func (j *job) startReplay(ctx context.Context, m *modelClient, file string) (string, error) {
	script, err := j.replayScript(file)
	if err != nil {
		return "", fail(ExitUsage, err)
	}
	server, err := replay.New(script, replay.Options{})
	if err != nil {
		return "", fail(ExitUsage, err)
	}
	if err := server.Start(ctx); err != nil {
		return "", fmt.Errorf("start the replay model: %w", err)
	}
	m.closers = append(m.closers, server.Close)
	return server.BaseURL(), nil
}

func (j *job) replayScript(file string) (*replay.Script, error) {
	if file == "" {
		if j.definition.Replay == nil {
			return nil, fmt.Errorf("environment %s has no replay script of its own: name one with openai.base_url replay:FILE", j.cfg.Environment)
		}
		return replay.Parse(j.cfg.Environment+" (built in)", j.definition.Replay)
	}
	if strings.HasSuffix(file, ".jsonl") {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("open the recorded rollouts to replay: %w", err)
		}
		defer f.Close()
		return replay.FromRollouts(f)
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, fmt.Errorf("read the replay script: %w", err)
	}
	return replay.Parse(file, text)
}

func unique(names []string) []string {
	var out []string
	seen := make(map[string]bool)
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

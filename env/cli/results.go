package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// writeResults writes metrics.json and samples.jsonl into the run directory, and
// where the configuration asks for it into another one beside the configuration.
func (j *job) writeResults(store *trajectories.Run, s *env.Summary) error {
	parameters, err := chat.Marshal(generationParameters{
		MaxNewTokens: j.cfg.Env.MaxTokenLength, Temperature: j.cfg.Env.AgentTemperature, MaxTokens: j.cfg.Env.MaxTokenLength,
		MaxAgentTurns: j.cfg.Env.MaxAgentTurns, TerminalBackend: j.cfg.Env.TerminalBackend,
	})
	if err != nil {
		return err
	}
	m := trajectories.Metrics{ModelName: s.Model, Duration: s.Active, GenerationParameters: parameters}
	for _, v := range s.Metrics {
		if !math.IsNaN(v.Value) && !math.IsInf(v.Value, 0) {
			m.Values = append(m.Values, trajectories.Metric(v))
		}
	}
	if j.mode == config.Evaluate {
		m.Values = append(m.Values, trajectories.Metric{Name: "eval/evaluation_time_seconds", Value: m.Duration.Seconds()})
	}
	if err := store.WriteMetrics(m); err != nil {
		return err
	}
	if j.mode != config.Evaluate {
		if err := writeCard(store); err != nil {
			return err
		}
	}
	dir := j.cfg.Env.DataDirToSaveEvals
	if dir == "" || j.mode != config.Evaluate {
		return nil
	}
	if err := store.ExportMetrics(dir, m); err != nil {
		return err
	}
	path := filepath.Join(dir, "evaluate_config.yaml")
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the configuration beside the metrics: %w", err)
	}
	if err := j.cfg.WriteYAML(f); err != nil {
		_ = f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// generationParameters are recorded in metrics.json under the original's names.
type generationParameters struct {
	MaxNewTokens    int     `json:"max_new_tokens"`
	Temperature     float64 `json:"temperature"`
	MaxTokens       int     `json:"max_tokens"`
	MaxAgentTurns   int     `json:"max_agent_turns"`
	TerminalBackend string  `json:"terminal_backend"`
}

package env

import (
	"fmt"
	"math"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// metrics names the figures of a summary. Numbers that could not be computed are left out.
func (s *Summary) metrics() []Metric {
	prefix := "eval/"
	if s.Mode != config.Evaluate {
		prefix = "train/"
	}
	var m []Metric
	add := func(name string, value float64) {
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			m = append(m, Metric{prefix + name, value})
		}
	}
	add("score", s.Score.Mean)
	add("score_stderr", s.Score.StdErr)
	add("score_unscored_as_zero", s.UnscoredAsZero)
	add("pass_rate", s.PassRate)
	for _, p := range s.PassAtK {
		add(fmt.Sprintf("pass@%d", p.K), p.Value)
	}
	add("total_items", float64(len(s.Items)))
	if s.Planned >= 0 {
		add("planned_rollouts", float64(s.Planned))
	}
	add("total_rollouts", float64(s.Rollouts))
	add("scored_rollouts", float64(s.Score.N))
	for _, o := range trajectories.Outcomes() {
		add("outcome_"+string(o), float64(s.Outcomes[o]))
	}
	t := s.Tampering
	add("tampered", float64(t.Rollouts))
	for _, k := range t.Kinds {
		add("tampered/"+k.Kind, float64(k.Rollouts))
	}
	add("tampering_noted", float64(t.Noted))
	for _, k := range t.Notes {
		add("tampering_noted/"+k.Kind, float64(k.Rollouts))
	}
	for _, l := range s.TestLimits {
		add(l.Name(), float64(l.Rollouts))
	}
	if s.SandboxEnds > 0 {
		add("sandbox_ends", float64(s.SandboxEnds))
	}
	if s.Rollouts > 0 {
		add("mean_turns", float64(s.Turns)/float64(s.Rollouts))
	}
	add("prompt_tokens", float64(s.PromptTokens))
	add("completion_tokens", float64(s.CompletionTokens))
	if g := s.TrainingGroups; g != nil {
		add("groups_kept", float64(g.Kept))
		add("groups_dropped", float64(g.DroppedGroups()))
		for _, c := range g.Dropped {
			add("groups_dropped/"+string(c.Reason), float64(c.Count))
		}
		for _, c := range g.LeftOut {
			add("group_rollouts_left_out/"+string(c.Reason), float64(c.Count))
		}
	}
	if s.Spent.Priced() {
		add("cost_usd", math.Round(s.Spent.USD*1e9)/1e9) // digits beyond are errors of adding up
	}
	return m
}

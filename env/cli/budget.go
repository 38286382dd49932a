package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/report"
)

// prices are what the configured model servers charge, as far as they are asked at all.
func (j *job) prices() []*model.Price {
	if j.cfg.Agent != config.AgentModel || j.rescoring != nil {
		return nil
	}
	var list []*model.Price
	for _, s := range j.cfg.Servers {
		list = append(list, (*model.Price)(s.Price()))
	}
	return list
}

// goOn says how to go on with a run that ended early.
func (j *job) goOn(err error, s *env.Summary) string {
	var used *env.BudgetError
	switch {
	case errors.As(err, &used):
		left := leftOf(s)
		flag := "--" + used.Field + "=" + used.Enough(left)
		return doneText(s, left) + "; go on with more: " + j.resumeCommand(s.Dir, flag)
	case errors.Is(err, env.ErrBudgetUnkept):
		var flags []string
		if j.cfg.Env.BudgetTokens > 0 {
			flags = append(flags, "--env.budget_tokens=0")
		}
		if j.cfg.Env.BudgetUSD > 0 {
			flags = append(flags, "--env.budget_usd=0")
		}
		return doneText(s, leftOf(s)) + "; go on without a limit: " + j.resumeCommand(s.Dir, flags...)
	}
	return "go on from here with: " + j.resumeCommand(s.Dir)
}

// leftOf returns how many rollouts a resumed run would run, -1 when that is unknown.
func leftOf(s *env.Summary) int {
	if s.Planned < 0 {
		return -1
	}
	left := s.Planned - s.Rollouts
	for outcome, n := range s.Outcomes {
		if outcome.Retryable() {
			left += n
		}
	}
	return max(0, left)
}

func doneText(s *env.Summary, left int) string {
	if left < 0 {
		return fmt.Sprintf("%d rollouts are done and saved", s.Rollouts)
	}
	return fmt.Sprintf("%d of %d rollouts are done and saved, %d are left", s.Planned-left, s.Planned, left)
}

// replaceFlags puts flags ("--name=value") in the place of those of the same name.
func replaceFlags(words, flags []string) []string {
	for _, f := range flags {
		name, _, _ := strings.Cut(f, "=")
		var kept []string
		for _, w := range words {
			if !strings.HasPrefix(w, name+"=") {
				kept = append(kept, w)
			}
		}
		words = append(kept, f)
	}
	return words
}

// costText says what a run cost, "" when there is nothing to say.
func costText(s *env.Summary, servers []config.Server) string {
	p := &s.Spent
	if p.USD == 0 {
		if priced := slices.ContainsFunc(servers, func(s config.Server) bool { return s.PriceInput != nil }); priced && p.Unpriced.Calls > 0 {
			return fmt.Sprintf("not known: %s came without token counts or without a price", count(p.Unpriced.Calls, "answer"))
		}
		return ""
	}
	text := trajectories.Dollars(p.USD)
	if p.Unpriced.Calls > 0 {
		text = fmt.Sprintf("at least %s: what %s cost is not known", text, count(p.Unpriced.Rollouts, "rollout"))
	}
	cached := ""
	if p.CachedTokens > 0 {
		cached = fmt.Sprintf(" (%s cached)", report.Short(float64(p.CachedTokens)))
	}
	text += fmt.Sprintf(" · %s tokens in%s, %s out", report.Short(float64(p.PromptTokens)), cached, report.Short(float64(p.CompletionTokens)))
	var parts []string
	for _, part := range []struct {
		usd  float64
		what string
	}{{p.JudgeUSD, "judging"}, {p.FailedTriesUSD, "tries that failed"}, {s.AgainUSD, "rollouts that were run again"}} {
		if part.usd > 0 {
			parts = append(parts, trajectories.Dollars(part.usd)+" for "+part.what)
		}
	}
	if len(parts) > 0 {
		text += "; of it " + strings.Join(parts, ", ")
	}
	return text
}

// budgetText says how much of the budgets is used, "" without any.
func budgetText(s *env.Summary, c config.Env) string {
	var parts []string
	if c.BudgetUSD > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s", trajectories.Dollars(s.Spent.USD), trajectories.Dollars(c.BudgetUSD)))
	}
	if c.BudgetTokens > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s tokens", trajectories.Thousands(s.Spent.Tokens()), trajectories.Thousands(int64(c.BudgetTokens))))
	}
	if c.BudgetTime > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s", roundDuration(s.Active), roundDuration(c.BudgetTime.Duration())))
	}
	return strings.Join(parts, " · ")
}

// spentEvent is what a run used and cost, in the summary of --json.
type spentEvent struct {
	Calls            int      `json:"calls"`
	Unreported       int      `json:"unreported_calls,omitempty"`
	PromptTokens     int64    `json:"prompt_tokens"`
	CachedTokens     int64    `json:"cached_tokens"`
	CompletionTokens int64    `json:"completion_tokens"`
	USD              *float64 `json:"cost_usd"` // null when something's cost is not known
	JudgeUSD         float64  `json:"judge_cost_usd,omitempty"`
	FailedTriesUSD   float64  `json:"failed_tries_cost_usd,omitempty"`
	AgainUSD         float64  `json:"run_again_cost_usd,omitempty"`
	ActiveSeconds    float64  `json:"active_seconds"`
}

func spentOf(s *env.Summary) spentEvent {
	p := s.Spent
	usd := func(v float64) float64 { return math.Round(v*1e9) / 1e9 } // digits beyond are errors of adding up
	e := spentEvent{
		Calls: p.Calls, Unreported: p.Unreported, PromptTokens: p.PromptTokens, CachedTokens: p.CachedTokens, CompletionTokens: p.CompletionTokens,
		JudgeUSD: usd(p.JudgeUSD), FailedTriesUSD: usd(p.FailedTriesUSD), AgainUSD: usd(s.AgainUSD), ActiveSeconds: s.Active.Round(time.Millisecond).Seconds(),
	}
	if p.Priced() {
		all := usd(p.USD)
		e.USD = &all
	}
	return e
}

// statusOf is how a run ended that ended with err.
func statusOf(err error) trajectories.Status {
	switch {
	case err == nil:
		return trajectories.StatusDone
	case errors.Is(err, env.ErrInterrupted):
		return trajectories.StatusInterrupted
	case errors.Is(err, env.ErrBudget):
		return trajectories.StatusBudget
	}
	return trajectories.StatusFailed
}

// goOnBatch says how to go on with a batch run that ended early.
func (b *batchJob) goOnBatch(err error) string {
	var used *env.BudgetError
	switch {
	case errors.As(err, &used):
		return "go on with more by the same command with --resume --" + used.Field + "=" + used.Enough(-1)
	case errors.Is(err, env.ErrBudgetUnkept):
		return "go on without a limit by the same command with --resume --env.budget_tokens=0 --env.budget_usd=0"
	}
	return "go on from here with the same command and --resume"
}

// spent is what a batch run used and cost, nil when there was nothing to run.
func (b *batchJob) spent() *spentEvent {
	if b.ran == nil {
		return nil
	}
	e := spentOf(b.ran)
	return &e
}

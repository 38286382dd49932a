package cli

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// maxItemsShown bounds the table of items; longer runs have it in samples.jsonl.
const maxItemsShown = 20

// maxRatesShown bounds the pass@k shown; metrics.json has all.
const maxRatesShown = 4

// Summary writes the end of a run for people.
func (p *textPrinter) Summary(s *env.Summary, cfg *config.Resolved) {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "\n%s\n", p.bold(fmt.Sprintf("%s · %s · %s", s.Environment, s.Mode, s.Model)))
	line("score", "%s", p.bold(scoreText(s)))
	if s.Planned > s.Rollouts {
		line("", "%s", p.bold(fmt.Sprintf("the run is not complete: this covers %d of %d rollouts", s.Rollouts, s.Planned)))
	}
	if cfg.Mode == config.Evaluate && len(s.PassAtK) > 0 {
		shown := s.PassAtK
		if len(shown) > maxRatesShown {
			shown = append(append([]env.PassRate(nil), shown[:maxRatesShown-1]...), shown[len(shown)-1])
		}
		var rates []string
		for _, r := range shown {
			rates = append(rates, fmt.Sprintf("pass@%d %.3f", r.K, r.Value))
		}
		line("passed", "%s (a rollout passes at score %g)", strings.Join(rates, "  "), cfg.Env.PassThreshold)
	} else if s.Score.N > 0 {
		line("passed", "%.1f %% of the scored rollouts (score >= %g)", 100*s.PassRate, cfg.Env.PassThreshold)
	}
	line("rollouts", "%s", outcomesText(s))
	if s.Unscored() > 0 && s.Score.N > 0 {
		line("", "counting every unscored rollout as 0 the score would be %.3f", s.UnscoredAsZero)
	}
	for i, text := range tamperingLines(s.Tampering, p.statsCommand(s.Dir)) {
		line([]string{"tampering", ""}[min(i, 1)], "%s", text)
	}
	if s.TrainingGroups != nil {
		line("groups", "%s", trainingGroupsText(s.TrainingGroups))
	}
	for i := range s.Mixed {
		line("mixed", "%s", s.Mixed[i].Sentence())
	}
	for i, d := range s.Deviations {
		label := ""
		if i == 0 {
			label = "protocol"
		}
		line(label, "not comparable with published results: %s", d)
	}
	for _, n := range s.Notes {
		line("note", "%s", n)
	}
	groupTables(&b, s.Groups)
	if len(s.Items) > 1 && len(s.Items) <= maxItemsShown && cfg.Mode == config.Evaluate {
		itemsTable(&b, s.Items)
	}
	if s.SandboxEnds > 0 {
		line("sandboxes", "ended %d times during %d rollouts; sandbox.events in rollouts.jsonl and the report say why", s.SandboxEnds, s.SandboxEndsIn)
	}
	if s.Agent == env.AgentModel {
		line("turns", "%d (%.1f per rollout)", s.Turns, perUnit(float64(s.Turns), s.Rollouts))
		line("tokens", "%s prompt + %s completion", trajectories.Thousands(s.PromptTokens), trajectories.Thousands(s.CompletionTokens))
	}
	if text := costText(s, cfg.Servers); text != "" {
		line("cost", "%s", text)
	}
	if text := budgetText(s, cfg.Env); text != "" {
		line("budget", "%s", text)
	}
	if text := ratesSummary(p.rates, s.Time.Held); text != "" {
		line("rates", "%s", text)
	}
	line("wall time", "%s", wallText(s))
	line("per turn", "%s", p.perTurn(s))
	line("results", "%s", p.bold(s.Dir))
	fmt.Fprint(p.out, fold(b.String(), columnsOf(p.out)))
}

// wallText is the time of all sessions, and that of this one where there were others.
func wallText(s *env.Summary) string {
	if s.Active-s.Wall < time.Second {
		return roundDuration(s.Wall)
	}
	return fmt.Sprintf("%s (%s in this session)", roundDuration(s.Active), roundDuration(s.Wall))
}

func scoreText(s *env.Summary) string {
	switch {
	case s.Score.N == 0:
		return "none: no rollout was scored"
	case math.IsNaN(s.Score.StdErr):
		return fmt.Sprintf("%.3f (no error bar: %d rollouts of a single item)", s.Score.Mean, s.Score.N)
	case s.Score.N == s.Score.Clusters:
		return fmt.Sprintf("%.3f ± %.3f (standard error over %d items)", s.Score.Mean, s.Score.StdErr, s.Score.Clusters)
	}
	return fmt.Sprintf("%.3f ± %.3f (standard error clustered by item: %d items, %d rollouts)", s.Score.Mean, s.Score.StdErr, s.Score.Clusters, s.Score.N)
}

func outcomesText(s *env.Summary) string {
	var parts []string
	for _, o := range trajectories.Outcomes() {
		if n := s.Outcomes[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d: %s", s.Rollouts, strings.Join(parts, ", "))
}

// groupTables writes a table for each kind of group that has more than one.
func groupTables(b *strings.Builder, groups []env.GroupResult) {
	for len(groups) > 0 {
		n := 1
		for n < len(groups) && groups[n].Kind == groups[0].Kind {
			n++
		}
		groupTable(b, groups[:n])
		groups = groups[n:]
	}
}

func groupTable(b *strings.Builder, groups []env.GroupResult) {
	if len(groups) < 2 {
		return
	}
	width := len([]rune(groups[0].Kind))
	for _, g := range groups {
		width = max(width, len([]rune(g.Name)))
	}
	fmt.Fprintf(b, "\n  %-*s  %6s  %9s  %8s  %16s\n", width, groups[0].Kind, "items", "passed", "", "score")
	for _, g := range groups {
		rate, score := "–", "–"
		if g.Rollouts > 0 {
			rate = fmt.Sprintf("%.1f %%", 100*float64(g.Passed)/float64(g.Rollouts))
		}
		switch {
		case g.Score.N == 0:
		case math.IsNaN(g.Score.StdErr):
			score = fmt.Sprintf("%.3f", g.Score.Mean)
		default:
			score = fmt.Sprintf("%.3f ± %.3f", g.Score.Mean, g.Score.StdErr)
		}
		pad := func(text string, n int) string { return strings.Repeat(" ", max(0, n-len([]rune(text)))) + text }
		fmt.Fprintf(b, "  %-*s  %6d  %9s  %s  %s\n", width, g.Name, g.Items, fmt.Sprintf("%d/%d", g.Passed, g.Rollouts), pad(rate, 8), pad(score, 16))
	}
}

func itemsTable(b *strings.Builder, items []env.ItemResult) {
	width := 4
	for _, it := range items {
		width = max(width, len([]rune(trajectories.ShortItemID(it.ID))))
	}
	fmt.Fprintf(b, "\n  %-*s  %8s  %8s  %8s  %8s\n", width, "item", "score", "passed", "scored", "turns")
	for _, it := range items {
		mean := "–"
		if !math.IsNaN(it.Mean) {
			mean = fmt.Sprintf("%.3f", it.Mean)
		}
		pad := strings.Repeat(" ", max(0, 8-len([]rune(mean))))
		fmt.Fprintf(b, "  %-*s  %s%s  %8s  %8s  %8.1f\n", width, trajectories.ShortItemID(it.ID), pad, mean,
			fmt.Sprintf("%d/%d", it.Passed, it.Rollouts), fmt.Sprintf("%d/%d", it.Scored, it.Rollouts), perUnit(float64(it.Turns), it.Rollouts))
	}
	b.WriteString("\n")
}

// perTurn says where the time went. Without a model there are no turns, so it is
// told per rollout.
func (p *textPrinter) perTurn(s *env.Summary) string {
	n, unit := s.Turns, ""
	if n == 0 {
		n, unit = s.Rollouts, " (per rollout)"
	}
	part := func(label string, seconds float64) string {
		return label + " " + milliseconds(perUnit(seconds, n))
	}
	return strings.Join([]string{
		part("model", s.Time.Model), part("tools", s.Time.Tools), part("sandbox", s.Time.Sandbox),
		part("verifier", s.Time.Verify), part("harness", s.Time.Harness),
	}, " · ") + unit
}

func (p *textPrinter) bold(s string) string {
	if !p.color {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}

func perUnit(total float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return total / float64(n)
}

func milliseconds(seconds float64) string {
	switch ms := seconds * 1000; {
	case ms >= 10_000:
		return fmt.Sprintf("%.1f s", seconds)
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 1:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.0f µs", ms*1000)
	}
}

func roundDuration(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/batch"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// batchPrinter shows a batch run to people: prompts instead of scores.
type batchPrinter struct {
	*textPrinter
	verbose bool
	chars   int // of a prompt

	discarded, failed int // mu of textPrinter is held
}

func (b *batchJob) newPrinter(s *session) printer {
	p, ok := s.newPrinter(b.command.JSON).(*textPrinter)
	if !ok {
		return s.newPrinter(true)
	}
	b.show = &batchPrinter{textPrinter: p, verbose: b.on.verbose, chars: b.command.LogPrefix}
	return b.show
}

// Begin names the run.
func (p *batchPrinter) Begin(cfg *config.Resolved, dir, modelName string) {
	fmt.Fprintf(p.err, "batch · %s · sandbox %s · %d at once\nresults: %s\n", modelName, cfg.Env.TerminalBackend, cfg.GroupsInFlight(), dir)
}

// Finished shows a prompt that is done.
func (p *batchPrinter) Finished(rec *trajectories.Rollout) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished++
	how := fmt.Sprintf("%d calls, %.1f s", rec.TurnsUsed, rec.Timings.Total)
	switch {
	case rec.Error != nil && !rec.Outcome.Scored():
		p.failed++
		how = fmt.Sprintf("failed (%s): %s", rec.Outcome, oneLine(rec.Error.Message, 200))
	case rec.Score != nil && *rec.Score == 0:
		p.discarded++
		how += ", discarded: no reasoning in any turn"
	case !rec.FinishedNaturally:
		how += ", not completed: " + rec.StopReason
	}
	if p.bar != nil {
		p.bar.advance(1, fmt.Sprintf("prompts, %d discarded, %d failed", p.discarded, p.failed))
		if !p.verbose {
			return
		}
	}
	prompt := ""
	if p.verbose {
		for _, m := range rec.Messages {
			if m.Role() == chat.RoleUser {
				prompt = " " + oneLine(m.Text(), p.chars)
				break
			}
		}
	}
	p.above(func() { fmt.Fprintf(p.err, "[%d/%d]%s %s\n", p.finished, p.total, prompt, how) })
}

// batchSummary is the last line of --json.
type batchSummary struct {
	Event     string      `json:"event"`
	Dir       string      `json:"dir"`
	Prompts   int         `json:"prompts"`
	Rows      int         `json:"rows"`
	Discarded int         `json:"discarded_no_reasoning"`
	Failed    int         `json:"failed"`
	Invented  int         `json:"left_out_unknown_tools"`
	Doubled   int         `json:"left_out_doubled"`
	Broken    int         `json:"left_out_broken"`
	Turns     int         `json:"total_assistant_turns"`
	Reasoning int         `json:"turns_with_reasoning"`
	Seconds   float64     `json:"duration_seconds"`
	Spent     *spentEvent `json:"spent"` // null when there was nothing to run
}

// summarize prints how the whole run stands.
func (b *batchJob) summarize(r *batch.Result) error {
	if p, ok := b.out.(*jsonPrinter); ok {
		p.write(batchSummary{"summary", b.dir, r.Prompts, r.Rows, r.Discarded, r.Failed, r.Invented, r.Doubled, r.Broken, r.Turns, r.Reasoning, r.Seconds, b.spent()})
		return nil
	}
	var s strings.Builder
	fmt.Fprintf(&s, "\n%s\n", b.command.RunName)
	parts := []string{fmt.Sprintf("%d trajectories", r.Rows), fmt.Sprintf("%d discarded without reasoning", r.Discarded)}
	for _, n := range []struct {
		count int
		what  string
	}{
		{r.Failed, "failed"}, {r.Invented, "left out for tools that don't exist"},
		{r.Doubled, "left out as run twice"}, {r.Broken, "lines that are no rows"},
	} {
		if n.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	fmt.Fprintf(&s, "  prompts    %d: %s\n", r.Prompts, strings.Join(parts, ", "))
	share := 0.0
	if r.Turns > 0 {
		share = 100 * float64(r.Reasoning) / float64(r.Turns)
	}
	fmt.Fprintf(&s, "  reasoning  %d of %d assistant turns (%.1f %%)\n", r.Reasoning, r.Turns, share)
	if b.ran != nil {
		if text := costText(b.ran, b.cfg.Servers); text != "" {
			fmt.Fprintf(&s, "  cost       %s\n", text)
		}
		if text := budgetText(b.ran, b.cfg.Env); text != "" {
			fmt.Fprintf(&s, "  budget     %s\n", text)
		}
	}
	fmt.Fprintf(&s, "  time       %s\n", since(time.Duration(r.Seconds*float64(time.Second))))
	if len(r.Tools) > 0 {
		w := tabwriter.NewWriter(&s, 2, 4, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "  tool\tcalls\tsuccess\tfailure\tsuccess rate\t")
		for _, t := range r.Tools {
			rate, _ := t.Rates()
			fmt.Fprintf(w, "  %s\t%d\t%d\t%d\t%.1f %%\t\n", t.Name, t.Count, t.Success, t.Failure, rate)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(&s, "  files      %s, batch_<n>.jsonl, checkpoint.json, statistics.json, %s\n",
		filepath.Join(b.dir, "trajectories.jsonl"), filepath.Join(batch.RunDir, "rollouts.jsonl"))
	_, err := fmt.Fprint(b.app.Stdout, s.String())
	return err
}

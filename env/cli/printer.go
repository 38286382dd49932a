package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// printer shows a run to people or machines. Its methods may be called from many
// goroutines at once.
type printer interface {
	env.Observer
	Note(text string)
	ModelRetry(model.RetryEvent)
	Rates(model.RateStatus)
	Begin(cfg *config.Resolved, dir, model string)
	End()
	Summary(s *env.Summary, cfg *config.Resolved)
}

func newPrinter(stdout, stderr io.Writer, json bool, getenv func(string) (string, bool)) printer {
	if json {
		return &jsonPrinter{out: stdout, now: time.Now}
	}
	p := &textPrinter{out: stdout, err: stderr, color: useColor(stdout, getenv), started: time.Now()}
	if f, ok := stderr.(*os.File); ok && isTerminal(f) && !dumbTerminal(getenv) {
		p.live = true
	}
	return p
}

// newPrinter shows what happens to the user, or as JSON.
func (s *session) newPrinter(json bool) printer {
	p := newPrinter(s.app.Stdout, s.app.Stderr, json, s.app.Getenv)
	if t, ok := p.(*textPrinter); ok {
		t.typed = s.typed
	}
	return p
}

func useColor(w io.Writer, getenv func(string) (string, bool)) bool {
	if getenv != nil {
		if v, ok := getenv("NO_COLOR"); ok && v != "" {
			return false
		}
		if v, _ := getenv("TERM"); v == "dumb" {
			return false
		}
	}
	f, ok := w.(*os.File)
	return ok && isTerminal(f)
}

// textPrinter writes progress to stderr (a bar on a terminal, a line per rollout
// elsewhere) and the summary to stdout.
type textPrinter struct {
	out, err io.Writer
	color    bool
	live     bool                          // stderr is a terminal
	typed    func(arguments string) string // how the user starts another command; nil where none is suggested
	started  time.Time

	mu        sync.Mutex
	bar       *progressBar // nil without a terminal
	total     int          // -1: unknown
	finished  int
	scored    int
	sum       float64
	unscored  int
	lastRetry time.Time
	rates     model.RateStatus
	rated     bool // rates is kept up to date
	lastRates time.Time
}

func (p *textPrinter) Begin(cfg *config.Resolved, dir, modelName string) {
	p.mu.Lock()
	p.finished, p.scored, p.unscored, p.sum = 0, 0, 0, 0 // a command may have several runs
	p.mu.Unlock()
	fmt.Fprintf(p.err, "%s %s · %s · sandbox %s\nresults: %s\n", cfg.Mode, cfg.Environment, modelName, cfg.Env.TerminalBackend, dir)
}

func (p *textPrinter) Planned(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = n
	if !p.live {
		return
	}
	if p.bar != nil {
		p.bar.line.erase()
	}
	p.bar = newProgressBar(p.err, "rollouts", n)
}

func (p *textPrinter) Skipped(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished += n
	if p.bar != nil {
		p.bar.skipped += n
	}
	p.advance(n)
}

func (p *textPrinter) Finished(rec *trajectories.Rollout) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished++
	if rec.Score != nil {
		p.scored++
		p.sum += *rec.Score
	} else {
		p.unscored++
	}
	if p.bar != nil {
		p.advance(1)
		return
	}
	of := ""
	if p.total >= 0 {
		of = fmt.Sprintf("/%d", p.total)
	}
	fmt.Fprintf(p.err, "[%d%s] %s attempt %d: %s\n", p.finished, of, rec.ItemName(), rec.Attempt, describeRollout(rec))
}

// advance moves the bar and refreshes its text. mu is held.
func (p *textPrinter) advance(n int) {
	if p.bar == nil {
		return
	}
	text := "rollouts"
	if p.scored > 0 {
		text = fmt.Sprintf("mean score %.3f", p.sum/float64(p.scored))
	}
	if p.unscored > 0 {
		text += fmt.Sprintf(", %d without score", p.unscored)
	}
	if p.rates.Waiting > 0 {
		text += ", " + ratesText(p.rates)
	}
	p.bar.advance(n, text)
}

func describeRollout(rec *trajectories.Rollout) string {
	var b strings.Builder
	if rec.Score != nil {
		fmt.Fprintf(&b, "score %.2f", *rec.Score)
		if rec.Outcome != trajectories.OutcomeScored {
			fmt.Fprintf(&b, " (%s)", rec.Outcome)
		}
	} else {
		b.WriteString(string(rec.Outcome))
	}
	fmt.Fprintf(&b, ", %s, %.1f s", count(rec.TurnsUsed, "turn"), rec.Timings.Total)
	if rec.Tampered() {
		b.WriteString(", tampered (" + oneLine(strings.Join(trajectories.KindsOfTampering(rec.Tampering).Active, ", "), 100) + ")")
	}
	if rec.Error != nil {
		b.WriteString(": " + oneLine(rec.Error.Message, 200))
	}
	return b.String()
}

func (p *textPrinter) Retrying(rec *trajectories.Rollout, try int) {
	p.line(fmt.Sprintf("%s attempt %d ended as %s, trying again (%d): %s", rec.ItemName(), rec.Attempt, rec.Outcome, try, oneLine(rec.Error.Message, 200)))
}

// ModelRetry says that requests wait, at most once in a few seconds.
func (p *textPrinter) ModelRetry(e model.RetryEvent) {
	p.mu.Lock()
	now := time.Now()
	quiet := now.Sub(p.lastRetry) < 5*time.Second || p.rated && e.Err.Kind == model.KindRateLimit
	if !quiet {
		p.lastRetry = now
	}
	p.mu.Unlock()
	if !quiet {
		p.line(fmt.Sprintf("model: %s; next try in %s", oneLine(e.Err.Error(), 200), e.Delay.Round(100*time.Millisecond)))
	}
}

func (p *textPrinter) Warn(text string) { p.line("warning: " + text) }
func (p *textPrinter) Note(text string) { p.line(text) }

// line writes a line above the bar.
func (p *textPrinter) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.above(func() { fmt.Fprintln(p.err, fold(text, columnsOf(p.err))) })
}

// above prints something above the bar, if there is one. mu is held.
func (p *textPrinter) above(print func()) {
	if p.bar == nil {
		print()
		return
	}
	p.bar.above(print)
}

func (p *textPrinter) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.line.erase()
		p.bar = nil
	}
}

func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		s = string(r[:n]) + "…"
	}
	return s
}

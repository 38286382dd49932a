package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/serve"
	"github.com/hermes-env/hermes-env/trajectories"
)

// servePrinter shows a worker: what happens line by line, and how it stands in one
// line, which is redrawn on a terminal and written now and then elsewhere.
type servePrinter struct {
	printer
	err    io.Writer
	live   *statusLine  // on a terminal; nil without one
	events *jsonPrinter // nil without --json

	mu      sync.Mutex
	worker  *serve.Worker
	written string // the last line elsewhere
	due     time.Time
	scored  int
	failed  int
	dropped int // groups
	sum     float64
	stepped func(int64) // nil: nobody wants to know
	closers []func() error
}

// How often the line is drawn on a terminal, and written elsewhere if it has changed.
const (
	lineEvery    = 500 * time.Millisecond
	writtenEvery = 15 * time.Second
)

func newServePrinter(inner printer, stderr io.Writer) *servePrinter {
	p := &servePrinter{printer: inner, err: stderr}
	switch inner := inner.(type) {
	case *textPrinter:
		if inner.live {
			p.live = &statusLine{out: stderr, width: func() int { columns, _ := terminalSize(stderr); return columns }}
		}
		inner.live = false // no bar: there is no end to be seen
	case *jsonPrinter:
		p.events = inner
	}
	return p
}

// atEnd has something closed when the run is over.
func (p *servePrinter) atEnd(closer func() error) { p.closers = append(p.closers, closer) }

// follow shows how a worker stands until stop is called.
func (p *servePrinter) follow(w *serve.Worker) (stop func()) {
	p.mu.Lock()
	p.worker, p.due = w, time.Now()
	p.mu.Unlock()
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		ticker := time.NewTicker(lineEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				p.tick(time.Now())
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.erase()
		p.worker = nil
	}
}

func (p *servePrinter) tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.line()
	switch {
	case p.live != nil:
		p.live.draw(text)
	case now.Before(p.due) || text == p.written:
	default:
		p.written, p.due = text, now.Add(writtenEvery)
		if p.events != nil {
			p.events.write(p.statusEvent(now))
			return
		}
		fmt.Fprintf(p.err, "%s %s\n", now.Format(time.TimeOnly), text)
	}
}

// line says how the worker stands. mu is held.
func (p *servePrinter) line() string {
	s := p.worker.Status()
	parts := make([]string, 0, 8)
	if s.Registered {
		step := fmt.Sprintf("step %d", s.Queue.CurrentStep)
		if s.LastStep > 0 {
			step += fmt.Sprintf("/%d", s.LastStep)
		}
		parts = append(parts, step, fmt.Sprintf("queue %d", s.Queue.QueueSize))
	}
	parts = append(parts, fmt.Sprintf("%d running", s.Running))
	sent := fmt.Sprintf("%d groups sent", s.Sent.Groups)
	if s.Spooled > 0 {
		sent += fmt.Sprintf(", %d to send", s.Spooled)
	}
	if s.Refused.Groups > 0 {
		sent += fmt.Sprintf(", %d refused", s.Refused.Groups)
	}
	parts = append(parts, sent)
	if p.dropped > 0 {
		parts = append(parts, fmt.Sprintf("%d left out", p.dropped))
	}
	if p.scored > 0 {
		parts = append(parts, fmt.Sprintf("mean score %.3f", p.sum/float64(p.scored)))
	}
	if p.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d rollouts failed", p.failed))
	}
	if why := waitingFor(s); why != "" {
		parts = append(parts, why)
	}
	return strings.Join(parts, " · ")
}

// waitingFor says why no group starts.
func waitingFor(s serve.Status) string {
	switch {
	case s.Away != "":
		return string(serve.HoldServer)
	case s.Full != "" && s.Hold != "":
		return "the API server takes no groups for now"
	case !s.Registered:
		return string(serve.HoldTrainer)
	case s.Evaluating && s.Hold == "":
		return string(serve.HoldEval)
	}
	return string(s.Hold)
}

// above prints something above the line.
func (p *servePrinter) above(show func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	show()
	if p.live != nil && p.worker != nil {
		p.live.draw(p.line())
	}
}

// erase takes the line off the terminal. mu is held.
func (p *servePrinter) erase() {
	if p.live != nil {
		p.live.erase()
	}
}

// Note implements printer and serve.Observer.
func (p *servePrinter) Note(text string) { p.above(func() { p.printer.Note(text) }) }

// Warn implements printer and serve.Observer.
func (p *servePrinter) Warn(text string) { p.above(func() { p.printer.Warn(text) }) }

// ModelRetry implements printer.
func (p *servePrinter) ModelRetry(e model.RetryEvent) { p.above(func() { p.printer.ModelRetry(e) }) }

// Retrying implements printer.
func (p *servePrinter) Retrying(rec *trajectories.Rollout, try int) {
	p.above(func() { p.printer.Retrying(rec, try) })
}

// Planned implements printer: nobody knows how much there is to do.
func (p *servePrinter) Planned(int) {}

// Skipped implements printer.
func (p *servePrinter) Skipped(int) {}

// Finished implements printer: a line for rollouts that failed, the others are counted.
func (p *servePrinter) Finished(rec *trajectories.Rollout) {
	if p.events != nil {
		p.printer.Finished(rec)
		return
	}
	p.mu.Lock()
	if rec.Score != nil {
		p.scored++
		p.sum += *rec.Score
		p.mu.Unlock()
		return
	}
	p.failed++
	p.mu.Unlock()
	p.above(func() { fmt.Fprintf(p.err, "%s attempt %d: %s\n", rec.ItemName(), rec.Attempt, describeRollout(rec)) })
}

// onStep has a function called when the trainer is at another step.
func (p *servePrinter) onStep(stepped func(int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stepped = stepped
}

// Stepped implements serve.Observer.
func (p *servePrinter) Stepped(step int64) {
	p.mu.Lock()
	stepped := p.stepped
	p.mu.Unlock()
	if stepped != nil {
		stepped(step)
	}
}

// GroupJudged implements env.GroupObserver.
func (p *servePrinter) GroupJudged(_ int, _ env.Item, verdict env.GroupVerdict) {
	if verdict.Group == nil {
		p.mu.Lock()
		p.dropped++
		p.mu.Unlock()
	}
}

// Rates implements printer.
func (p *servePrinter) Rates(r model.RateStatus) { p.above(func() { p.printer.Rates(r) }) }

// Collected implements serve.Observer.
func (p *servePrinter) Collected(c serve.Collected) {
	if p.events != nil {
		p.events.emit(event{Event: "group", Step: &c.Step, Score: &c.MeanScore, Rollouts: &c.Sequences})
	}
}

// End implements printer.
func (p *servePrinter) End() {
	p.printer.End()
	for _, closer := range p.closers {
		if err := closer(); err != nil {
			p.Warn(err.Error())
		}
	}
	p.closers = nil
}

// statusEvent is a line of --json that says how the worker stands.
type statusEvent struct {
	Event      string `json:"event"`
	Time       string `json:"time"`
	Name       string `json:"name"`
	Registered bool   `json:"registered"`
	Away       string `json:"away,omitempty"`
	Step       int64  `json:"step"`
	LastStep   int64  `json:"last_step,omitempty"`
	Queue      int64  `json:"queue"`
	Running    int    `json:"running"`
	Spooled    int    `json:"spooled"`
	Sent       int64  `json:"sent"`
	Refused    int64  `json:"refused"`
	Waiting    string `json:"waiting,omitempty"`
	Evaluating bool   `json:"evaluating,omitempty"`
}

func (p *servePrinter) statusEvent(now time.Time) statusEvent {
	s := p.worker.Status()
	return statusEvent{Event: "status", Time: now.UTC().Format(time.RFC3339Nano), Name: s.Name, Registered: s.Registered, Away: s.Away,
		Step: s.Queue.CurrentStep, LastStep: s.LastStep, Queue: s.Queue.QueueSize, Running: s.Running, Spooled: s.Spooled,
		Sent: s.Sent.Groups, Refused: s.Refused.Groups, Waiting: waitingFor(s), Evaluating: s.Evaluating}
}

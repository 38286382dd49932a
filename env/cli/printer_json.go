package cli

import (
	"io"
	"math"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// jsonPrinter writes one JSON object per event to stdout, the summary last.
type jsonPrinter struct {
	now func() time.Time
	mu  sync.Mutex
	out io.Writer

	lastRates time.Time
}

// event is one line. Fields that don't belong to an event are left out.
type event struct {
	Event    string   `json:"event"`
	Time     string   `json:"time"`
	Text     string   `json:"text,omitempty"`
	RunDir   string   `json:"run_dir,omitempty"`
	Model    string   `json:"model,omitempty"`
	Rollouts *int     `json:"rollouts,omitempty"`
	ID       string   `json:"rollout_id,omitempty"`
	ItemID   string   `json:"item_id,omitempty"`
	Step     *int     `json:"step,omitempty"`
	Attempt  *int     `json:"attempt,omitempty"`
	Outcome  string   `json:"outcome,omitempty"`
	Score    *float64 `json:"score,omitempty"`
	Turns    int      `json:"turns_used,omitempty"`
	Seconds  float64  `json:"total_seconds,omitempty"`
	Error    string   `json:"error,omitempty"`
	Tampered []string `json:"tampered,omitempty"` // kinds of what the agent did to the verification
}

func (p *jsonPrinter) write(v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line, err := chat.Marshal(v)
	if err != nil {
		return // events hold nothing that can't be encoded
	}
	_, _ = p.out.Write(append(line, '\n')) // a reader that went away must not end the run
}

func (p *jsonPrinter) emit(e event) {
	e.Time = p.now().UTC().Format(time.RFC3339Nano)
	p.write(e)
}

func (p *jsonPrinter) Begin(cfg *config.Resolved, dir, modelName string) {
	p.emit(event{Event: "begin", Text: string(cfg.Mode) + " " + cfg.Environment, RunDir: dir, Model: modelName})
}

func (p *jsonPrinter) Planned(n int)    { p.emit(event{Event: "planned", Rollouts: &n}) }
func (p *jsonPrinter) Skipped(n int)    { p.emit(event{Event: "skipped", Rollouts: &n}) }
func (p *jsonPrinter) Warn(text string) { p.emit(event{Event: "warning", Text: text}) }
func (p *jsonPrinter) Note(text string) { p.emit(event{Event: "note", Text: text}) }
func (p *jsonPrinter) End()             {}

func (p *jsonPrinter) ModelRetry(e model.RetryEvent) {
	p.emit(event{Event: "model_retry", Error: e.Err.Error(), Seconds: e.Delay.Seconds()})
}

func (p *jsonPrinter) Finished(rec *trajectories.Rollout) { p.emit(rolloutEvent("rollout", rec)) }

func (p *jsonPrinter) Retrying(rec *trajectories.Rollout, _ int) {
	p.emit(rolloutEvent("retry", rec))
}

func rolloutEvent(kind string, rec *trajectories.Rollout) event {
	e := event{Event: kind, ID: rec.ID, ItemID: rec.ItemID, Step: &rec.Step, Attempt: &rec.Attempt,
		Outcome: string(rec.Outcome), Score: rec.Score, Turns: rec.TurnsUsed, Seconds: rec.Timings.Total}
	if rec.Error != nil {
		e.Error = rec.Error.Message
	}
	if rec.Tampered() {
		e.Tampered = trajectories.KindsOfTampering(rec.Tampering).Active
	}
	return e
}

// summaryEvent is the last line of --json.
type summaryEvent struct {
	Event       string         `json:"event"`
	RunDir      string         `json:"run_dir"`
	Environment string         `json:"environment"`
	Model       string         `json:"model"`
	Score       *float64       `json:"score"`
	StdErr      *float64       `json:"score_stderr"`
	Rollouts    int            `json:"rollouts"`
	Scored      int            `json:"scored"`
	Outcomes    map[string]int `json:"outcomes"`
	Metrics     chat.Object    `json:"metrics"`
	Items       []itemEvent    `json:"items"`
	Groups      []groupEvent   `json:"groups,omitempty"`
	Training    *trainingEvent `json:"training_groups,omitempty"`
	Tampering   tamperingEvent `json:"tampering"`
	Mixed       []string       `json:"config_changes,omitempty"`
	Deviations  []string       `json:"deviations,omitempty"`
	Notes       []string       `json:"notes,omitempty"`
	Spent       spentEvent     `json:"spent"`
	WallSeconds float64        `json:"wall_seconds"`
}

// trainingEvent counts the groups of a run that makes some.
type trainingEvent struct {
	Kept    int            `json:"kept"`
	Dropped map[string]int `json:"dropped"`           // groups, by reason
	LeftOut map[string]int `json:"rollouts_left_out"` // of groups that were kept, by reason
}

type itemEvent struct {
	ID       string   `json:"item_id"`
	Rollouts int      `json:"rollouts"`
	Scored   int      `json:"scored"`
	Passed   int      `json:"passed"`
	Mean     *float64 `json:"mean_score"`
}

type groupEvent struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Items    int      `json:"items"`
	Rollouts int      `json:"rollouts"`
	Scored   int      `json:"scored"`
	Passed   int      `json:"passed"`
	Mean     *float64 `json:"mean_score"`
	StdErr   *float64 `json:"score_stderr"`
}

func (p *jsonPrinter) Summary(s *env.Summary, _ *config.Resolved) {
	e := summaryEvent{Event: "summary", RunDir: s.Dir, Environment: s.Environment, Model: s.Model,
		Score: finite(s.Score.Mean), StdErr: finite(s.Score.StdErr), Rollouts: s.Rollouts, Scored: s.Score.N,
		Outcomes: map[string]int{}, Items: []itemEvent{}, Spent: spentOf(s), WallSeconds: s.Wall.Seconds()}
	for o, n := range s.Outcomes {
		e.Outcomes[string(o)] = n
	}
	for _, m := range s.Metrics {
		if v := finite(m.Value); v != nil {
			encoded, err := chat.Marshal(*v)
			if err == nil {
				e.Metrics.Set(m.Name, encoded)
			}
		}
	}
	for _, it := range s.Items {
		e.Items = append(e.Items, itemEvent{it.ID, it.Rollouts, it.Scored, it.Passed, finite(it.Mean)})
	}
	for _, g := range s.Groups {
		e.Groups = append(e.Groups, groupEvent{g.Kind, g.Name, g.Items, g.Rollouts, g.Score.N, g.Passed, finite(g.Score.Mean), finite(g.Score.StdErr)})
	}
	if t := s.TrainingGroups; t != nil {
		e.Training = &trainingEvent{Kept: t.Kept, Dropped: byReason(t.Dropped), LeftOut: byReason(t.LeftOut)}
	}
	e.Tampering = tamperingEventOf(s.Tampering)
	for i := range s.Mixed {
		e.Mixed = append(e.Mixed, s.Mixed[i].Sentence())
	}
	e.Deviations, e.Notes = s.Deviations, s.Notes
	p.write(e)
}

func byReason(counts []env.ReasonCount) map[string]int {
	named := make(map[string]int, len(counts))
	for _, c := range counts {
		named[string(c.Reason)] = c.Count
	}
	return named
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

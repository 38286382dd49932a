package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/tracking"
)

// logEvery is the shortest time between two logs of a run's figures but the last.
const logEvery = 5 * time.Second

// runMetrics gathers the figures of a run as they come and takes them to where the
// configuration says. A nil *runMetrics gathers nothing.
type runMetrics struct {
	cfg      *config.Resolved
	prefix   string // of the names: train, or eval
	now      func() time.Time
	warn     func(string)
	window   *tracking.Window
	sinks    *tracking.Fanout
	recorder *tracking.Recorder
	wandb    *tracking.Wandb // nil without
	decode   func(context.Context, []int) (string, error)
	first    int // step of the last log of earlier sessions

	mu     sync.Mutex
	done   int // groups of this session, in evaluate rollouts
	groups map[int]*openGroup
	step   func() int // the trainer's; nil where there is none
}

// openGroup is what is known of a group before it is judged.
type openGroup struct {
	started  time.Time
	unscored int
	rows     map[int]tracking.RolloutRow // by attempt
}

// newRunMetrics prepares the figures of a run. Nothing is written before open.
func newRunMetrics(cfg *config.Resolved, now func() time.Time, warn func(string)) *runMetrics {
	m := &runMetrics{cfg: cfg, prefix: "train", now: now, warn: warn, groups: make(map[int]*openGroup)}
	e := cfg.Env
	w := tracking.WindowConfig{Groups: e.NumRolloutsToKeep, PerGroup: e.NumRolloutsPerGroupForLogging, MaxTokens: e.MaxTokenLength}
	if len(cfg.Servers) > 0 {
		w.Requests = cfg.Servers[0].RollingBufferLength
	}
	if cfg.Mode == config.Evaluate {
		m.prefix, w.Sent, w.Rejected = "eval", "rollouts_scored", "rollouts_unscored"
		if !e.UseWandb {
			w.Groups = 0 // the run directory has the conversations, and nobody asked for them elsewhere
		}
	}
	w.Prefix = m.prefix
	m.window, m.sinks = tracking.NewWindow(w), tracking.NewFanout(warn)
	m.recorder = tracking.NewRecorder(tracking.RecorderConfig{Window: m.window, Sink: m.sinks, MinItems: e.MinItemsSentBeforeLogging, Every: logEvery, Now: now})
	return m
}

// wandbNames are what only a trainer knows of a run for Weights & Biases.
type wandbNames struct{ Project, Group string }

// open begins to write into the run directory. prometheus is nil where nobody listens.
func (m *runMetrics) open(dir string, trainer wandbNames, prometheus *tracking.Prometheus) {
	if m == nil {
		return
	}
	if prometheus != nil {
		m.sinks.Add("the text for Prometheus", prometheus)
	}
	lines, err := tracking.NewJSONL(dir, m.now)
	if err != nil {
		m.warn(fmt.Sprintf("no figures are written while the run goes on: %v", err))
	} else {
		m.first = lines.LastStep()
		m.sinks.Add(filepath.Join(dir, tracking.MetricsFile), lines)
	}
	if !m.cfg.Env.UseWandb {
		return
	}
	c := m.wandbConfig(trainer)
	c.Dir = filepath.Join(dir, "wandb")
	if m.wandb, err = tracking.NewWandb(c); err != nil {
		m.warn(fmt.Sprintf("env.use_wandb: %v", err))
		return
	}
	m.sinks.Add(m.wandb.Dir(), m.wandb)
}

func (m *runMetrics) wandbConfig(trainer wandbNames) tracking.WandbConfig {
	e := m.cfg.Env
	name := e.WandbName
	if name == "" {
		name = m.cfg.Environment
	}
	host, _ := os.Hostname() // it is only shown
	return tracking.WandbConfig{
		Project: cmp.Or(e.WandbProject, trainer.Project), Group: cmp.Or(e.WandbGroup, trainer.Group),
		Name: name + "-" + m.now().Format("2006-01-02") + "-" + randomLetters(), JobType: string(m.cfg.Mode), Host: host,
		Producer: "hermes-env " + Version(), Config: flatConfig(m.cfg), FirstStep: m.first, Now: m.now,
	}
}

// flatConfig is the configuration as the original framework showed it: the fields of
// the env section beside each other, and the rest by section. Secrets are not in it.
func flatConfig(cfg *config.Resolved) []byte {
	var flat chat.Object
	root := gjson.ParseBytes(cfg.CanonicalJSON())
	root.Get("env").ForEach(func(key, value gjson.Result) bool {
		flat.Set(key.String(), []byte(value.Raw))
		return true
	})
	root.ForEach(func(key, value gjson.Result) bool {
		if key.String() != "env" {
			flat.Set(key.String(), []byte(value.Raw))
		}
		return true
	})
	return flat.Append(nil)
}

// randomLetters are six lower-case letters.
func randomLetters() string {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails, as crypto/rand documents
	for i, b := range random {
		random[i] = 'a' + b%26
	}
	return string(random[:])
}

// decodeWith has the texts of rollouts made from their exact tokens.
func (m *runMetrics) decodeWith(decode func(context.Context, []int) (string, error)) {
	if m != nil {
		m.decode = decode
	}
}

// follow makes the trainer's step that of the figures.
func (m *runMetrics) follow(step func() int) {
	if m != nil {
		m.step = step
	}
}

// observe returns an observer that takes note of the rollouts and groups an inner one
// is told of.
func (m *runMetrics) observe(inner env.Observer) env.Observer {
	if m == nil {
		return inner
	}
	return &trackedRun{Observer: inner, metrics: m}
}

// trackedRun is an env.Observer whose rollouts and groups are counted.
type trackedRun struct {
	env.Observer
	metrics *runMetrics
}

// Finished implements env.Observer.
func (t *trackedRun) Finished(rec *trajectories.Rollout) {
	t.metrics.finished(rec)
	t.Observer.Finished(rec)
}

// GroupJudged implements env.GroupObserver.
func (t *trackedRun) GroupJudged(step int, item env.Item, verdict env.GroupVerdict) {
	t.metrics.judged(step, verdict)
	if o, ok := t.Observer.(env.GroupObserver); ok {
		o.GroupJudged(step, item, verdict)
	}
}

func (m *runMetrics) finished(rec *trajectories.Rollout) {
	w, window := m.window, m.prefix+"_window/"
	w.Count(window+"rollouts/"+string(rec.Outcome), 1)
	w.Count(window+"prompt_tokens", float64(rec.Usage.PromptTokens))
	w.Count(window+"completion_tokens", float64(rec.Usage.CompletionTokens))
	w.Sample(window+"turns", float64(rec.TurnsUsed))
	if rec.Score != nil {
		w.Sample(window+"score", *rec.Score)
	}
	countTampering(w, window, rec)
	for _, n := range completionLengths(rec) {
		w.Completion(n)
	}
	if m.prefix == "eval" {
		m.evaluated(rec)
		return
	}
	wanted := rec.Attempt < w.WantsRows(m.cfg.Env.GroupSize) && rec.Score != nil
	var row tracking.RolloutRow
	if wanted {
		row = tracking.RolloutRow{Text: m.text(rec), Score: *rec.Score}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[rec.Step]
	if g == nil {
		g = &openGroup{started: rec.StartedAt, rows: make(map[int]tracking.RolloutRow)}
		m.groups[rec.Step] = g
	}
	if rec.StartedAt.Before(g.started) {
		g.started = rec.StartedAt
	}
	if wanted {
		g.rows[rec.Attempt] = row
	}
	if rec.Score == nil {
		g.unscored++
	}
}

// evaluated counts a rollout of an evaluation, which has no groups.
func (m *runMetrics) evaluated(rec *trajectories.Rollout) {
	took := rec.FinishedAt.Sub(rec.StartedAt)
	if rec.Score != nil {
		if rec.Attempt < m.window.WantsRows(m.cfg.Env.Attempts) {
			m.window.Group([]tracking.RolloutRow{{Text: m.text(rec), Score: *rec.Score}})
		}
		m.window.Sent(took)
	} else {
		m.window.Rejected(string(rec.Outcome), took)
	}
	m.tick()
}

func (m *runMetrics) judged(step int, verdict env.GroupVerdict) {
	m.count(m.take(step), verdict.Group != nil, string(verdict.Reason))
}

// ended counts a group that nobody judged, since the run makes no groups for training.
func (m *runMetrics) ended(step int) {
	if m == nil || m.prefix == "eval" {
		return
	}
	if g := m.take(step); g != nil {
		m.count(g, g.unscored == 0, string(env.DropMissingMember))
	}
}

// take returns a group that is over, nil when it is not known.
func (m *runMetrics) take(step int) *openGroup {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[step]
	delete(m.groups, step)
	return g
}

// count counts a group, of which nothing but its end is known when g is nil.
func (m *runMetrics) count(g *openGroup, kept bool, reason string) {
	var took time.Duration
	if g != nil {
		took = m.now().Sub(g.started)
	}
	if !kept {
		m.window.Rejected(reason, took)
	} else {
		if g != nil {
			m.window.Group(g.inOrder())
		}
		m.window.Sent(took)
	}
	m.tick()
}

func (g *openGroup) inOrder() []tracking.RolloutRow {
	var rows []tracking.RolloutRow
	for attempt := 0; len(rows) < len(g.rows); attempt++ {
		if row, ok := g.rows[attempt]; ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// tick logs when a log is due. Where a trainer counts the steps, its next one is waited
// for, since the figures of one step overwrite each other in places.
func (m *runMetrics) tick() {
	m.mu.Lock()
	m.done++
	m.mu.Unlock()
	if m.step != nil {
		return
	}
	m.recorder.Tick(m.current(), nil)
}

// current is the step of the figures: the trainer's, or how many groups are over.
func (m *runMetrics) current() int {
	if m.step != nil {
		return m.step()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.first + m.done
}

// finish logs the figures of the whole run, ends the sinks and returns what there is to
// tell about them, "" when there is nothing.
func (m *runMetrics) finish(s *env.Summary) string {
	if m == nil {
		return ""
	}
	var figures []tracking.Metric
	if s != nil {
		for _, f := range s.Metrics {
			figures = append(figures, tracking.Metric(f))
		}
	}
	m.recorder.Log(m.current(), figures)
	m.recorder.Close()
	if m.wandb == nil {
		return ""
	}
	return "an offline run of Weights & Biases is in " + m.wandb.Dir() + "; upload it with: " + m.wandb.SyncCommand()
}

// timed returns a client that counts how long answers of a pool's servers take.
func (m *runMetrics) timed(c model.Client, pool *model.Pool) model.Client {
	if m == nil {
		return c
	}
	t := &timedClient{next: c, metrics: m, servers: make(map[string]int)}
	members, _ := pool.Snapshot()
	for i, member := range members {
		if _, known := t.servers[member.Name]; !known {
			t.servers[member.Name] = i
		}
	}
	return t
}

// evaluationKey marks the context of requests that an evaluation makes.
type evaluationKey struct{}

// asEvaluation has the requests made in a context counted as those of an evaluation.
func asEvaluation(ctx context.Context) context.Context {
	return context.WithValue(ctx, evaluationKey{}, true)
}

type timedClient struct {
	next    model.Client
	metrics *runMetrics
	servers map[string]int // by the name that answers carry
}

// Complete implements model.Client.
func (t *timedClient) Complete(ctx context.Context, req *model.Request) (*model.Response, error) {
	begun := time.Now()
	resp, err := t.next.Complete(ctx, req)
	if err == nil {
		if server, known := t.servers[resp.Server]; known {
			evaluation := t.metrics.prefix == "eval" || ctx.Value(evaluationKey{}) != nil
			t.metrics.window.Request(server, evaluation, max(0, time.Since(begun)-resp.Wait), resp.Attempts)
		}
	}
	return resp, err
}

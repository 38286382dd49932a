package server

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/trajectories/tracking"
)

// describe gathers what the state and the server know.
func (s *Server) describe() *atropos.Overview {
	now := s.config.now()
	var o *atropos.Overview
	s.store.look(func(state *atropos.State) { o = state.Overview(now) })
	o.Version = s.config.Version
	o.UptimeSeconds = now.Sub(s.begun).Seconds()
	o.Rates = s.rates.averages(now)
	if asked := s.asked.Load(); asked != nil {
		silent := max(0, now.Sub(*asked).Seconds())
		o.TrainerSilent = &silent
	}
	c := &s.counters
	o.Totals = atropos.Totals{Groups: c.groups.Load(), Sequences: c.sequences.Load(), Tokens: c.tokens.Load(), Duplicates: c.duplicates.Load(),
		Rejected: c.rejected.Load(), Refused: c.refused.Load(), Batches: c.batches.Load(), Redelivered: c.redelivered.Load()}
	o.Limits = atropos.Limits{Bytes: s.config.MaxBytes, Sequences: s.config.MaxSequences}
	if err := s.store.problem(); err != nil {
		o.Problem = err.Error()
	}
	return o
}

func (s *Server) overview(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, s.describe())
}

// exposition is the text of the server's figures.
type exposition struct{ tracking.Exposition }

func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) error {
	o := s.describe()
	var lost int64
	s.store.look(func(*atropos.State) { lost = s.store.lost })
	c := &s.counters
	var e exposition
	e.Metric("hermes_api_current_step", "gauge", "Batches handed out, and the starting step.", float64(o.CurrentStep))
	e.Metric("hermes_api_trainer_registered", "gauge", "1 when a trainer is registered.", truth(o.Registered))
	if o.TrainerSilent != nil {
		e.Metric("hermes_api_trainer_silent_seconds", "gauge", "Seconds since a batch was asked for.", *o.TrainerSilent)
	}
	e.amounts("held", "Groups that are taken and not delivered, by where they are.", []labelled{
		{"queue", o.Queue}, {"buffer", o.Buffered}, {"batch", o.Undelivered}})
	e.Metric("hermes_api_unbatchable_groups", "gauge", "Queued groups that are larger than a batch.", float64(o.Unbatchable.Groups))
	e.Metric("hermes_api_stuck", "gauge", "1 when there are enough sequences for a batch and no groups add up to one.", truth(o.Stuck != ""))
	e.Metric("hermes_api_accepted_groups_total", "counter", "Groups taken since the start.", float64(o.Totals.Groups))
	e.Metric("hermes_api_accepted_sequences_total", "counter", "Sequences taken since the start.", float64(o.Totals.Sequences))
	e.Metric("hermes_api_accepted_tokens_total", "counter", "Tokens taken since the start.", float64(o.Totals.Tokens))
	e.Metric("hermes_api_duplicate_posts_total", "counter", "Posts answered from their idempotency key.", float64(o.Totals.Duplicates))
	e.Metric("hermes_api_rejected_posts_total", "counter", "Posts refused for what they hold.", float64(o.Totals.Rejected))
	e.Metric("hermes_api_refused_posts_total", "counter", "Posts refused since there was no room.", float64(o.Totals.Refused))
	e.Metric("hermes_api_delivered_batches_total", "counter", "Batches delivered since the start.", float64(o.Totals.Batches))
	e.Metric("hermes_api_redelivered_batches_total", "counter", "Batches sent once more.", float64(o.Totals.Redelivered))
	e.Metric("hermes_api_interrupted_batches_total", "counter", "Replies with a batch that broke off.", float64(c.interrupted.Load()))
	e.Metric("hermes_api_lost_groups_total", "counter", "Groups whose data the disk damaged.", float64(lost))
	e.Metric("hermes_api_received_bytes_total", "counter", "Bytes of request bodies, as they came.", float64(c.received.Load()))
	e.Metric("hermes_api_sent_bytes_total", "counter", "Bytes of groups sent, as they went.", float64(c.sent.Load()))
	e.Metric("hermes_api_limit_sequences", "gauge", "Sequences held at most.", float64(o.Limits.Sequences))
	e.Metric("hermes_api_limit_bytes", "gauge", "Bytes held at most.", float64(o.Limits.Bytes))
	e.Metric("hermes_api_uptime_seconds", "gauge", "Seconds since the start.", o.UptimeSeconds)
	e.Metric("hermes_api_healthy", "gauge", "1 when data is taken.", truth(o.Problem == ""))
	e.workers(o.Workers)
	w.Header().Set("Content-Type", tracking.ExpositionType)
	_, _ = w.Write([]byte(e.String())) // a client that went away asks again
	return nil
}

type labelled struct {
	place  string
	amount atropos.Amount
}

func (e *exposition) amounts(name, help string, rows []labelled) {
	for _, unit := range []struct {
		name  string
		value func(atropos.Amount) int64
	}{
		{"groups", func(a atropos.Amount) int64 { return a.Groups }},
		{"sequences", func(a atropos.Amount) int64 { return a.Sequences }},
		{"tokens", func(a atropos.Amount) int64 { return a.Tokens }},
		{"bytes", func(a atropos.Amount) int64 { return a.Bytes }},
	} {
		full := "hermes_api_" + name + "_" + unit.name
		e.Family(full, "gauge", help)
		for _, row := range rows {
			e.Sample(full, tracking.Label("place", row.place), float64(unit.value(row.amount)))
		}
	}
}

func (e *exposition) workers(workers []atropos.WorkerOverview) {
	for _, m := range []struct {
		name, kind, help string
		value            func(atropos.WorkerOverview) float64
	}{
		{"hermes_api_worker_alive", "gauge", "1 when a worker is connected and was heard of lately.", func(w atropos.WorkerOverview) float64 { return truth(w.Alive) }},
		{"hermes_api_worker_silent_seconds", "gauge", "Seconds since a worker was heard of.", func(w atropos.WorkerOverview) float64 { return w.SilentSeconds }},
		{"hermes_api_worker_queued_groups", "gauge", "Groups of a worker in the queue.", func(w atropos.WorkerOverview) float64 { return float64(w.Queued.Groups) }},
		{"hermes_api_worker_accepted_groups_total", "counter", "Groups of a worker taken since the start.", func(w atropos.WorkerOverview) float64 { return float64(w.Accepted) }},
	} {
		if len(workers) == 0 {
			return
		}
		e.Family(m.name, m.kind, m.help)
		for _, w := range workers {
			e.Sample(m.name, tracking.Label("env_id", strconv.FormatInt(w.EnvID, 10))+","+tracking.Label("name", w.Name), m.value(w))
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Summary says in a few words what the server holds.
func (s *Server) Summary() string {
	o := s.describe()
	if !o.Registered && o.Queue.Groups == 0 {
		return "empty"
	}
	held := o.Queue.Groups + o.Buffered.Groups + o.Undelivered.Groups
	return fmt.Sprintf("step %d, %d groups (%d sequences), %d workers", o.CurrentStep, held, o.Queue.Sequences+o.Buffered.Sequences+o.Undelivered.Sequences, len(o.Workers))
}

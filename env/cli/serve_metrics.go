package cli

import (
	"context"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/trajectories/tracking"
)

// gaugesEvery is how often Prometheus gets to see how the worker stands.
const gaugesEvery = 2 * time.Second

// openMetrics begins to log the worker's figures under the name and the steps that the
// trainer's server has for it.
func (w *workerRun) openMetrics(figures *metricsServer) {
	info := w.worker.WandbInfo()
	var names wandbNames
	if info.Project != nil {
		names.Project = *info.Project
	}
	if info.Group != nil {
		names.Group = *info.Group
	}
	w.metrics.window.Prepend(w.worker.Status().Name)
	w.metrics.follow(w.step)
	w.metrics.open(w.store.Dir(), names, figures.sink())
	w.view.onStep(func(step int64) { w.metrics.recorder.Tick(int(step), w.gauges) })
}

// step is the trainer's.
func (w *workerRun) step() int { return int(w.worker.Status().Queue.CurrentStep) }

// gauges say how the worker stands.
func (w *workerRun) gauges() []tracking.Metric {
	s := w.worker.Status()
	flag := func(on bool) float64 {
		if on {
			return 1
		}
		return 0
	}
	return []tracking.Metric{
		{Name: "serve/trainer_step", Value: float64(s.Queue.CurrentStep)},
		{Name: "serve/queue_groups", Value: float64(s.Queue.QueueSize)},
		{Name: "serve/running_groups", Value: float64(s.Running)},
		{Name: "serve/spooled_groups", Value: float64(s.Spooled)},
		{Name: "serve/sent_groups_total", Value: float64(s.Sent.Groups)},
		{Name: "serve/sent_sequences_total", Value: float64(s.Sent.Sequences)},
		{Name: "serve/sent_tokens_total", Value: float64(s.Sent.Tokens)},
		{Name: "serve/refused_groups_total", Value: float64(s.Refused.Groups)},
		{Name: "serve/registered", Value: flag(s.Registered)},
		{Name: "serve/server_away", Value: flag(s.Away != "")},
		{Name: "serve/evaluating", Value: flag(s.Evaluating)},
	}
}

// showGauges keeps the figures for Prometheus fresh until stop is called: a worker that
// waits logs nothing.
func (w *workerRun) showGauges(ctx context.Context, figures *metricsServer) (stop func()) {
	sink := figures.sink()
	if sink == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		ticker := time.NewTicker(gaugesEvery)
		defer ticker.Stop()
		for {
			_ = sink.Log(w.step(), w.gauges(), nil) // into memory
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return func() {
		cancel()
		ended.Wait()
	}
}

// evaluated logs the figures of an evaluation at the step it is about.
func (w *workerRun) evaluated(step int64, s *env.Summary) {
	figures := w.gauges()
	for _, m := range s.Metrics {
		figures = append(figures, tracking.Metric(m))
	}
	w.metrics.recorder.Log(int(step), figures)
}

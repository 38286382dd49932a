package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/trajectories"
)

// ratesEvery is how often the state of the model servers' rates is looked at.
const ratesEvery = time.Second

// watchRates shows how far the rates of the servers hold a run back, until the client
// is closed.
func (m *modelClient) watchRates(pool *model.Pool, out printer) {
	m.rates, m.share = pool.Rates, pool.SetShare
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(ratesEvery)
		defer ticker.Stop()
		var last model.RateStatus
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			now := m.rates()
			if now.Waiting > 0 || now != last {
				out.Rates(now)
			}
			last = now
		}
	})
	m.closers = append(m.closers, func() error { close(done); wg.Wait(); return nil })
}

// rateMetrics are the figures of metrics.json about the rates of the model servers;
// none when nothing was held back.
func (m *modelClient) rateMetrics(s *env.Summary, out printer) []env.Metric {
	if m.rates == nil {
		return nil
	}
	now := m.rates()
	if now.Refused == 0 && now.Held == 0 && s.Time.Held == 0 {
		return nil
	}
	out.Rates(now)
	return []env.Metric{
		{Name: "server/rate_limited_seconds", Value: now.Held.Seconds()},
		{Name: "server/rate_limit_wait_seconds", Value: s.Time.Held},
		{Name: "server/refused_requests", Value: float64(now.Refused)},
	}
}

// ratesText says for people what holds a run back now.
func ratesText(r model.RateStatus) string {
	parts := []string{fmt.Sprintf("rate limited: %d waiting", r.Waiting)}
	if r.NextIn > 0 {
		parts = append(parts, "next in "+waitText(r.NextIn))
	}
	if r.AtOnce > 0 {
		parts = append(parts, fmt.Sprintf("%d → %d at once", r.Before, r.AtOnce))
	}
	return strings.Join(parts, ", ")
}

// ratesSummary says at the end what rates have cost; "" when they cost nothing. waited
// is added up over all rollouts of the run, r is about this session.
func ratesSummary(r model.RateStatus, waited float64) string {
	var parts []string
	if r.Held >= time.Millisecond {
		parts = append(parts, "requests were held back for "+roundDuration(r.Held)+" of this session")
	}
	if waited >= 0.001 {
		parts = append(parts, "the rollouts waited "+roundDuration(time.Duration(waited*float64(time.Second)))+" in all, which no time limit counts")
	}
	if r.Refused > 0 {
		parts = append(parts, fmt.Sprintf("%s refused by the server", counted(r.Refused, "request")))
	}
	return strings.Join(parts, "; ")
}

func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return trajectories.Thousands(n) + " " + what + "s"
}

func waitText(d time.Duration) string {
	if d < time.Second {
		return "under 1 s"
	}
	if d < 2*time.Minute {
		return fmt.Sprintf("%d s", int(d.Round(time.Second)/time.Second))
	}
	return d.Round(time.Second).String()
}

// ratesLineEvery is how often lines about the rates are printed where there is no bar.
const ratesLineEvery = 30 * time.Second

// Rates shows what holds the run back: in the bar, or as a line now and then.
func (p *textPrinter) Rates(r model.RateStatus) {
	p.mu.Lock()
	p.rates, p.rated = r, true
	if p.bar != nil {
		p.advance(0)
		p.mu.Unlock()
		return
	}
	now := time.Now()
	quiet := r.Waiting == 0 || now.Sub(p.lastRates) < ratesLineEvery
	if !quiet {
		p.lastRates = now
	}
	p.mu.Unlock()
	if !quiet {
		p.line(ratesText(r))
	}
}

// ratesEvent is a line of --json.
type ratesEvent struct {
	Event         string  `json:"event"`
	Time          string  `json:"time"`
	Waiting       int     `json:"waiting"`
	NextSeconds   float64 `json:"next_seconds"`
	AtOnce        int     `json:"at_once,omitempty"`
	Before        int     `json:"at_once_before,omitempty"`
	Refused       int64   `json:"refused"`
	HeldSeconds   float64 `json:"held_seconds"`
	WaitedSeconds float64 `json:"waited_seconds"`
}

// Rates writes an event, at most one in ten seconds while requests wait.
func (p *jsonPrinter) Rates(r model.RateStatus) {
	now := p.now()
	p.mu.Lock()
	quiet := r.Waiting == 0 || now.Sub(p.lastRates) < 10*time.Second
	if !quiet {
		p.lastRates = now
	}
	p.mu.Unlock()
	if quiet {
		return
	}
	p.write(ratesEvent{
		Event: "rate_limited", Time: now.UTC().Format(time.RFC3339Nano), Waiting: r.Waiting, NextSeconds: r.NextIn.Seconds(),
		AtOnce: r.AtOnce, Before: r.Before, Refused: r.Refused, HeldSeconds: r.Held.Seconds(), WaitedSeconds: r.Waited.Seconds(),
	})
}

package terminalbench

import (
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/trajectories"
)

// counted says whether a rollout counts in the original's figures: everything but
// what trouble with machines or networks kept from being tried or judged.
func counted(r env.Record) bool {
	switch r.Outcome {
	case trajectories.OutcomeCancelled, trajectories.OutcomeModelError, trajectories.OutcomeSandboxError:
		return false
	}
	return true
}

// Aggregate adds the original's figures. Their pass rates count a rollout without a
// reward as failed, because an agent can bring that about; what the infrastructure
// did is left out and counted apart.
func (e *Environment) Aggregate(records iter.Seq[env.Record]) []env.Metric {
	type tally struct{ n, passed int }
	total := tally{}
	groups := map[string]*tally{}
	count := func(name string, passed bool) {
		if groups[name] == nil {
			groups[name] = &tally{}
		}
		groups[name].n++
		if passed {
			groups[name].passed++
		}
	}
	excluded := 0
	spent := 0.0
	for r := range records {
		spent += r.Timings.Total
		if !counted(r) {
			excluded++
			continue
		}
		passed := r.Passed != nil && *r.Passed
		total.n++
		if passed {
			total.passed++
		}
		t, ok := e.byName[r.ItemID]
		if !ok {
			continue // of an earlier session with other tasks
		}
		count("eval/pass_rate_"+metricName(t.category), passed)
		if t.difficulty != "" {
			count("eval/pass_rate_difficulty_"+metricName(t.difficulty), passed)
		}
	}
	list := []env.Metric{
		{Name: "eval/total_tasks", Value: float64(total.n)}, // each attempt counts, so that the rate is their ratio
		{Name: "eval/passed_tasks", Value: float64(total.passed)},
		{Name: "eval/infrastructure_failures", Value: float64(excluded)},
		{Name: "eval/rollout_seconds", Value: spent},
	}
	rate := math.NaN()
	if total.n > 0 {
		rate = float64(total.passed) / float64(total.n)
	}
	list = append(list, env.Metric{Name: "eval/pass_rate", Value: rate})
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		list = append(list, env.Metric{Name: name, Value: float64(groups[name].passed) / float64(groups[name].n)})
	}
	if e.HasProtocol() { // else there are no published results to compare with
		comparable := 1.0
		if len(e.Deviations()) > 0 {
			comparable = 0
		}
		list = append(list, env.Metric{Name: "eval/comparable", Value: comparable})
	}
	return list
}

// metricName writes a category as the original's metrics do.
func metricName(category string) string {
	return strings.ToLower(strings.NewReplacer(" ", "_", "-", "_").Replace(category))
}

// Groups returns how a task is sorted in tables.
func (e *Environment) Groups(item string) []env.GroupName {
	t, ok := e.byName[item]
	if !ok {
		return nil
	}
	groups := []env.GroupName{{Kind: "category", Name: t.category}}
	if t.difficulty != "" {
		groups = append(groups, env.GroupName{Kind: "difficulty", Name: t.difficulty})
	}
	return groups
}

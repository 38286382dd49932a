package env

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Record is what metrics are computed from: one recorded rollout without its conversation.
type Record = trajectories.Entry

// Metric is one named number of metrics.json, for example eval/score.
type Metric struct {
	Name  string
	Value float64
}

// PassRate is the estimate of pass@k.
type PassRate struct {
	K     int
	Value float64
}

// ItemResult is how one item fared over its attempts.
type ItemResult struct {
	ID       string
	Rollouts int
	Scored   int
	Passed   int
	Mean     float64 // NaN when nothing is scored
	Turns    int     // of all rollouts

	group int // the first one it was in, for the order
}

// Summary is the state of a whole run, all of its sessions included.
type Summary struct {
	Mode        config.Mode
	Environment string
	Agent       Agent
	Model       string
	Dir         string

	Planned  int // rollouts that the whole run has; -1 when unknown
	Rollouts int // recorded ones
	Outcomes map[trajectories.Outcome]int
	Score    Estimate // over scored rollouts
	// UnscoredAsZero is the mean when every unscored rollout counts as 0.
	UnscoredAsZero float64
	PassRate       float64 // share of scored rollouts that passed; NaN without any
	PassAtK        []PassRate
	Items          []ItemResult                // in the order of the dataset
	Groups         []GroupResult               // of an environment that groups its items, sorted by kind and name
	TrainingGroups *TrainingGroups             // nil when the run makes no groups
	Mixed          []trajectories.ConfigChange // changes of settings that the run went on in spite of
	Deviations     []string                    // why the results can't be set beside published ones
	Notes          []string                    // remarks of the environment
	Tampering      TamperingSummary
	TestLimits     []TestLimit // in what ways tests could not be kept apart from the agent's code
	Metrics        []Metric    // everything above as named numbers, then the environment's own

	// SandboxEnds is how often sandboxes ended while a rollout had them, in SandboxEndsIn
	// of the rollouts.
	SandboxEnds, SandboxEndsIn int

	Turns            int
	PromptTokens     int64
	CompletionTokens int64
	Time             trajectories.EntryTimings // added up over the rollouts, seconds
	Wall             time.Duration             // of this session

	Spent    trajectories.Spent // by everything ever recorded, rollouts that were run again included
	AgainUSD float64            // of Spent.USD, for rollouts that were taken out to be run again
	Active   time.Duration      // of all sessions
}

// Unscored returns the share of rollouts without a score, cancelled ones apart.
func (s *Summary) Unscored() float64 {
	counted := s.Rollouts - s.Outcomes[trajectories.OutcomeCancelled]
	if counted == 0 {
		return 0
	}
	return float64(counted-s.Score.N) / float64(counted)
}

func (r *Runner) summarize(wall time.Duration) *Summary {
	s := &Summary{
		Mode: r.opts.Mode, Environment: r.opts.Environment.Name(), Agent: r.opts.Agent, Model: r.opts.ModelName,
		Dir: r.opts.Store.Dir(), Wall: wall, Planned: r.planned(),
	}
	entries := func(yield func(Record) bool) {
		stop := errors.New("stop")
		if err := r.opts.Store.EachEntry(func(e Record) error {
			if !yield(e) {
				return stop
			}
			return nil
		}); err != nil && !errors.Is(err, stop) {
			r.opts.Observer.Warn(fmt.Sprintf("the summary is incomplete: %v", err))
		}
	}
	s.add(entries)
	s.Tampering = summarizeTampering(entries)
	s.TestLimits = SummarizeTestLimits(entries)
	s.spend(r.opts.Store, entries)
	s.TrainingGroups = r.trainingGroups()
	s.Mixed = r.opts.Store.Manifest().ConfigHistory
	s.Metrics = s.metrics()
	if g, ok := r.opts.Environment.(Grouper); ok {
		s.Groups = groupResults(g, entries)
	}
	for _, l := range s.TestLimits {
		s.Notes = append(s.Notes, l.Sentence())
	}
	if n, ok := r.opts.Environment.(Noter); ok {
		s.Notes = append(s.Notes, n.Notes()...)
	}
	if p, ok := r.opts.Environment.(Protocol); ok && p.HasProtocol() {
		s.Deviations = p.Deviations()
		for i := range s.Mixed {
			s.Deviations = append(s.Deviations, s.Mixed[i].Sentence())
		}
	}
	if a, ok := r.opts.Environment.(Aggregator); ok {
		s.Metrics = override(s.Metrics, a.Aggregate(entries))
	}
	return s
}

// spend takes over what the run has used and cost.
func (s *Summary) spend(store *trajectories.Run, entries iter.Seq[Record]) {
	var kept trajectories.Spent
	for e := range entries {
		kept.Add(e)
	}
	manifest := store.Manifest()
	s.Spent, s.Active = store.Spent(), manifest.Active(time.Now())
	s.AgainUSD = max(0, s.Spent.USD-kept.USD)
	if s.Spent.Recorded == kept.Recorded {
		s.AgainUSD = 0 // what is left is an error of rounding
	}
}

// groupResults adds up the rollouts of each group. Kinds keep the order in which the
// environment names them.
func groupResults(g Grouper, entries iter.Seq[Record]) []GroupResult {
	var results []GroupResult
	var kinds []string
	scores := make(map[GroupName]map[string][]float64)
	index := make(map[GroupName]int)
	items := make(map[GroupName]map[string]bool)
	for e := range entries {
		if e.Outcome == trajectories.OutcomeCancelled {
			continue
		}
		for _, name := range g.Groups(e.ItemID) {
			i, ok := index[name]
			if !ok {
				i = len(results)
				index[name], scores[name], items[name] = i, make(map[string][]float64), make(map[string]bool)
				results = append(results, GroupResult{GroupName: name})
				if !slices.Contains(kinds, name.Kind) {
					kinds = append(kinds, name.Kind)
				}
			}
			r := &results[i]
			r.Rollouts++
			items[name][e.ItemID] = true
			if e.Score != nil {
				scores[name][e.ItemID] = append(scores[name][e.ItemID], *e.Score)
			}
			if e.Passed != nil && *e.Passed {
				r.Passed++
			}
		}
	}
	for i := range results {
		r := &results[i]
		r.Items, r.Score = len(items[r.GroupName]), ClusteredMean(scores[r.GroupName])
	}
	slices.SortStableFunc(results, func(a, b GroupResult) int {
		if a.Kind != b.Kind {
			return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return results
}

// override appends the environment's own metrics; one of the same name replaces ours.
func override(metrics, own []Metric) []Metric {
	for _, m := range own {
		i := slices.IndexFunc(metrics, func(known Metric) bool { return known.Name == m.Name })
		if i < 0 {
			metrics = append(metrics, m)
			continue
		}
		metrics[i] = m
	}
	return metrics
}

// add computes the figures of the summary from the recorded rollouts.
func (s *Summary) add(entries iter.Seq[Record]) {
	s.Outcomes = make(map[trajectories.Outcome]int)
	scores := make(map[string][]float64)
	index := make(map[string]int)
	sum, passed := 0.0, 0
	for e := range entries {
		s.Rollouts++
		s.Outcomes[e.Outcome]++
		s.Turns += e.TurnsUsed
		if s.SandboxEnds += e.SandboxEnds; e.SandboxEnds > 0 {
			s.SandboxEndsIn++
		}
		s.PromptTokens += e.Usage.PromptTokens
		s.CompletionTokens += e.Usage.CompletionTokens
		s.Time.Total += e.Timings.Total
		s.Time.Model += e.Timings.Model
		s.Time.Held += e.Timings.Held
		s.Time.Tools += e.Timings.Tools
		s.Time.Sandbox += e.Timings.Sandbox
		s.Time.Verify += e.Timings.Verify
		s.Time.Harness += e.Timings.Harness
		i, ok := index[e.ItemID]
		if !ok {
			i = len(s.Items)
			index[e.ItemID] = i
			s.Items = append(s.Items, ItemResult{ID: e.ItemID, group: e.Group})
		}
		item := &s.Items[i]
		item.group = min(item.group, e.Group)
		item.Rollouts++
		item.Turns += e.TurnsUsed
		if e.Score == nil {
			continue
		}
		item.Scored++
		sum += *e.Score
		scores[e.ItemID] = append(scores[e.ItemID], *e.Score)
		if e.Passed != nil && *e.Passed {
			item.Passed++
			passed++
		}
	}
	slices.SortStableFunc(s.Items, func(a, b ItemResult) int { return a.group - b.group })
	for i := range s.Items {
		s.Items[i].Mean = ClusteredMean(map[string][]float64{"": scores[s.Items[i].ID]}).Mean
	}
	s.Score = ClusteredMean(scores)
	s.PassRate, s.UnscoredAsZero = math.NaN(), math.NaN()
	if s.Score.N > 0 {
		s.PassRate = float64(passed) / float64(s.Score.N)
	}
	if counted := s.Rollouts - s.Outcomes[trajectories.OutcomeCancelled]; counted > 0 {
		s.UnscoredAsZero = sum / float64(counted)
	}
	s.PassAtK = passAtK(s.Items)
}

// passAtK averages pass@k over the items for k = 1, 2, 4, … up to the number of
// scored attempts that every item has. With one attempt there is nothing to add.
func passAtK(items []ItemResult) []PassRate {
	least := math.MaxInt
	for _, it := range items {
		least = min(least, it.Scored)
	}
	if len(items) == 0 || least < 2 {
		return nil
	}
	var rates []PassRate
	for k := 1; ; k *= 2 {
		k = min(k, least)
		sum := 0.0
		for _, it := range items {
			sum += PassAtK(it.Scored, it.Passed, k)
		}
		rates = append(rates, PassRate{K: k, Value: sum / float64(len(items))})
		if k == least {
			return rates
		}
	}
}

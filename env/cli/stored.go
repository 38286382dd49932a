package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/stats"
)

// priceFlags are the prices of tokens, for commands that show what a run cost.
type priceFlags struct {
	PromptPrice     float64 `name:"price-prompt" placeholder:"USD" help:"Price of a million prompt tokens, to show what the agent's tokens cost [what the run recorded]."`
	CompletionPrice float64 `name:"price-completion" placeholder:"USD" help:"Price of a million completion tokens."`
	CachedPrice     float64 `name:"price-cached" placeholder:"USD" help:"Price of a million cached prompt tokens [the price of the others]."`
}

func (p *priceFlags) check() error {
	for name, v := range map[string]float64{"price-prompt": p.PromptPrice, "price-completion": p.CompletionPrice, "price-cached": p.CachedPrice} {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("--%s is %v: want a price in USD from 0", name, v)
		}
	}
	return nil
}

func (p *priceFlags) config() stats.Config {
	return stats.Config{PromptPrice: p.PromptPrice, CompletionPrice: p.CompletionPrice, CachedPrice: p.CachedPrice}
}

// storedRun is a finished or running run, read for a report.
type storedRun struct {
	*trajectories.Reader
	manifest trajectories.Manifest
	config   gjson.Result
}

// openStored opens the run directory at path. It explains what is there instead
// when that is no run.
func openStored(path string) (*storedRun, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return nil, fail(ExitUsage, fmt.Errorf("%s is a file: give the run directory it lies in", path))
	}
	reader, err := trajectories.OpenReadOnly(path)
	if err != nil {
		if errors.Is(err, trajectories.ErrNotRun) {
			err = fmt.Errorf("%w%s", err, runsNear(path))
		}
		return nil, fail(ExitUsage, err)
	}
	m := reader.Manifest()
	return &storedRun{Reader: reader, manifest: m, config: gjson.ParseBytes(m.Config)}, nil
}

// runsNear names run directories below or beside a path that is none.
func runsNear(path string) string {
	var found []string
	for _, dir := range []string{path, filepath.Dir(path), "runs"} {
		matches, _ := filepath.Glob(filepath.Join(dir, "*", "run.json")) // the pattern is our own
		for _, m := range matches {
			found = append(found, filepath.Dir(m))
		}
		if len(found) > 0 {
			break
		}
	}
	if len(found) == 0 {
		return ""
	}
	sort.Strings(found)
	if len(found) > 5 {
		found = found[len(found)-5:]
	}
	return "; runs near it: " + strings.Join(found, ", ")
}

// model names the model of the run.
func (s *storedRun) model() string {
	if agent := s.agent(); agent != "model" {
		return "agent " + agent
	}
	var names []string
	s.config.Get("openai").ForEach(func(_, server gjson.Result) bool {
		if name := server.Get("model_name").String(); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
		return true
	})
	return strings.Join(names, ", ")
}

func (s *storedRun) agent() string {
	if a := s.config.Get("agent").String(); a != "" {
		return a
	}
	return "model"
}

// count returns the number of recorded rollouts that a filter takes.
func (s *storedRun) count(filter trajectories.TamperedFilter) (n int, err error) {
	err = s.EachEntry(func(e trajectories.Entry) error {
		if filter.Takes(e.Tampering) {
			n++
		}
		return nil
	})
	return n, err
}

// scores gathers the scores of a run by item.
type scores struct {
	byItem   map[string][]float64
	passed   map[string]int
	rollouts int
	counted  int // cancelled ones apart
	sum      float64
	outcomes map[trajectories.Outcome]int
	digests  map[string]string
	changed  []string // items recorded with more than one digest
}

func newScores() *scores {
	return &scores{byItem: map[string][]float64{}, passed: map[string]int{}, outcomes: map[trajectories.Outcome]int{}, digests: map[string]string{}}
}

func (s *scores) add(r *trajectories.Rollout) {
	s.rollouts++
	if o, err := trajectories.ParseOutcome(string(r.Outcome)); err == nil {
		s.outcomes[o]++
	}
	if r.Outcome != trajectories.OutcomeCancelled {
		s.counted++
	}
	if known, ok := s.digests[r.ItemID]; !ok {
		item := strings.Clone(r.ItemID) // a rollout's texts share the memory of its whole line
		s.digests[item] = strings.Clone(r.ItemDigest)
		s.byItem[item] = nil
	} else if known != r.ItemDigest && !slices.Contains(s.changed, r.ItemID) {
		s.changed = append(s.changed, strings.Clone(r.ItemID))
	}
	if r.Score == nil {
		return
	}
	s.sum += *r.Score
	s.byItem[r.ItemID] = append(s.byItem[r.ItemID], *r.Score)
	if r.Passed != nil && *r.Passed {
		s.passed[strings.Clone(r.ItemID)]++
	}
}

func (s *scores) passes() int {
	n := 0
	for _, p := range s.passed {
		n += p
	}
	return n
}

// passAtK estimates pass@k for k = 1, 2, 4, … up to the number of scored attempts
// that every item has; nil with one attempt.
func (s *scores) passAtK() []env.PassRate {
	least := math.MaxInt
	items := make([]string, 0, len(s.byItem))
	for item, list := range s.byItem {
		least = min(least, len(list))
		items = append(items, item)
	}
	if len(items) == 0 || least < 2 {
		return nil
	}
	sort.Strings(items) // a fixed order of summation gives the same digits every time
	var rates []env.PassRate
	for k := 1; ; k *= 2 {
		k = min(k, least)
		sum := 0.0
		for _, item := range items {
			sum += env.PassAtK(len(s.byItem[item]), s.passed[item], k)
		}
		rates = append(rates, env.PassRate{K: k, Value: sum / float64(len(items))})
		if k == least {
			return rates
		}
	}
}

// unscored returns the share of rollouts without a score, cancelled ones apart.
func (s *scores) unscored(scored int) float64 {
	if s.counted == 0 {
		return 0
	}
	return float64(s.counted-scored) / float64(s.counted)
}

// warnings says what a reader of the run's figures has to know.
func (s *storedRun) warnings(got *scores, estimate env.Estimate) []string {
	var list []string
	switch s.manifest.Status {
	case trajectories.StatusDone:
	case trajectories.StatusRunning:
		list = append(list, "The run is still going on, or its process was killed: figures cover what is recorded so far.")
	case trajectories.StatusBudget:
		list = append(list, "The run is not complete: its budget was used up before. With a higher one --resume goes on.")
	default:
		text := fmt.Sprintf("The run is not complete (%s).", s.manifest.Status)
		if s.manifest.Error != "" {
			text += " " + s.manifest.Error
		}
		list = append(list, text)
	}
	if agent := s.agent(); agent != "model" {
		list = append(list, fmt.Sprintf("The agent was %s: the score checks the environment, it is no model's.", agent))
	}
	for i := range s.manifest.ConfigHistory {
		list = append(list, "The run is mixed from several configurations: "+s.manifest.ConfigHistory[i].Sentence()+".")
	}
	share, limit := got.unscored(estimate.N), s.config.Get("env.max_unscored").Float()
	if share > 0 {
		var parts []string
		for _, o := range trajectories.Outcomes() {
			if n := got.outcomes[o]; n > 0 && !o.Scored() && o != trajectories.OutcomeCancelled {
				parts = append(parts, fmt.Sprintf("%d %s", n, o))
			}
		}
		text := fmt.Sprintf("%.1f %% of the rollouts have no score (%s).", 100*share, strings.Join(parts, ", "))
		if share > limit {
			text += fmt.Sprintf(" That is more than env.max_unscored allows (%.1f %%): the mean rests on a selection.", 100*limit)
		}
		list = append(list, text)
	}
	if n := got.outcomes[trajectories.OutcomeCancelled]; n > 0 {
		list = append(list, fmt.Sprintf("%d rollouts were cancelled; --resume runs them again.", n))
	}
	for _, reason := range s.manifest.Deviations {
		list = append(list, "Not comparable with published results: "+reason)
	}
	if len(got.changed) > 0 {
		sort.Strings(got.changed)
		list = append(list, fmt.Sprintf("%d items changed during the run (%s): attempts of different versions are averaged.", len(got.changed), strings.Join(got.changed[:min(5, len(got.changed))], ", ")))
	}
	return list
}

// prettyJSON lays out JSON for people.
func prettyJSON(raw json.RawMessage) string {
	var v strings.Builder
	enc := json.NewEncoder(&v)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(raw); err != nil {
		return string(raw)
	}
	return strings.TrimSuffix(v.String(), "\n")
}

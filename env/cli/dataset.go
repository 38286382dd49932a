package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/trajectories"
)

// describeItems puts into run.json where the items come from and whether results
// may be set beside published ones.
func (j *job) describeItems(info *trajectories.Info) error {
	if d, ok := j.environment.(env.DatasetDescriber); ok {
		description, digest, err := d.Dataset()
		if err != nil {
			return fmt.Errorf("describe the dataset of environment %s: %w", j.cfg.Environment, err)
		}
		info.Dataset, info.DatasetDigest = description, digest
	}
	if p, ok := j.environment.(env.Protocol); ok && p.HasProtocol() {
		info.Deviations = p.Deviations()
		comparable := len(info.Deviations) == 0
		info.Comparable = &comparable
	}
	return nil
}

// warnOfDeviations says before a run starts what its results can't be compared with.
func (j *job) warnOfDeviations() {
	p, ok := j.environment.(env.Protocol)
	if !ok || !p.HasProtocol() {
		return
	}
	if list := p.Deviations(); len(list) > 0 {
		j.out.Note("the results will not be comparable with published ones of " + j.cfg.Environment + ": " + strings.Join(list, "; "))
	}
}

// outcomes reads the outcomes that --retry-outcome names; nil when there are none.
func outcomes(words []string) ([]trajectories.Outcome, error) {
	var list []trajectories.Outcome
	for _, w := range words {
		o, err := trajectories.ParseOutcome(strings.TrimSpace(w))
		if err != nil {
			var names []string
			for _, o := range trajectories.Outcomes() {
				names = append(names, string(o))
			}
			return nil, fmt.Errorf("--retry-outcome: %w; there are %s", err, strings.Join(names, ", "))
		}
		if !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	return list, nil
}

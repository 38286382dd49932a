package cli

import (
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/stats"
)

// warnOfMixture says that a run holds results of several configurations.
func (j *job) warnOfMixture(store *trajectories.Run) {
	for _, change := range store.Manifest().ConfigHistory {
		j.out.Warn("the run is mixed: " + change.Sentence())
	}
}

// describeGroups adds to statistics what only the run knows: which groups are not
// trained on whole, and whether its settings changed.
func describeGroups(result *stats.Result, run *trajectories.Reader) error {
	counts, err := run.GroupCounts()
	if err != nil {
		return err
	}
	for _, c := range env.CountReasons(counts.Dropped) {
		result.DroppedGroups = append(result.DroppedGroups, stats.Count{Name: string(c.Reason), Count: c.Count})
	}
	for _, c := range env.CountReasons(counts.LeftOut) {
		result.LeftOut = append(result.LeftOut, stats.Count{Name: string(c.Reason), Count: c.Count})
	}
	for _, change := range run.Manifest().ConfigHistory {
		result.Mixed = append(result.Mixed, change.Sentence())
	}
	return nil
}

// trainingGroupsText tells how many groups there are to train on, and why not more.
func trainingGroupsText(t *env.TrainingGroups) string {
	text := fmt.Sprintf("%d kept", t.Kept)
	if n := t.DroppedGroups(); n > 0 {
		text += fmt.Sprintf(", %d dropped (%s)", n, reasonsText(t.Dropped))
	}
	if len(t.LeftOut) > 0 {
		text += "; kept without some rollouts: " + reasonsText(t.LeftOut)
	}
	return text
}

func reasonsText(counts []env.ReasonCount) string {
	parts := make([]string, len(counts))
	for i, c := range counts {
		parts[i] = fmt.Sprintf("%d %s", c.Count, c.Reason)
	}
	return strings.Join(parts, ", ")
}

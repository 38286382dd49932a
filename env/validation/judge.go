package validation

import (
	"fmt"
	"sort"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/trajectories"
)

// classOracle is the class the runner gives to a reference solution that failed.
const classOracle = "oracle"

// What the two agents are called in reasons.
const (
	solution = "the reference solution"
	nobody   = "doing nothing"
)

// judge decides on the kind of an item. What can't be told comes before what is
// wrong, and several faults are all named in the reasons.
func judge(oracle, nop []*trajectories.Rollout) (Kind, []string, string) {
	if kind, reasons, r := infrastructure(oracle, nop); r != nil {
		return kind, reasons, outputOf(r)
	}
	kind := Sound
	var reasons []string
	var witness *trajectories.Rollout
	found := func(k Kind, r *trajectories.Rollout, reason string) {
		if kind == Sound {
			kind, witness = k, r
		}
		reasons = append(reasons, reason)
	}
	for _, side := range []struct {
		who  string
		list []*trajectories.Rollout
	}{{solution, oracle}, {nobody, nop}} {
		if results := distinct(side.list); len(results) > 1 {
			found(Flaky, worst(side.list), fmt.Sprintf("%s has different results: %s", side.who, strings.Join(results, ", ")))
		}
	}
	if kind == Flaky {
		return kind, reasons, outputOf(witness)
	}
	if len(oracle) > 0 && !passed(oracle[0]) {
		r := oracle[0]
		switch {
		case r.Score != nil:
			found(Broken, r, fmt.Sprintf("%s scores %g, which does not pass%s", solution, *r.Score, cutOff(r)))
		case r.Error != nil && r.Error.Class == classOracle:
			found(Broken, r, textutil.Shorten(strings.TrimSpace(r.Error.Message), maxReason))
		default:
			found(Failing, r, fmt.Sprintf("no score after %s: %s", solution, failureOf(r)))
		}
	}
	switch r := nop[0]; {
	case passed(r):
		found(Trivial, r, fmt.Sprintf("%s scores %g, which passes", nobody, *r.Score))
	case r.Score == nil:
		found(Failing, r, fmt.Sprintf("no score after %s: %s", nobody, failureOf(r)))
	}
	switch {
	case kind != Sound:
		return kind, reasons, outputOf(witness)
	case len(oracle) == 0:
		return Unverifiable, []string{"there is no reference solution; doing nothing does not pass"}, ""
	}
	return Sound, nil, ""
}

// infrastructure says when sandboxes failed: then nothing is known of the item.
func infrastructure(lists ...[]*trajectories.Rollout) (Kind, []string, *trajectories.Rollout) {
	for _, list := range lists {
		for _, r := range list {
			if r.Outcome == trajectories.OutcomeSandboxError || r.Outcome == trajectories.OutcomeModelError {
				return Failing, []string{fmt.Sprintf("%s: %s", r.Outcome, failureOf(r))}, r
			}
		}
	}
	return "", nil, nil
}

// distinct lists the different results, with how often each was seen.
func distinct(rollouts []*trajectories.Rollout) []string {
	seen := map[string]int{}
	for _, r := range rollouts {
		seen[result(r)]++
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		if seen[names[i]] != seen[names[j]] {
			return seen[names[i]] > seen[names[j]]
		}
		return names[i] < names[j]
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d × %s", seen[name], name)
	}
	return names
}

func result(r *trajectories.Rollout) string {
	switch {
	case passed(r):
		return "passed"
	case r.Score != nil:
		return "not passed"
	case r.Error != nil:
		return fmt.Sprintf("%s (%s)", r.Outcome, r.Error.Class)
	}
	return string(r.Outcome)
}

// worst returns the rollout that went least well: one without a score, else one that
// did not pass.
func worst(rollouts []*trajectories.Rollout) *trajectories.Rollout {
	found := rollouts[0]
	for _, r := range rollouts {
		if r.Score == nil {
			return r
		}
		if !passed(r) {
			found = r
		}
	}
	return found
}

func cutOff(r *trajectories.Rollout) string {
	if r.Outcome == trajectories.OutcomeLimit {
		return " (it was cut off: " + strings.ReplaceAll(r.StopReason, "_", " ") + ")"
	}
	return ""
}

func failureOf(r *trajectories.Rollout) string {
	if r.Error == nil {
		return string(r.Outcome)
	}
	return textutil.Shorten(strings.TrimSpace(r.Error.Message), maxReason)
}

const (
	maxReason = 2000 // characters of an error in a reason
	maxOutput = 4000 // characters kept of the end of a verifier's output
)

// outputOf returns the end of what the verifier printed, as far as the environment
// recorded it: test_stdout of metadata.verifier, for items of several stages that of
// the last stage that has one.
func outputOf(r *trajectories.Rollout) string {
	text := gjson.GetBytes(r.Metadata, "verifier.test_stdout").String()
	for _, stage := range gjson.GetBytes(r.Metadata, "stages").Array() {
		if s := stage.Get("verifier.test_stdout").String(); s != "" {
			text = s
		}
	}
	text = strings.TrimSpace(text)
	if runes := []rune(text); len(runes) > maxOutput {
		return "…" + string(runes[len(runes)-maxOutput:])
	}
	return text
}

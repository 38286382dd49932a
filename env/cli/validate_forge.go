package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/validation"
)

// phases are those of one validation.
type phases struct {
	oracle, nop *phase
	forger      *phase // nil without --adversarial
}

func (p phases) list() []*phase {
	return slices.DeleteFunc([]*phase{p.oracle, p.nop, p.forger}, func(p *phase) bool { return p == nil })
}

// forgeries returns how many forgeries are tried on an item.
func (p phases) forgeries(item env.Item) int {
	if p.forger == nil {
		return 0
	}
	return len(p.oracle.environment.(env.Forger).Forgeries(item))
}

// forgerPhase is the phase of --adversarial.
func (v *validationRun) forgerPhase() (*phase, error) {
	p, err := v.phase(env.AgentForger)
	if err != nil {
		return nil, err
	}
	if _, ok := p.environment.(env.Forger); !ok {
		err := fmt.Errorf("--adversarial: environment %s has no forgeries to try; leave the flag out", p.cfg.Environment)
		return nil, errors.Join(err, p.closeEnvironment())
	}
	return p, nil
}

// forgeries returns the most forgeries that one item has, and how many all have.
func (v *validationRun) forgeries() (most, all int) {
	for _, item := range v.items {
		most, all = max(most, item.forgeries), all+item.forgeries
	}
	return max(1, most), all
}

// judgeForgeries adds to a verdict what the forgeries of the item came to; done is false
// if some have not been tried.
func (v *validationRun) judgeForgeries(forger *phase, item listed, verdict *validation.Verdict) (done bool, err error) {
	if forger == nil || item.forgeries == 0 {
		return true, nil
	}
	tried, err := v.attempts(forger.store, item, item.forgeries)
	if err != nil {
		return false, err
	}
	return len(tried) > 0 && verdict.JudgeForgeries(tried) == nil, nil
}

// forgeryText says what the forgeries of an item came to: how many had which result, and
// the names of those that matter.
func forgeryText(list []validation.Forgery) []string {
	if len(list) == 0 {
		return nil
	}
	byResult := map[string][]string{}
	counted := 0
	for _, f := range list {
		byResult[f.Result] = append(byResult[f.Result], f.Name)
		if f.Result == validation.ForgeryRecorded && f.Passed {
			counted++
		}
	}
	var lines []string
	for _, result := range validation.ForgeryResults() {
		names := byResult[result]
		if len(names) == 0 {
			continue
		}
		words := forgeryWords[result]
		if result == validation.ForgeryRecorded && counted > 0 {
			words += fmt.Sprintf(" (%d of them pass unless env.on_tampering is zero or unscored)", counted)
		}
		lines = append(lines, fmt.Sprintf("%d %s: %s", len(names), words, strings.Join(names, ", ")))
	}
	return lines
}

// forgeryWords describe the results of forgeries.
var forgeryWords = map[string]string{
	validation.ForgeryPassed:    "got a passing reward without a trace",
	validation.ForgeryErased:    "got no score, so that a failure can be hidden",
	validation.ForgeryInProcess: "got a passing reward inside the tests' own process, where no harness can detect it",
	validation.ForgeryRecorded:  "are on the record as tampering",
	validation.ForgeryStopped:   "got no passing reward",
	validation.ForgeryUntried:   "show nothing here",
}

// inProcessText says that tests load the agent's code, or that it changes files which they
// wrote.
func inProcessText(v validation.Verdict) string {
	var parts []string
	if len(v.LoadedByTests) > 0 {
		parts = append(parts, fmt.Sprintf("the tests load the agent's code into their own process (%s): no harness can detect a reward forged there", strings.Join(v.LoadedByTests, ", ")))
	}
	if len(v.ChangedByProgram) > 0 {
		parts = append(parts, fmt.Sprintf("the tests write files that the solution's programs then change (%s): if they compare with one, a reward can be forged", strings.Join(v.ChangedByProgram, ", ")))
	}
	return strings.Join(parts, "; ")
}

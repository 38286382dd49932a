package validation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Results of forgeries.
const (
	ForgeryStopped   = "stopped"    // no passing reward
	ForgeryRecorded  = "recorded"   // the record says that the agent tampered with the verification
	ForgeryPassed    = "passed"     // a passing reward, and nothing on the record
	ForgeryInProcess = "in_process" // a passing reward, forged inside the tests' own process
	ForgeryErased    = "erased"     // no score, and the record does not say that the agent caused that
	ForgeryUntried   = "not_tried"  // it says nothing of this item
)

// ForgeryResults lists them in the order reports show them.
func ForgeryResults() []string {
	return []string{ForgeryPassed, ForgeryErased, ForgeryInProcess, ForgeryRecorded, ForgeryStopped, ForgeryUntried}
}

// Forgery says what became of one attempt to get a reward without the work.
type Forgery struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Passed bool   `json:"passed,omitempty"` // the rollout passes, as far as env.on_tampering lets it
	Detail string `json:"detail,omitempty"` // what was recorded, or why it was not tried
}

// Members of a record's metadata and the class of an error, as package env writes them.
const (
	forgeryName    = "forgery"
	forgeryControl = "forgery_control"
	classForgery   = "forgery"
	classTampered  = "tampered"
)

// needless says why a control that passes, and what it is the control of, show nothing.
const needless = "the tests pass without the programs that it replaces"

// maxForgeryTampering bounds the entries of a record that a detail has.
const maxForgeryTampering = 3

// JudgeForgeries adds to a verdict what the forgeries of its item came to. A passing
// reward makes a sound item forgeable, unless it was forged in the process of the tests.
// A forgery that was cancelled, or is missing, makes the error ErrUnfinished.
func (v *Verdict) JudgeForgeries(rollouts []*trajectories.Rollout) error {
	byName := map[string]*trajectories.Rollout{}
	controls := map[string]bool{}
	for _, r := range rollouts {
		if r.Outcome == trajectories.OutcomeCancelled {
			return ErrUnfinished
		}
		byName[gjson.GetBytes(r.Metadata, forgeryName).String()] = r
		controls[gjson.GetBytes(r.Metadata, forgeryControl).String()] = true
		v.Seconds += r.Timings.Total
		if v.At.Before(r.FinishedAt) {
			v.At = r.FinishedAt.UTC()
		}
	}
	var passedNames []string
	for _, r := range rollouts {
		f := judgeForgery(r, byName, v)
		if controls[f.Name] && f.Result == ForgeryPassed {
			f.Result, f.Detail = ForgeryUntried, needless
		}
		if f.Result == ForgeryPassed {
			passedNames = append(passedNames, f.Name)
		}
		v.Forgeries = append(v.Forgeries, f)
	}
	if len(passedNames) == 0 {
		return nil
	}
	v.Reasons = append(v.Reasons, fmt.Sprintf("%d of %d forgeries get a passing reward without a trace: %s", len(passedNames), len(rollouts), strings.Join(passedNames, ", ")))
	if v.Kind == Sound || v.Kind == Unverifiable {
		v.Kind = Forgeable
	}
	return nil
}

func judgeForgery(r *trajectories.Rollout, all map[string]*trajectories.Rollout, v *Verdict) Forgery {
	f := Forgery{Name: gjson.GetBytes(r.Metadata, forgeryName).String(), Result: ForgeryStopped, Passed: passed(r), Detail: tamperingText(r)}
	name := gjson.GetBytes(r.Metadata, forgeryControl).String()
	control := all[name]
	if name != "" && control == nil {
		control = &trajectories.Rollout{} // without it nothing can be said
	}
	switch {
	case r.Error != nil && r.Error.Class == classForgery:
		f.Result, f.Detail = ForgeryUntried, textutil.Shorten(strings.TrimSpace(r.Error.Message), maxReason)
	case control != nil && (passed(control) || control.Score == nil && control.Error == nil):
		f.Result, f.Detail = ForgeryUntried, needless
	case v.Kind == Trivial:
		f.Result, f.Detail = ForgeryUntried, "doing nothing passes"
	case slices.ContainsFunc(r.Tampering, func(t trajectories.Tampering) bool { return t.Active }), r.Error != nil && r.Error.Class == classTampered:
		f.Result = ForgeryRecorded
		if r.Score != nil {
			f.Detail = fmt.Sprintf("score %g; %s", *r.Score, f.Detail)
		}
	case r.Outcome == trajectories.OutcomeSandboxError, r.Score == nil && v.Nop.Errors == 0 && (control == nil || control.Score != nil):
		f.Result, f.Detail = ForgeryErased, failureOf(r)
	case passed(r) && control != nil && len(v.LoadedByTests) > 0:
		f.Result = ForgeryInProcess
	case passed(r):
		f.Result, f.Detail = ForgeryPassed, strings.TrimPrefix(fmt.Sprintf("%s; score %g", f.Detail, *r.Score), "; ")
	case r.Score == nil && f.Detail == "": // as without a forgery
		f.Detail = failureOf(r)
	}
	return f
}

// tamperingText is what a record says of tampering, shortened.
func tamperingText(r *trajectories.Rollout) string {
	var parts []string
	for _, t := range r.Tampering[:min(maxForgeryTampering, len(r.Tampering))] {
		parts = append(parts, t.String())
	}
	if more := len(r.Tampering) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, "; ")
}

// LoadedByTests returns the files of the agent that the tests loaded into their own
// process, as the environment recorded them: loaded_by_tests of metadata.verifier, or of
// the stages.
func LoadedByTests(r *trajectories.Rollout) []string { return verifierFiles(r, "loaded_by_tests") }

// ChangedByProgram returns the files that the tests wrote and the agent's code then
// changed, as the environment recorded them.
func ChangedByProgram(r *trajectories.Rollout) []string {
	return verifierFiles(r, "changed_by_program")
}

// verifierFiles returns a list of metadata.verifier, and of that of the stages, sorted.
func verifierFiles(r *trajectories.Rollout, member string) []string {
	var list []string
	add := func(found gjson.Result) {
		for _, name := range found.Array() {
			if !slices.Contains(list, name.String()) {
				list = append(list, name.String())
			}
		}
	}
	add(gjson.GetBytes(r.Metadata, "verifier."+member))
	for _, stage := range gjson.GetBytes(r.Metadata, "stages").Array() {
		add(stage.Get("verifier." + member))
	}
	slices.Sort(list)
	return list
}

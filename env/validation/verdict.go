package validation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories"
)

// Kind is what an item is, as far as its verifier and solution tell.
type Kind string

// The kinds of items, in the order reports show them.
const (
	Sound        Kind = "sound"        // the solution passes and doing nothing does not
	Broken       Kind = "broken"       // the solution does not pass
	Trivial      Kind = "trivial"      // doing nothing passes
	Flaky        Kind = "flaky"        // the same work has different results
	Forgeable    Kind = "forgeable"    // a forgery gets a passing reward
	Failing      Kind = "error"        // sandbox or verifier failed, so nothing can be said
	Unverifiable Kind = "unverifiable" // there is no solution; doing nothing does not pass
)

// Kinds lists every kind in the order reports show them.
func Kinds() []Kind { return []Kind{Sound, Broken, Trivial, Flaky, Forgeable, Failing, Unverifiable} }

// Unsound says whether results on items of this kind mean little.
func (k Kind) Unsound() bool {
	switch k {
	case Broken, Trivial, Flaky, Forgeable, Failing:
		return true
	}
	return false
}

// Attempts counts how the attempts of one agent ended.
type Attempts struct {
	Passed int      `json:"passed"`
	Failed int      `json:"failed"` // scored, but not passed
	Errors int      `json:"errors"` // not scored
	Mean   *float64 `json:"mean_score"`
}

// Total returns how many attempts there were.
func (a Attempts) Total() int { return a.Passed + a.Failed + a.Errors }

// Verdict is what validation found out about one item. It is one line of
// validations.jsonl.
type Verdict struct {
	Environment string    `json:"environment"`
	ItemID      string    `json:"item_id"`
	ItemDigest  string    `json:"item_digest"`
	Kind        Kind      `json:"verdict"`
	Reasons     []string  `json:"reasons"` // sentences for people; empty for sound items
	Oracle      *Attempts `json:"oracle"`  // nil without a solution
	Nop         Attempts  `json:"nop"`
	// LoadedByTests are files of the agent that the tests load into their own process.
	// A reward that is forged there can't be detected.
	LoadedByTests []string `json:"loaded_by_tests,omitempty"`
	// ChangedByProgram are files that the tests write and the solution's programs then
	// change. Where the tests compare with such a file, a reward can be forged.
	ChangedByProgram []string  `json:"changed_by_program,omitempty"`
	Forgeries        []Forgery `json:"forgeries,omitempty"`   // what attempts to get a reward without the work came to
	TestOutput       string    `json:"test_output,omitempty"` // end of the verifier's output, of the attempt the reasons speak of
	Backend          string    `json:"backend,omitempty"`
	Image            string    `json:"image,omitempty"`
	ImageDigest      string    `json:"image_digest,omitempty"`
	// VerifiedIn says that the tests ran in another container than the agent: fresh or clean.
	VerifiedIn string    `json:"verified_in,omitempty"`
	Seconds    float64   `json:"seconds"`       // of all attempts together
	Config     string    `json:"config_digest"` // of the validating run
	Version    string    `json:"hermes_env"`
	Run        string    `json:"run_dir"`
	At         time.Time `json:"validated_at"`
}

// check says what makes a line that was read no verdict.
func (v *Verdict) check() error {
	switch v.Kind {
	case Sound, Broken, Trivial, Flaky, Forgeable, Failing, Unverifiable:
	default:
		return fmt.Errorf("unknown verdict %q", v.Kind)
	}
	if v.ItemDigest == "" || v.Environment == "" {
		return errors.New("a verdict names no item or no environment")
	}
	return nil
}

// ErrUnfinished: an item has not been tried as often as it should have been.
var ErrUnfinished = errors.New("validation of the item is not finished")

// Judge fills in what the rollouts of one item say: oracle those of its solution,
// nil when it has none, nop those of nobody. Without a rollout of nobody, or with
// one that was cancelled, the error is ErrUnfinished.
func (v *Verdict) Judge(oracle, nop []*trajectories.Rollout) error {
	if len(nop) == 0 {
		return ErrUnfinished
	}
	for _, list := range [][]*trajectories.Rollout{oracle, nop} {
		for _, r := range list {
			if r.Outcome == trajectories.OutcomeCancelled {
				return ErrUnfinished
			}
			v.Seconds += r.Timings.Total
			if r.Sandbox != nil {
				v.Backend, v.Image, v.ImageDigest = r.Sandbox.Backend, r.Sandbox.Image, r.Sandbox.Digest
			}
			if v.At.Before(r.FinishedAt) {
				v.At = r.FinishedAt.UTC()
			}
		}
	}
	v.Nop = count(nop)
	if len(oracle) > 0 {
		a := count(oracle)
		v.Oracle = &a
	}
	for _, r := range oracle {
		v.VerifiedIn = cmp.Or(v.VerifiedIn, gjson.GetBytes(r.Metadata, "verifier.verified_in").String())
		v.LoadedByTests = addMissing(v.LoadedByTests, LoadedByTests(r))
		v.ChangedByProgram = addMissing(v.ChangedByProgram, ChangedByProgram(r))
	}
	v.Kind, v.Reasons, v.TestOutput = judge(oracle, nop)
	if v.Reasons == nil {
		v.Reasons = []string{} // a list in JSON, too
	}
	return nil
}

// addMissing appends those of more that list lacks.
func addMissing(list, more []string) []string {
	for _, text := range more {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

func count(rollouts []*trajectories.Rollout) Attempts {
	var a Attempts
	sum := 0.0
	for _, r := range rollouts {
		switch {
		case r.Score == nil:
			a.Errors++
			continue
		case passed(r):
			a.Passed++
		default:
			a.Failed++
		}
		sum += *r.Score
	}
	if n := a.Passed + a.Failed; n > 0 {
		mean := sum / float64(n)
		a.Mean = &mean
	}
	return a
}

func passed(r *trajectories.Rollout) bool { return r.Score != nil && r.Passed != nil && *r.Passed }

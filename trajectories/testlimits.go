package trajectories

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// TestLimits says in what ways the tests of a rollout could not be kept apart from the
// agent's code. The verifier notes them in the metadata of a record.
type TestLimits uint8

// The limits, and the members of metadata.verifier that they stand for.
const (
	TestsLoadedCode  TestLimits = 1 << iota // loaded_by_tests: the tests loaded the agent's code into their own process
	TestsNotIsolated                        // not_isolated: the agent's code could change the reward
	TestFilesChanged                        // changed_by_program: the agent's code changed files that the tests wrote
	maxTestLimits
	AllTestLimits = maxTestLimits - 1
)

// testLimitNames are the members of metadata.verifier, in the order of the bits.
var testLimitNames = [...]string{"loaded_by_tests", "not_isolated", "changed_by_program"}

// Names returns the members of metadata.verifier that the limits stand for.
func (l TestLimits) Names() []string {
	var names []string
	for i, name := range testLimitNames {
		if l&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// TestLimitsOf reads the limits from the metadata of a record, those of its stages
// included.
func TestLimitsOf(metadata []byte) TestLimits {
	limits := TestLimits(0)
	for i, name := range testLimitNames {
		if TestLimitExample(metadata, name) != "" {
			limits |= 1 << i
		}
	}
	return limits
}

// TestLimitExample returns the first value of a member of metadata.verifier, or of that of
// a stage: a file or a reason; "" for none.
func TestLimitExample(metadata []byte, name string) string {
	if !bytes.Contains(metadata, []byte(`"`+name+`"`)) {
		return ""
	}
	first := func(v gjson.Result) string {
		if v.IsArray() {
			return v.Get("0").String()
		}
		return v.String()
	}
	if text := first(gjson.GetBytes(metadata, "verifier."+name)); text != "" {
		return text
	}
	for _, stage := range gjson.GetBytes(metadata, "stages").Array() {
		if text := first(stage.Get("verifier." + name)); text != "" {
			return text
		}
	}
	return ""
}

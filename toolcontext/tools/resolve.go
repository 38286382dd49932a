package tools

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Selection says which tools a group of rollouts gets.
type Selection struct {
	// Enabled names toolsets (or old "_tools" names, or all); nil means every
	// registered tool, an empty list none.
	Enabled []string
	// Disabled names toolsets whose tools are taken away, whatever selected them.
	Disabled []string
	// Distribution names a distribution that draws toolsets; it excludes Enabled.
	Distribution string
}

// Resolution is what a Selection came to. It belongs in the rollout's record,
// because a distribution draws differently each time.
type Resolution struct {
	Toolset  *chat.Toolset // definitions, sorted by tool name
	Names    []string      // tool names, sorted
	Toolsets []string      // the toolsets asked for or drawn, in order; nil for every tool
	Skipped  []string      // toolsets of the distribution that have no tools in this build
}

// Check reports every name in the selection that Resolve would reject, without drawing anything.
func (r *Registry) Check(s Selection) error {
	var problems []error
	for _, names := range [][]string{s.Enabled, s.Disabled} {
		for _, name := range names {
			everything := name == "all" || name == "*"
			if !everything && len(r.members(name)) == 0 {
				problems = append(problems, r.unknownToolset(name))
			}
		}
	}
	if s.Distribution != "" {
		if s.Enabled != nil {
			problems = append(problems, errors.New("distribution and enabled_toolsets exclude each other; give one of them"))
		}
		if d, err := findDistribution(s.Distribution); err != nil {
			problems = append(problems, err)
		} else if len(r.available(d)) == 0 {
			problems = append(problems, fmt.Errorf("distribution %q has no toolset with tools in this build", s.Distribution))
		}
	}
	return errors.Join(problems...)
}

// Resolve turns a selection into tool definitions. A distribution draws from rng,
// which may be nil otherwise; the same seed gives the same toolsets.
func (r *Registry) Resolve(s Selection, rng *rand.Rand) (*Resolution, error) {
	if err := r.Check(s); err != nil {
		return nil, err
	}
	result := &Resolution{Toolsets: append([]string(nil), s.Enabled...)}
	want := map[string]bool{}
	switch {
	case s.Distribution != "":
		if rng == nil {
			return nil, fmt.Errorf("draw from distribution %q: no random source given", s.Distribution)
		}
		d, err := findDistribution(s.Distribution)
		if err != nil {
			return nil, err
		}
		result.Toolsets, result.Skipped = r.draw(d, rng)
		r.include(result.Toolsets, want)
	case s.Enabled == nil:
		r.include([]string{"all"}, want)
	default:
		r.include(s.Enabled, want)
	}
	for _, name := range s.Disabled {
		for _, tool := range r.members(name) {
			delete(want, tool)
		}
	}
	result.Names = make([]string, 0, len(want))
	for tool := range want {
		result.Names = append(result.Names, tool)
	}
	sort.Strings(result.Names)
	definitions, err := r.Definitions(result.Names...)
	if err != nil {
		return nil, err
	}
	result.Toolset = definitions
	return result, nil
}

func (r *Registry) include(toolsets []string, want map[string]bool) {
	for _, name := range toolsets {
		for _, tool := range r.members(name) {
			want[tool] = true
		}
	}
}

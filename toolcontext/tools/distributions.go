package tools

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// distribution is a list of toolsets, each with the percentage of groups that get it.
type distribution struct {
	name   string
	shares []share
}

type share struct {
	toolset string
	percent int
}

// distributions is the table of hermes-agent's toolset_distributions, in its order.
func distributions() []distribution {
	return []distribution{
		{"default", []share{{"web", 100}, {"vision", 100}, {"image_gen", 100}, {"terminal", 100}, {"file", 100}, {"moa", 100}, {"browser", 100}}},
		{"image_gen", []share{{"image_gen", 90}, {"vision", 90}, {"web", 55}, {"terminal", 45}, {"moa", 10}}},
		{"research", []share{{"web", 90}, {"browser", 70}, {"vision", 50}, {"moa", 40}, {"terminal", 10}}},
		{"science", []share{{"web", 94}, {"terminal", 94}, {"file", 94}, {"vision", 65}, {"browser", 50}, {"image_gen", 15}, {"moa", 10}}},
		{"development", []share{{"terminal", 80}, {"file", 80}, {"moa", 60}, {"web", 30}, {"vision", 10}}},
		{"safe", []share{{"web", 80}, {"browser", 70}, {"vision", 60}, {"image_gen", 60}, {"moa", 50}}},
		{"balanced", []share{{"web", 50}, {"vision", 50}, {"image_gen", 50}, {"terminal", 50}, {"file", 50}, {"moa", 50}, {"browser", 50}}},
		{"minimal", []share{{"web", 100}}},
		{"terminal_only", []share{{"terminal", 100}, {"file", 100}}},
		{"terminal_web", []share{{"terminal", 100}, {"file", 100}, {"web", 100}}},
		{"creative", []share{{"image_gen", 90}, {"vision", 90}, {"web", 30}}},
		{"reasoning", []share{{"moa", 90}, {"web", 30}, {"terminal", 20}}},
		{"browser_use", []share{{"browser", 100}, {"web", 80}, {"vision", 70}}},
		{"browser_only", []share{{"browser", 100}}},
		{"browser_tasks", []share{{"browser", 97}, {"vision", 12}, {"terminal", 15}}},
		{"terminal_tasks", []share{{"terminal", 97}, {"file", 97}, {"web", 97}, {"browser", 75}, {"vision", 50}, {"image_gen", 10}}},
		{"mixed_tasks", []share{{"browser", 92}, {"terminal", 92}, {"file", 92}, {"web", 35}, {"vision", 15}, {"image_gen", 15}}},
	}
}

// Distributions returns the names of all distributions, in the order of their table.
func Distributions() []string {
	var names []string
	for _, d := range distributions() {
		names = append(names, d.name)
	}
	return names
}

func findDistribution(name string) (distribution, error) {
	names := Distributions()
	for _, d := range distributions() {
		if d.name == name {
			return d, nil
		}
	}
	if near := textutil.Nearest(name, names); near != "" {
		return distribution{}, fmt.Errorf("unknown distribution %q, did you mean %q? known are %s", name, near, strings.Join(names, ", "))
	}
	return distribution{}, fmt.Errorf("unknown distribution %q; known are %s", name, strings.Join(names, ", "))
}

// available returns the shares whose toolset has tools here.
func (r *Registry) available(d distribution) []share {
	var shares []share
	for _, s := range d.shares {
		if len(r.members(s.toolset)) > 0 {
			shares = append(shares, s)
		}
	}
	return shares
}

// draw picks each toolset on its own with its percentage. When no available one is
// picked, the available one with the highest percentage is used, the first on ties.
// One number is drawn for every toolset of the table, available or not, so that a
// seed keeps its meaning when a later build has more tools.
func (r *Registry) draw(d distribution, rng *rand.Rand) (picked, skipped []string) {
	for _, s := range d.shares {
		hit := rng.Float64()*100 < float64(s.percent)
		switch {
		case len(r.members(s.toolset)) == 0:
			skipped = append(skipped, s.toolset)
		case hit:
			picked = append(picked, s.toolset)
		}
	}
	if len(picked) > 0 {
		return picked, skipped
	}
	best := share{percent: -1}
	for _, s := range r.available(d) {
		if s.percent > best.percent {
			best = s
		}
	}
	return []string{best.toolset}, skipped
}

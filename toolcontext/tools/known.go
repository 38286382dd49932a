package tools

import "sort"

// StandardTools returns the names of all tools of the original framework's toolsets,
// registered here or not, sorted: what data made with it may name.
func StandardTools() []string {
	found := map[string]bool{}
	for _, set := range standardToolsets() {
		for _, tool := range set.tools {
			found[tool] = true
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Share is a toolset of a distribution and the percentage of draws that pick it.
type Share struct {
	Toolset string
	Percent int
}

// DistributionShares returns the toolsets of a distribution in the order of their
// table; the error of an unknown name lists the known ones.
func DistributionShares(name string) ([]Share, error) {
	d, err := findDistribution(name)
	if err != nil {
		return nil, err
	}
	shares := make([]Share, len(d.shares))
	for i, s := range d.shares {
		shares[i] = Share{s.toolset, s.percent}
	}
	return shares, nil
}

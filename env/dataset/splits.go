package dataset

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// split is a named list of files.
type split struct {
	name  string
	files []listed
}

// The words by which file and folder names tell their split, as the hub's own loader has them.
var splitWords = []struct {
	split string
	words []string
}{
	{"train", []string{"train", "training"}},
	{"validation", []string{"validation", "valid", "dev", "val"}},
	{"test", []string{"test", "testing", "eval", "evaluation"}},
}

// shardName matches data/SPLIT-00000-of-00002.parquet, where any split name goes.
var shardName = regexp.MustCompile(`^data/(\w+(?:[.-]\w+)*)-\d{5}-of-\d{5}[^/]*\.[^/]*$`)

// detectSplits sorts data files into splits by the hub's rules, the first that finds anything: shards in data/, folder names,
// file names, else everything is train.
func detectSplits(files []listed) []split {
	byShard := func(p string) []string {
		if m := shardName.FindStringSubmatch(p); m != nil {
			return m[1:]
		}
		return nil
	}
	byFolder := func(p string) []string { return splitsIn(path.Dir(p)) }
	byFile := func(p string) []string {
		base := path.Base(p)
		return splitsIn(strings.TrimSuffix(base, path.Ext(base)))
	}
	for _, rule := range []func(string) []string{byShard, byFolder, byFile} {
		var found []split
		for _, f := range files {
			for _, name := range rule(f.path) {
				found = addToSplit(found, name, f)
			}
		}
		if len(found) > 0 {
			return sortSplits(found)
		}
	}
	if len(files) == 0 {
		return nil
	}
	return []split{{"train", files}}
}

// splitsIn returns the splits whose words stand in a path, between separators.
func splitsIn(p string) []string {
	tokens := strings.FieldsFunc(p, func(r rune) bool { return strings.ContainsRune("-._ 0123456789/", r) })
	var out []string
	for _, s := range splitWords {
		if slices.ContainsFunc(s.words, func(w string) bool { return slices.Contains(tokens, w) }) {
			out = append(out, s.split)
		}
	}
	return out
}

func addToSplit(splits []split, name string, f listed) []split {
	for i := range splits {
		if splits[i].name == name {
			splits[i].files = append(splits[i].files, f)
			return splits
		}
	}
	return append(splits, split{name, []listed{f}})
}

// sortSplits puts train, validation and test first.
func sortSplits(splits []split) []split {
	rank := func(s split) int {
		for i, known := range splitWords {
			if known.split == s.name {
				return i
			}
		}
		return len(splitWords)
	}
	slices.SortStableFunc(splits, func(a, b split) int {
		if rank(a) != rank(b) {
			return rank(a) - rank(b)
		}
		return strings.Compare(a.name, b.name)
	})
	return splits
}

// pickSplit returns the wanted split; without a wish train, or the only one.
func pickSplit(splits []split, want string) (split, error) {
	var names []string
	for _, s := range splits {
		if s.name == want || want == "" && (len(splits) == 1 || s.name == "train") {
			return s, nil
		}
		names = append(names, s.name)
	}
	if want == "" {
		return split{}, fmt.Errorf("%w: there is no split \"train\": name one of %s", ErrSplit, strings.Join(names, ", "))
	}
	return split{}, fmt.Errorf("%w: there is no split %q; the splits are %s", ErrSplit, want, strings.Join(names, ", "))
}

var shardOf = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})(.*)$`)

// missingShards finds a file "name-00000-of-00003" without its fellows: a copy or download that is not complete would
// otherwise pass for a smaller dataset.
func missingShards(files []listed) error {
	type group struct{ prefix, total, suffix string }
	have := map[group]map[int]bool{}
	var groups []group
	for _, f := range files {
		m := shardOf.FindStringSubmatch(f.path)
		if m == nil {
			continue
		}
		g := group{m[1], m[3], m[4]}
		if hash := regexp.MustCompile(`^-[0-9a-f]{16}(\..*)$`).FindStringSubmatch(m[4]); hash != nil {
			g.suffix = hash[1] // older uploads put a hash of each shard behind the number
		}
		if have[g] == nil {
			have[g] = map[int]bool{}
			groups = append(groups, g)
		}
		n, _ := strconv.Atoi(m[2])
		have[g][n] = true
	}
	for _, g := range groups {
		total, _ := strconv.Atoi(g.total)
		for n := range total {
			if !have[g][n] {
				return fmt.Errorf("the split is not complete: %s-%05d-of-%s%s is missing (%d of %d files are there)", g.prefix, n, g.total, g.suffix, len(have[g]), total)
			}
		}
	}
	return nil
}

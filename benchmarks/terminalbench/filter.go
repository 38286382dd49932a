package terminalbench

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/internal/textutil"
)

// selection is which tasks of a dataset are run.
type selection struct {
	only, skip, categories, difficulties config.Words
}

// choose returns the tasks that are run, in their order. A pattern that matches
// nothing is an error that names what it may have meant.
func (s selection) choose(tasks []*task) ([]*task, error) {
	names := make([]string, len(tasks))
	categories, difficulties := map[string]bool{}, map[string]bool{}
	for i, t := range tasks {
		names[i] = t.name
		categories[t.category], difficulties[t.difficulty] = true, true
	}
	var problems []string
	for _, list := range []struct {
		field    string
		patterns config.Words
		have     []string
	}{
		{"task_filter", s.only, names}, {"skip_tasks", s.skip, names},
		{"categories", s.categories, keys(categories)}, {"difficulties", s.difficulties, keys(difficulties)},
	} {
		listed := false
		for _, p := range list.patterns {
			if !slices.ContainsFunc(list.have, func(name string) bool { return matches(p, name) }) {
				near := hint(p, list.have)
				if near == "" && len(list.have) <= 12 && !listed {
					listed = true // once is enough
					near = "; there are " + strings.Join(list.have, ", ")
				}
				problems = append(problems, fmt.Sprintf("env.%s: nothing is named %q%s", list.field, p, near))
			}
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("choose from the %d tasks: %s", len(tasks), strings.Join(problems, "; "))
	}
	chosen := slices.DeleteFunc(slices.Clone(tasks), func(t *task) bool {
		return !anyMatches(s.only, t.name, true) || anyMatches(s.skip, t.name, false) ||
			!anyMatches(s.categories, t.category, true) || !anyMatches(s.difficulties, t.difficulty, true)
	})
	if len(chosen) == 0 && len(tasks) > 0 {
		return nil, fmt.Errorf("none of the %d tasks is left: task_filter, skip_tasks, categories and difficulties exclude each other", len(tasks))
	}
	return chosen, nil
}

// anyMatches says whether a name matches one of the patterns; empty is the answer
// when there are none.
func anyMatches(patterns config.Words, name string, empty bool) bool {
	if len(patterns) == 0 {
		return empty
	}
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// matches says whether a name matches a pattern; in names with a slash the part
// after it is enough.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	if err == nil && !ok && !strings.Contains(pattern, "/") {
		ok, err = path.Match(pattern, path.Base(name))
	}
	return err == nil && ok
}

// hint names the few that are nearest to a word; "" when none is.
func hint(word string, have []string) string {
	plain := strings.ToLower(strings.Trim(word, "*?"))
	near := textutil.Rank(have, 3, func(name string) int {
		name = strings.ToLower(name)
		d := textutil.Distance(plain, name)
		if plain == "" || name == "" || d > 1+len(plain)/4 && !strings.Contains(name, plain) && !strings.Contains(plain, name) {
			return -1
		}
		return d
	})
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

func keys(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for k := range set {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

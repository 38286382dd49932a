package terminalbench

import (
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/env/dataset/harbor"
)

// maxNotes bounds what a summary says of the tasks' files.
const maxNotes = 10

// Notes says what of the chosen tasks' files was ignored or is unusual: a misspelt key
// would otherwise go unseen. What several tasks share is said once.
func (e *Environment) Notes() []string {
	type remark struct {
		text   string
		first  harbor.Problem
		others int
	}
	var found []*remark
	byText := map[string]*remark{}
	for _, t := range e.tasks {
		seen := map[string]bool{}
		for _, p := range t.notes {
			text := p.Text
			if p.Key != "" {
				text = p.Key + " " + text
			}
			switch r := byText[text]; {
			case seen[text]:
			case r != nil:
				r.others++
			default:
				r = &remark{text: text, first: p}
				byText[text] = r
				found = append(found, r)
			}
			seen[text] = true
		}
	}
	var lines []string
	for i, r := range found {
		if i == maxNotes {
			lines = append(lines, fmt.Sprintf("%d more remarks on the tasks' files", len(found)-i))
			break
		}
		where := r.first.File
		if r.first.Line > 0 {
			where = fmt.Sprintf("%s:%d", where, r.first.Line)
		}
		if r.others > 0 {
			where += fmt.Sprintf(" and %d more tasks", r.others)
		}
		lines = append(lines, strings.TrimSuffix(r.text, ".")+" ("+where+")")
	}
	return append(lines, e.stopped.note("in %d tasks, %d rollouts of this session got no reward after processes of the agent that listened had been ended, as verify_in, keep_processes or secrets of the tests want it: %s")...)
}

package harbor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is something wrong, or merely noteworthy, in a task's files.
type Problem struct {
	// File is the path it was read from; Line counts from 1, 0 where none fits.
	File string
	Line int
	// Key is such as "agent.timeout_sec" or "steps[0].name"; empty where none fits.
	Key string
	// Text says what is wrong and what to do.
	Text string
}

// String returns "task.toml:3: agent.timeout_sec: …".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// sortProblems puts problems into the order of the file.
func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.Key, b.Key))
	})
}

// Error is all that is wrong with one task.
type Error struct{ Problems []Problem }

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

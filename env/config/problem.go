package config

import (
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Where   string // "tb2.yaml:12:3", "flag --env.group_size", "environment demo", or "" when no source is to blame
	Field   string // dotted name, "" where Where says it already
	Message string // what is wrong and what to do about it

	rank, line, column int // order of the report
}

// String returns the problem on one line: where, field, message.
func (p Problem) String() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{p.Where, p.Field, p.Message} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Error is every problem of a configuration, in the order of the file, then of the flags.
type Error struct{ Problems []Problem }

// Error returns one problem per line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// report collects problems and warnings while a configuration is read.
type report struct {
	problems []Problem
	warnings []string
	broken   map[string]bool // fields with a problem, which later checks leave alone
}

func (r *report) add(p Problem, field string) {
	r.problems = append(r.problems, p)
	if r.broken == nil {
		r.broken = map[string]bool{}
	}
	r.broken[field] = true
}

// at records a problem with the value of a field that came from an origin.
func (r *report) at(o Origin, field, message string) {
	r.add(o.problem(field, message), field)
}

func (r *report) warn(o Origin, field, message string) {
	r.warnings = append(r.warnings, o.problem(field, message).String())
}

// err returns the collected problems as an *Error, or nil.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		if a.line != b.line {
			return a.line - b.line
		}
		return a.column - b.column
	})
	return &Error{Problems: slices.Compact(r.problems)}
}

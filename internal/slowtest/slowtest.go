// Package slowtest says how much the tests of this repository do.
//
// A plain `go test ./...` needs only Go and takes a few minutes of processor time. The
// variable HERMES_ENV_TESTS adds the rest: "all" runs every test, as .ci/run does;
// "nightly", as in .ci/nightly, also repeats what happens at random instants many times.
// A test that starts a container engine, builds the program, kills processes or takes
// more than about a second of processor time belongs behind it.
package slowtest

import (
	"os"
	"testing"
)

// Variable names the environment variable.
const Variable = "HERMES_ENV_TESTS"

// Require skips a test in a plain run. Benchmarks run: they were asked for by name.
func Require(t testing.TB) {
	t.Helper()
	if _, benchmark := t.(*testing.B); !benchmark && !All(t) {
		t.Skipf("left out of a plain run; %s=all runs it", Variable)
	}
}

// All reports whether every test is to run.
func All(t testing.TB) bool {
	t.Helper()
	switch value := os.Getenv(Variable); value {
	case "":
		return false
	case "all", "nightly":
		return true
	default:
		t.Fatalf("%s=%s: set it to all or nightly, or leave it unset", Variable, value)
		return false
	}
}

// Times returns how often to repeat what happens at random instants: few, or many in a
// nightly run.
func Times(few, many int) int {
	if os.Getenv(Variable) == "nightly" {
		return many
	}
	return few
}

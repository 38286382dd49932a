// Package benchmarks lists the environments that come with hermes-env.
package benchmarks

import (
	"github.com/hermes-env/hermes-env/benchmarks/prompts"
	"github.com/hermes-env/hermes-env/benchmarks/terminalbench"
	"github.com/hermes-env/hermes-env/benchmarks/terminaltest"
	"github.com/hermes-env/hermes-env/env"
)

// All returns the definitions of the built-in environments.
func All() []env.Definition {
	list := append([]env.Definition{terminaltest.Definition()}, terminalbench.Definitions()...)
	return append(list, prompts.Definition())
}

// Command hermes-env runs tool-using language-model agents in sandboxes and turns
// the rollouts into benchmark scores and training data.
package main

import (
	"github.com/hermes-env/hermes-env/benchmarks"
	"github.com/hermes-env/hermes-env/env/cli"
)

func main() { cli.Main(benchmarks.All()...) }

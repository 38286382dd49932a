// Package batch runs the prompts of a file and leaves the files that hermes-agent's batch
// runner left: batch_<n>.jsonl, checkpoint.json, statistics.json and trajectories.jsonl in
// data/<run name>/.
//
// The rollouts themselves are run by env.Runner and recorded in the run directory below
// (run/rollouts.jsonl), which is the truth; everything else is made from it and made again
// where a killed process left a gap. Rows that the original wrote are kept as they are and
// count as done. The package never runs a prompt whose content has been run, never judges by
// the number of a row alone, and knows nothing of the command line.
package batch

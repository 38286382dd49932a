// Package trajectories keeps what rollouts leave behind: the run directory, an
// append-only store that survives a kill at any instant and can be resumed, and
// the training data derived from it (ShareGPT conversations, Atropos groups,
// evaluation files).
//
// rollouts.jsonl is the truth; every other file of rollouts is derived from it
// and repaired when the run is opened. The package never runs, judges or filters
// a rollout, never deletes a line it has acknowledged, and never writes into a
// directory that another process owns.
package trajectories

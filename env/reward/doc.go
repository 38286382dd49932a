// Package reward scores rollouts as a configuration says, without Go: by comparing the final answer with a reference, by
// a command in the rollout's sandbox, by a program on this machine that speaks JSON lines, by a language model with a rubric,
// or by a weighted sum of these.
//
// A part that can't tell is an error, never a zero: crashes, time limits and unreadable verdicts leave the rollout unscored,
// or are left out with the other weights scaled up where the configuration says so. The package doesn't know datasets: it gets
// one row, the item's prompt and the agent's result, and keeps nothing of them.
package reward

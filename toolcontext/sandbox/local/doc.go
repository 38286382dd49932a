// Package local runs a rollout's commands as processes of this machine, in a
// directory tree of the rollout's own with its own HOME and TMPDIR.
//
// It keeps rollouts apart and tidy; it is not a security boundary. Commands run
// as the harness's user and can read and write whatever that user can. What the
// backend does promise: nothing of the harness's environment but an allow-list
// reaches a command, output is bounded while it is produced, and a command that
// times out is gone with everything it started.
//
// On Linux a command's processes are found by control group (v2, where the harness
// may make one: killing a group is then one atomic step), by session and process
// group, by descent, by a marker variable in the environment, by the pipes they
// hold and by working directory. Each of these can be shed; shedding all of them at
// once needs root or intent, and Config.Subreaper then still finds the orphan.
// Elsewhere process groups are all there is.
//
// The package never sources what a command wrote, and never waits for a background
// process to close a pipe.
package local

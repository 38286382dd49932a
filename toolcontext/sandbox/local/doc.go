// Package local runs a rollout's commands as processes of this machine, in a
// directory tree of the rollout's own with its own HOME and TMPDIR.
//
// It keeps rollouts apart and tidy; it is not a security boundary: commands run as
// the harness's user and reach whatever that user can. It promises that nothing of
// the harness's environment but an allow-list reaches a command, that output is
// bounded while it is produced, and that a command that times out is gone with all
// it started. It never sources what a command wrote, and never waits for a
// background process to close a pipe.
package local

// Package terminalbench runs Terminal-Bench 2, OpenThoughts-TBLite and any other
// tasks in Harbor's format: the environments terminal-bench-2, openthoughts-tblite
// and tasks, which differ in nothing but their dataset and defaults.
//
// A task is a container image, an instruction and tests. The tests are put into the
// container after the agent's last process has ended, and only a reward that they
// wrote themselves counts; whatever else happens is an error with a name, never a
// zero and never the exit code of a script. The package starts no containers itself
// and knows nothing of models.
package terminalbench

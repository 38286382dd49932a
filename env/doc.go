// Package env is the framework environments are written against and the runner
// that turns them into scores and training data.
//
// An Environment sets itself up, hands out items, formats their prompts and
// rewards what an agent did; everything else it may be able to do is an optional
// interface found by type assertion. The Runner executes rollouts in groups,
// each isolated from the others, classifies every end into one outcome and
// records it durably. The package never prints and never reads flags or files of
// configuration: env/cli and env/config do.
package env

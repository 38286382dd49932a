// Package replay is an OpenAI-compatible server on loopback that plays scripted
// or recorded conversations instead of running a model.
//
// A first run, a demo or a regression test thus takes the whole real path (HTTP,
// tool calls, sandbox, scores) without a key or a GPU. A Script comes from YAML or
// JSON (Parse) or from the rollouts of an earlier run (FromRollouts). The package
// never invents an answer: a prompt or a turn that the script lacks is an error.
package replay

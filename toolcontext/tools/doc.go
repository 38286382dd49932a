// Package tools holds what a model can call: the registry of tools, the toolsets
// and distributions that choose among them, and the built-in tools.
//
// A Registry is a value assembled by the caller, so two environments in one
// process never see each other's tools. What the tools of one rollout share (its
// sandbox, its read history, its todo list) lives in a State. Everything a tool
// does happens inside the rollout's sandbox through the sandbox interface; no
// tool touches the machine the harness runs on. The package decides neither how
// long a conversation lasts nor how much of a result the model gets to see.
package tools

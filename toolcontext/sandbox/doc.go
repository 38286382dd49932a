// Package sandbox defines where a rollout's commands run: the Sandbox interface,
// the Provider that creates sandboxes, and the values both exchange.
//
// Implementations live in packages below this one (local, …) and all run the
// conformance suite in sandboxtest. A command that fails is a Result; an error
// means that the sandbox itself failed. The package knows nothing of tools,
// models or rewards.
package sandbox

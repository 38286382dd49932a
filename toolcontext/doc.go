// Package toolcontext binds a sandbox and a set of tools to one rollout: the model
// calls tools through it, and the verifier looks at the very same sandbox through
// it afterwards.
//
// A Context creates its sandbox when it is first needed, never a second one, and
// removes it in Cleanup. Seal separates the agent's part from the verifier's:
// what the agent left running is killed, and what it left in its shell session no
// longer matters. The package knows nothing of models, prompts or scores.
package toolcontext

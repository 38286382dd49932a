// Package tokens keeps conversations as the tokens that a model really read and
// sampled. A Session is a model client for one rollout: it renders each prompt with
// the model's chat template, has the server generate from ids, and extends the ids
// sampled before instead of tokenizing them again.
//
// Its turns form a tree. Where a template rewrites what was said the tree forks and
// says why; a prompt never silently differs from what was trained on. Tokens that the
// server did not report are never made up: the rollout is then not trainable.
// docs/token-exact.md describes the method.
package tokens

package model

import "github.com/hermes-env/hermes-env/agentloop/chat"

// Price is what a server charges, in USD per million tokens.
type Price struct {
	Input       float64 // prompt tokens that were not cached
	CachedInput float64 // prompt tokens that were
	Output      float64 // completion tokens, those of reasoning included
}

// USD returns what the tokens cost. Cached tokens count as part of the prompt, as
// servers report them; more of them than there are prompt tokens are not believed.
func (p Price) USD(u chat.Usage) float64 {
	cached := min(max(0, u.CachedTokens), u.PromptTokens)
	return (float64(u.PromptTokens-cached)*p.Input + float64(cached)*p.CachedInput + float64(u.CompletionTokens)*p.Output) / 1e6
}

// Free says whether the server charges nothing.
func (p Price) Free() bool { return p == Price{} }

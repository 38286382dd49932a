package chat

import "github.com/tidwall/gjson"

// Usage counts the tokens of one model call, or of several added up.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	CachedTokens     int64 `json:"cached_tokens,omitempty"`    // part of PromptTokens
	ReasoningTokens  int64 `json:"reasoning_tokens,omitempty"` // part of CompletionTokens
}

// ParseUsage reads a server's "usage" object; missing counts are 0 and a missing
// total is the sum of the two others.
func ParseUsage(raw []byte) Usage {
	v := gjson.ParseBytes(raw)
	u := Usage{
		PromptTokens:     v.Get("prompt_tokens").Int(),
		CompletionTokens: v.Get("completion_tokens").Int(),
		TotalTokens:      v.Get("total_tokens").Int(),
		CachedTokens:     v.Get("prompt_tokens_details.cached_tokens").Int(),
		ReasoningTokens:  v.Get("completion_tokens_details.reasoning_tokens").Int(),
	}
	if u.TotalTokens == 0 {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	return u
}

// Add returns the sum of both.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		PromptTokens:     u.PromptTokens + v.PromptTokens,
		CompletionTokens: u.CompletionTokens + v.CompletionTokens,
		TotalTokens:      u.TotalTokens + v.TotalTokens,
		CachedTokens:     u.CachedTokens + v.CachedTokens,
		ReasoningTokens:  u.ReasoningTokens + v.ReasoningTokens,
	}
}

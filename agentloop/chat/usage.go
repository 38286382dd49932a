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
	var u Usage
	parse(raw).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "prompt_tokens":
			u.PromptTokens = value.Int()
		case "completion_tokens":
			u.CompletionTokens = value.Int()
		case "total_tokens":
			u.TotalTokens = value.Int()
		case "prompt_tokens_details":
			u.CachedTokens = value.Get("cached_tokens").Int()
		case "completion_tokens_details":
			u.ReasoningTokens = value.Get("reasoning_tokens").Int()
		}
		return true
	})
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

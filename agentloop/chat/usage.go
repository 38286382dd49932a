package chat

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
	EachMember(raw, func(key string, value []byte) bool {
		switch key {
		case "prompt_tokens":
			u.PromptTokens = number(value)
		case "completion_tokens":
			u.CompletionTokens = number(value)
		case "total_tokens":
			u.TotalTokens = number(value)
		case "prompt_tokens_details":
			u.CachedTokens = parse(value).Get("cached_tokens").Int()
		case "completion_tokens_details":
			u.ReasoningTokens = parse(value).Get("reasoning_tokens").Int()
		}
		return true
	})
	if u.TotalTokens == 0 {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	return u
}

// number reads a count; a value that is none counts as gjson has it.
func number(value []byte) (n int64) {
	if len(value) > 18 {
		return parse(value).Int()
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return parse(value).Int()
		}
		n = n*10 + int64(c-'0')
	}
	return n
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

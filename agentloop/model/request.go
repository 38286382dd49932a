package model

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/tidwall/gjson"
)

// prefixCache keeps the part of request bodies before the messages (model and
// tools), so that large tool definitions are not copied on every turn.
type prefixCache struct {
	mu       sync.Mutex
	prefixes map[*chat.Toolset][]byte
}

// maxPrefixes bounds the cache; runs have a handful of toolsets.
const maxPrefixes = 64

func (p *prefixCache) get(model string, tools *chat.Toolset) []byte {
	if tools.Len() == 0 {
		tools = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if prefix, ok := p.prefixes[tools]; ok {
		return prefix
	}
	if p.prefixes == nil || len(p.prefixes) >= maxPrefixes {
		p.prefixes = make(map[*chat.Toolset][]byte)
	}
	prefix := appendPrefix(nil, chat.AppendString(nil, model), toolsJSON(tools))
	p.prefixes[tools] = prefix
	return prefix
}

func toolsJSON(tools *chat.Toolset) []byte {
	if tools.Len() == 0 {
		return nil
	}
	return tools.JSON()
}

// appendPrefix writes the body up to the list of messages; nil values are left out.
func appendPrefix(dst, model, tools []byte) []byte {
	dst = append(dst, '{')
	if model != nil {
		dst = append(append(append(dst, `"model":`...), model...), ',')
	}
	if tools != nil {
		dst = append(append(append(dst, `"tools":`...), tools...), ',')
	}
	return append(dst, `"messages":`...)
}

// body stitches the body of one request.
func (c *Chat) body(req *Request) (*chat.Body, error) {
	if len(req.Messages) == 0 {
		return nil, errors.New("the conversation holds no messages")
	}
	for _, f := range req.Extra {
		switch {
		case f.Key == "messages":
			return nil, errors.New(`extra_body must not replace "messages"`)
		case f.Key == "stream" && gjson.ParseBytes(f.Value).Bool():
			return nil, errors.New(`extra_body must not turn "stream" on: whole answers are read`)
		case !gjson.ValidBytes(f.Value):
			return nil, fmt.Errorf("the value of %q in extra_body is not valid JSON", f.Key)
		}
	}
	replaced := func(key string) bool { return len(req.Extra) > 0 && req.Extra.Get(key) != nil }

	var prefix []byte
	if model, tools := replaced("model"), replaced("tools"); model || tools {
		name, list := chat.AppendString(nil, c.http.target.model), toolsJSON(req.Tools)
		if model {
			name = nil
		}
		if tools {
			list = nil
		}
		prefix = appendPrefix(nil, name, list)
	} else {
		prefix = c.prefixes.get(c.http.target.model, req.Tools)
	}

	suffix := make([]byte, 0, 128)
	number := func(key string, v *float64) error {
		if v == nil || replaced(key) {
			return nil
		}
		if math.IsNaN(*v) || math.IsInf(*v, 0) {
			return fmt.Errorf("%s is %v, which JSON can't carry", key, *v)
		}
		suffix = append(suffix, `,"`...)
		suffix = append(suffix, key...)
		suffix = append(suffix, `":`...)
		suffix = strconv.AppendFloat(suffix, *v, 'g', -1, 64)
		return nil
	}
	if err := errors.Join(number("temperature", req.Temperature), number("top_p", req.TopP)); err != nil {
		return nil, err
	}
	// max_completion_tokens is the same limit under its newer name; servers refuse both.
	if req.MaxTokens > 0 && !replaced("max_tokens") && !replaced("max_completion_tokens") {
		suffix = append(suffix, `,"max_tokens":`...)
		suffix = strconv.AppendInt(suffix, int64(req.MaxTokens), 10)
	}
	if len(req.Stop) > 0 && !replaced("stop") {
		suffix = append(suffix, `,"stop":[`...)
		for i, s := range req.Stop {
			if i > 0 {
				suffix = append(suffix, ',')
			}
			suffix = chat.AppendString(suffix, s)
		}
		suffix = append(suffix, ']')
	}
	if !replaced("stream") {
		suffix = append(suffix, `,"stream":false`...)
	}
	for _, f := range req.Extra {
		suffix = append(suffix, ',')
		suffix = chat.AppendString(suffix, f.Key)
		suffix = append(suffix, ':')
		suffix = append(suffix, f.Value...)
	}
	return chat.NewBody(prefix, req.Messages, append(suffix, '}')), nil
}

package modeltest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/tokenizer"
)

// Templates of the synthetic model, for conversations in the shapes that models of
// today use. All end an answer with <|im_end|>.
const (
	// ChatML renders tool calls in the answer and results of tools in user turns, as
	// models trained for the hermes parser do.
	ChatML = `{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}Tools:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'system' and loop.first %}
{%- elif m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% elif m.role == 'assistant' and m.tool_calls %}<|im_start|>assistant
{% if m.content %}{{ m.content }}
{% endif %}
{%- for call in m.tool_calls %}{{ '\n' if not loop.first else '' }}<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

	// Thinking keeps the reasoning of the answers since the last question of the user
	// and leaves out that of those before it.
	Thinking = `{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% elif m.role == 'assistant' %}<|im_start|>assistant
{% if m.reasoning_content and loop.index0 > ns.last %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content or '' }}
{%- for call in m.tool_calls or [] %}{{ '\n' if m.content or not loop.first else '' }}<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`
)

// EndOfText is the token that ends an answer of the synthetic model.
const EndOfText = "<|im_end|>"

// words become tokens of their own in the synthetic vocabulary, piece by piece.
var words = [...]string{"the", "Ġthe", "ing", "Ġfile", "Ġcommand", "name", "arguments", "Ġlist", "Ġand", "tool", "response", "call", "ĊĊ", "ĠĠ", "\":Ġ", "{\"", "Ã¤", "â‚¬", "Ġls", "\"}", "system", "user", "assistant", "ĠHello", "Hello", "Ġworld"}

// WriteFolder writes the folder of a synthetic model: a byte-level BPE tokenizer with a
// few hundred tokens, its configuration and a chat template.
func WriteFolder(dir, template string) error {
	type added struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
		Single  bool   `json:"single_word"`
		L       bool   `json:"lstrip"`
		R       bool   `json:"rstrip"`
		Norm    bool   `json:"normalized"`
		Special bool   `json:"special"`
	}
	vocabulary := map[string]int{}
	for _, c := range ByteCharacters() {
		vocabulary[c] = len(vocabulary)
	}
	merges := []string{}
	for _, word := range words {
		left := ""
		for _, r := range word {
			c := string(r)
			if _, known := vocabulary[c]; !known {
				left = "" // not a character of the byte alphabet
				break
			}
			if left == "" {
				left = c
				continue
			}
			joined := left + c
			if _, known := vocabulary[joined]; !known {
				vocabulary[joined] = len(vocabulary)
				merges = append(merges, left+" "+c)
			}
			left = joined
		}
	}
	var specials []added
	for _, content := range []string{"<|endoftext|>", "<|im_start|>", EndOfText} {
		specials = append(specials, added{ID: len(vocabulary) + len(specials), Content: content, Special: true})
	}
	for _, content := range []string{"<tool_call>", "</tool_call>", "<think>", "</think>"} {
		specials = append(specials, added{ID: len(vocabulary) + len(specials), Content: content})
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	files := map[string]any{
		"tokenizer.json": map[string]any{
			"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": specials, "normalizer": nil,
			"pre_tokenizer": byteLevel, "post_processor": nil, "decoder": byteLevel,
			"model": map[string]any{
				"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
				"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocabulary, "merges": merges,
			},
		},
		"tokenizer_config.json":  map[string]any{"eos_token": EndOfText, "pad_token": "<|endoftext|>", "chat_template": template},
		"generation_config.json": map[string]any{"eos_token_id": []int{specials[2].ID, specials[0].ID}},
	}
	for name, content := range files {
		raw, err := chat.Marshal(content)
		if err != nil {
			return fmt.Errorf("write the synthetic model: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			return fmt.Errorf("write the synthetic model: %w", err)
		}
	}
	return nil
}

// ByteCharacters returns the character that stands for each byte in byte-level
// vocabularies: itself where it is printable, else one from U+0100 on.
func ByteCharacters() [256]string {
	var table [256]string
	next := 256
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			table[b] = string(rune(b))
			continue
		}
		table[b] = string(rune(next))
		next++
	}
	return table
}

// Scatter returns ids of text that its tokenizer would not have chosen, as a model
// samples them now and then: random pieces, down to single bytes within characters.
// The random numbers decide; the same ones give the same ids.
func Scatter(t *tokenizer.Tokenizer, text string, random func(n int) int) []int {
	canonical, err := t.Encode(text, false)
	if err != nil {
		return nil
	}
	alphabet := ByteCharacters()
	var out []int
	for _, id := range canonical {
		token, _ := t.Token(id)
		whole := t.DecodeBytes([]int{id}, false)
		if t.IsSpecial(id) || strings.HasPrefix(token, "<") && len(token) > 1 || random(3) > 0 {
			out = append(out, id)
			continue
		}
		for _, b := range whole {
			if single, ok := t.ID(alphabet[b]); ok {
				out = append(out, single)
			}
		}
	}
	return out
}

// LogprobOf is the log-probability that the token servers report for a token at a
// place of its sequence, so that tests can check what was put where.
func LogprobOf(id, position int) float64 {
	return -math.Round(float64(id%97)*1000+float64(position%1000)) / 1e5
}

func jsonIDs(dst []byte, list []int) []byte {
	dst = append(dst, '[')
	for i, id := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}

// idsOf reads a list of ids: prompts of a hundred thousand come with every request.
func idsOf(raw json.RawMessage) ([]int, bool) {
	text, isList := strings.CutPrefix(strings.TrimSpace(string(raw)), "[")
	text, closed := strings.CutSuffix(text, "]")
	if !isList || !closed {
		return nil, false
	}
	list := make([]int, 0, len(text)/5+1)
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" && len(list) == 0 {
			continue
		}
		id, err := strconv.Atoi(part)
		if err != nil || id < 0 {
			return nil, false
		}
		list = append(list, id)
	}
	return list, true
}

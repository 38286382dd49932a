package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Parse reads the content of a tokenizer.json. Truncation and padding settings are
// left aside: a caller decides how long its sequences are.
func Parse(data []byte) (*Tokenizer, error) {
	var f struct {
		AddedTokens   []AddedToken    `json:"added_tokens"`
		Normalizer    json.RawMessage `json:"normalizer"`
		PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
		PostProcessor json.RawMessage `json:"post_processor"`
		Decoder       json.RawMessage `json:"decoder"`
		Model         json.RawMessage `json:"model"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("not a tokenizer.json: %w", err)
	}
	if isNull(f.Model) {
		return nil, fmt.Errorf("not a tokenizer.json: it has no model")
	}
	t := &Tokenizer{}
	var err error
	if t.normalize, err = parseNormalizer(f.Normalizer); err != nil {
		return nil, err
	}
	if t.pre, err = parsePreTokenizers(f.PreTokenizer); err != nil {
		return nil, err
	}
	if err := checkFirst(t.pre, t.normalize != nil); err != nil {
		return nil, err
	}
	if t.model, err = parseModel(f.Model); err != nil {
		return nil, err
	}
	if t.prefix, t.suffix, err = parsePostProcessor(f.PostProcessor); err != nil {
		return nil, err
	}
	if t.decode, err = parseDecoders(f.Decoder); err != nil {
		return nil, err
	}
	t.byteLevel = t.decode.byteLevel()
	for _, token := range f.AddedTokens {
		if token.ID < 0 || token.ID > maxID {
			return nil, fmt.Errorf("added token %q has the id %d, which is out of range", token.Content, token.ID)
		}
	}
	if t.added, err = newAddedVocabulary(f.AddedTokens, t.normalize, t.model); err != nil {
		return nil, err
	}
	t.fuse()
	return t, nil
}

// checkFirst refuses what would need to know where in the original text each character
// of the normalized one comes from. No published tokenizer does.
func checkFirst(pre []preTokenizer, normalizes bool) error {
	for i, p := range pre {
		if m, ok := p.(metaspace); ok && m.scheme == "first" && i > 0 && normalizes {
			return errors.New(`a Metaspace with prepend_scheme "first" behind another pre-tokenizer is not supported together with a normalizer`)
		}
	}
	return nil
}

// fuse drops the mapping of bytes to characters where the model can do without.
func (t *Tokenizer) fuse() {
	last := len(t.pre) - 1
	m, isBPE := t.model.(*bpe)
	if last < 0 || !isBPE {
		return
	}
	if _, maps := t.pre[last].(byteLevel); maps && m.fuse() {
		t.pre = t.pre[:last]
	}
}

func parseModel(raw json.RawMessage) (model, error) {
	var c struct {
		Type   string          `json:"type"`
		Merges json.RawMessage `json:"merges"`
		Vocab  json.RawMessage `json:"vocab"`
		Prefix *string         `json:"continuing_subword_prefix"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if c.Type == "" { // files of early versions name no type
		switch {
		case c.Merges != nil:
			c.Type = "BPE"
		case bytes.HasPrefix(bytes.TrimSpace(c.Vocab), []byte("[")):
			c.Type = "Unigram"
		case c.Prefix != nil:
			c.Type = "WordPiece"
		default:
			c.Type = "WordLevel"
		}
	}
	switch c.Type {
	case "BPE":
		return errorless(parseBPE(raw))
	case "Unigram":
		return errorless(parseUnigram(raw))
	case "WordPiece":
		return errorless(parseWordPiece(raw, false))
	case "WordLevel":
		return errorless(parseWordPiece(raw, true))
	}
	return nil, unknown("model", c.Type)
}

// errorless keeps a nil pointer from becoming an interface that isn't nil.
func errorless[M model](m M, err error) (model, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// parsePostProcessor returns the ids put before and after one sequence.
func parsePostProcessor(raw json.RawMessage) (prefix, suffix []int, err error) {
	if isNull(raw) {
		return nil, nil, nil
	}
	var c struct {
		Type          string            `json:"type"`
		Processors    []json.RawMessage `json:"processors"`
		Single        []json.RawMessage `json:"single"`
		SpecialTokens map[string]struct {
			IDs []int `json:"ids"`
		} `json:"special_tokens"`
		Sep []json.RawMessage `json:"sep"`
		Cls []json.RawMessage `json:"cls"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, nil, fmt.Errorf("post-processor: %w", err)
	}
	switch c.Type {
	case "ByteLevel": // trims offsets only
		return nil, nil, nil
	case "Sequence":
		for _, part := range c.Processors {
			before, after, err := parsePostProcessor(part)
			if err != nil {
				return nil, nil, err
			}
			prefix = append(before, prefix...)
			suffix = append(suffix, after...)
		}
		return prefix, suffix, nil
	case "BertProcessing", "RobertaProcessing":
		var cls, sep int
		if len(c.Cls) != 2 || len(c.Sep) != 2 || json.Unmarshal(c.Cls[1], &cls) != nil || json.Unmarshal(c.Sep[1], &sep) != nil {
			return nil, nil, fmt.Errorf("post-processor %s: cls and sep are not a token and its id each", c.Type)
		}
		return []int{cls}, []int{sep}, nil
	case "TemplateProcessing":
		sequences := 0
		for _, item := range c.Single {
			var part struct {
				SpecialToken *struct {
					ID string `json:"id"`
				} `json:"SpecialToken"`
				Sequence *struct{} `json:"Sequence"`
			}
			if err := json.Unmarshal(item, &part); err != nil {
				return nil, nil, fmt.Errorf("post-processor TemplateProcessing: %w", err)
			}
			switch {
			case part.Sequence != nil:
				sequences++
			case part.SpecialToken != nil:
				token, ok := c.SpecialTokens[part.SpecialToken.ID]
				if !ok {
					return nil, nil, fmt.Errorf("post-processor TemplateProcessing: %q is not among its special_tokens", part.SpecialToken.ID)
				}
				if sequences == 0 {
					prefix = append(prefix, token.IDs...)
				} else {
					suffix = append(suffix, token.IDs...)
				}
			}
		}
		if sequences != 1 {
			return nil, nil, fmt.Errorf("post-processor TemplateProcessing: its template for one sequence has %d", sequences)
		}
		return prefix, suffix, nil
	}
	return nil, nil, unknown("post-processor", c.Type)
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

func unknown(kind, name string) error {
	return fmt.Errorf("this version doesn't know the %s %q; tokenizing without it would give wrong ids", kind, name)
}

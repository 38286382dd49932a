package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// decoder changes the tokens on their way back to text.
type decoder func(tokens []string) []string

// decoderChain is the decoders of a file.
type decoderChain struct {
	steps []decoder // nil: tokens are words, with spaces between them
	kinds []string
}

func (c decoderChain) text(tokens []string) string {
	if c.steps == nil {
		return strings.Join(tokens, " ")
	}
	for _, step := range c.steps {
		tokens = step(tokens)
	}
	return strings.Join(tokens, "")
}

// byteLevel tells that tokens are bytes written as characters, and nothing else happens.
func (c decoderChain) byteLevel() bool { return len(c.kinds) == 1 && c.kinds[0] == "ByteLevel" }

// steady tells that more tokens only add to the text of those before, with the exception
// of tokens that stand for bytes.
func (c decoderChain) steady() bool {
	fused := false
	for _, kind := range c.kinds {
		switch kind {
		case "Replace", "Metaspace", "WordPiece", "BPEDecoder", "ByteFallback":
			if fused {
				return false
			}
		case "Fuse":
			fused = true
		case "Strip": // at the start of the text, or of each token
		default:
			return false
		}
	}
	return true
}

func parseDecoders(raw json.RawMessage) (decoderChain, error) {
	if isNull(raw) {
		return decoderChain{}, nil
	}
	var c struct {
		Type           string            `json:"type"`
		Decoders       []json.RawMessage `json:"decoders"`
		Pattern        json.RawMessage   `json:"pattern"`
		Content        string            `json:"content"`
		Start          int               `json:"start"`
		Stop           int               `json:"stop"`
		Replacement    string            `json:"replacement"`
		PrependScheme  string            `json:"prepend_scheme"`
		AddPrefixSpace *bool             `json:"add_prefix_space"`
		Prefix         string            `json:"prefix"`
		Cleanup        *bool             `json:"cleanup"`
		Suffix         string            `json:"suffix"`
		PadToken       string            `json:"pad_token"`
		WordDelimiter  string            `json:"word_delimiter_token"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return decoderChain{}, fmt.Errorf("decoder: %w", err)
	}
	one := func(d decoder) (decoderChain, error) {
		return decoderChain{steps: []decoder{d}, kinds: []string{c.Type}}, nil
	}
	switch c.Type {
	case "Sequence":
		all := decoderChain{steps: []decoder{}}
		for _, part := range c.Decoders {
			some, err := parseDecoders(part)
			if err != nil {
				return decoderChain{}, err
			}
			all.steps, all.kinds = append(all.steps, some.steps...), append(all.kinds, some.kinds...)
		}
		return all, nil
	case "ByteLevel":
		return one(decodeByteLevel)
	case "ByteFallback":
		return one(decodeByteFallback)
	case "Fuse":
		return one(func(tokens []string) []string { return []string{strings.Join(tokens, "")} })
	case "Replace":
		find, err := parsePattern(c.Pattern)
		if err != nil {
			return decoderChain{}, fmt.Errorf("decoder Replace: %w", err)
		}
		return one(eachToken(func(_ int, token string) string {
			replaced, err := replaceAll(find, token, c.Content, func(int, int) {})
			if err != nil { // no published pattern gives up on a token
				return token
			}
			return replaced
		}))
	case "Strip":
		if utf8.RuneCountInString(c.Content) != 1 {
			return decoderChain{}, fmt.Errorf("decoder Strip: content %q is not one character", c.Content)
		}
		if c.Stop > 0 {
			c.Type = "Strip at the end"
		}
		return one(eachToken(func(_ int, token string) string {
			for range c.Start {
				token = strings.TrimPrefix(token, c.Content)
			}
			for range c.Stop {
				token = strings.TrimSuffix(token, c.Content)
			}
			return token
		}))
	case "Metaspace":
		m, err := newMetaspace(c.Replacement, c.PrependScheme, c.AddPrefixSpace)
		if err != nil {
			return decoderChain{}, fmt.Errorf("decoder Metaspace: %w", err)
		}
		return one(eachToken(func(i int, token string) string {
			with := " "
			if i == 0 && m.scheme != "never" {
				with = ""
			}
			return strings.ReplaceAll(token, m.replacement, with)
		}))
	case "WordPiece":
		cleanup := c.Cleanup == nil || *c.Cleanup
		return one(eachToken(func(i int, token string) string {
			if i > 0 {
				if joined, ok := strings.CutPrefix(token, c.Prefix); ok {
					token = joined
				} else {
					token = " " + token
				}
			}
			if cleanup {
				token = cleanUp(token)
			}
			return token
		}))
	case "CTC":
		cleanup := c.Cleanup == nil || *c.Cleanup
		return one(func(tokens []string) []string {
			var out []string
			for _, token := range slices.Compact(slices.Clone(tokens)) {
				if token = strings.ReplaceAll(token, c.PadToken, ""); cleanup {
					token = strings.ReplaceAll(cleanUp(token), c.WordDelimiter, " ")
				}
				if token != "" {
					out = append(out, token)
				}
			}
			return out
		})
	case "BPEDecoder":
		return one(func(tokens []string) []string {
			out := make([]string, len(tokens))
			for i, token := range tokens {
				with := " "
				if i == len(tokens)-1 {
					with = ""
				}
				out[i] = strings.ReplaceAll(token, c.Suffix, with)
			}
			return out
		})
	}
	return decoderChain{}, unknown("decoder", c.Type)
}

func eachToken(change func(i int, token string) string) decoder {
	return func(tokens []string) []string {
		out := make([]string, len(tokens))
		for i, token := range tokens {
			out[i] = change(i, token)
		}
		return out
	}
}

func decodeByteLevel(tokens []string) []string {
	var bytes []byte
	for _, token := range tokens {
		bytes = appendMappedBytes(bytes, token)
	}
	return []string{lossy(bytes)}
}

// decodeByteFallback joins neighbouring tokens like <0xE2> to characters; bytes
// that make up none become U+FFFD each.
func decodeByteFallback(tokens []string) []string {
	out := make([]string, 0, len(tokens))
	var bytes []byte
	flush := func() {
		if len(bytes) == 0 {
			return
		}
		if utf8.Valid(bytes) {
			out = append(out, string(bytes))
		} else {
			for range bytes {
				out = append(out, "\uFFFD")
			}
		}
		bytes = bytes[:0]
	}
	for _, token := range tokens {
		if b, ok := fallbackByte(token); ok {
			bytes = append(bytes, b)
			continue
		}
		flush()
		out = append(out, token)
	}
	flush()
	return out
}

func fallbackByte(token string) (byte, bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	b := 0
	for _, c := range []byte(token[3:5]) {
		switch {
		case c >= '0' && c <= '9':
			b = b<<4 | int(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			b = b<<4 | int(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return byte(b), true
}

// cleanUp removes the spaces that cutting off punctuation and contractions made.
func cleanUp(s string) string {
	for _, r := range [][2]string{
		{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
		{" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
	} {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	return s
}

package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer/ucd"
)

// charsmap is SentencePiece's compiled normalization: a double-array trie of byte
// strings and what replaces them
// (https://github.com/google/sentencepiece/blob/master/src/normalizer.h).
type charsmap struct {
	trie         []uint32
	replacements string              // each ends with a zero byte
	plain        [utf8.RuneSelf]bool // characters that stay as they are
}

func parseCharsmap(text string) (*charsmap, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	if len(data) < 4 {
		return nil, errors.New("precompiled_charsmap is shorter than its header")
	}
	size := binary.LittleEndian.Uint32(data)
	data = data[4:]
	if int64(size) > int64(len(data)) || size < 4 {
		return nil, errors.New("the trie of precompiled_charsmap does not fit into it")
	}
	m := &charsmap{trie: make([]uint32, size/4)}
	for i := range m.trie {
		m.trie[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	m.replacements = string(data[len(m.trie)*4:])
	if !utf8.ValidString(m.replacements) {
		return nil, errors.New("the replacements of precompiled_charsmap are not UTF-8")
	}
	for c := byte(' '); c < 0x7F; c++ {
		_, replaced := m.replacement(string(rune(c)))
		m.plain[c] = !replaced
	}
	return m, nil
}

// replacement returns what stands for the shortest prefix of s that the trie has. The
// library replaces the whole of s by it.
func (m *charsmap) replacement(s string) (string, bool) {
	offset := func(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
	at := offset(m.trie[0])
	for i := range len(s) {
		if s[i] == 0 {
			return "", false
		}
		at ^= uint32(s[i])
		if int64(at) >= int64(len(m.trie)) {
			return "", false
		}
		unit := m.trie[at]
		if unit&(1<<31|0xFF) != uint32(s[i]) {
			return "", false
		}
		at ^= offset(unit)
		if unit>>8&1 == 0 {
			continue
		}
		if int64(at) >= int64(len(m.trie)) {
			return "", false
		}
		start := m.trie[at] & (1<<31 - 1)
		if int64(start) > int64(len(m.replacements)) {
			return "", false
		}
		text, _, _ := strings.Cut(m.replacements[start:], "\x00")
		return text, true
	}
	return "", false
}

// longestGrapheme is the length in bytes up to which a grapheme cluster is looked up whole.
const longestGrapheme = 5

func (m *charsmap) normalize(s string) string {
	out := make([]byte, 0, len(s)+len(s)/8)
	for len(s) > 0 {
		// ASCII before ASCII is a cluster by itself.
		n := 0
		for n+1 < len(s) && s[n+1] < utf8.RuneSelf && s[n] < utf8.RuneSelf && m.plain[s[n]] {
			n++
		}
		if n > 0 {
			out = append(out, s[:n]...)
			s = s[n:]
			continue
		}
		n = ucd.Grapheme(s)
		grapheme := s[:n]
		s = s[n:]
		if n <= longestGrapheme {
			if text, ok := m.replacement(grapheme); ok {
				out = append(out, text...)
				continue
			}
		}
		for len(grapheme) > 0 {
			_, width := utf8.DecodeRuneInString(grapheme)
			text, ok := m.replacement(grapheme[:width])
			if !ok {
				text = grapheme[:width]
			}
			out = append(out, text...)
			grapheme = grapheme[width:]
		}
	}
	return string(out)
}

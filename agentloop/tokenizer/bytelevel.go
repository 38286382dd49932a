package tokenizer

import "unicode/utf8"

// Byte-level tokenizers write each byte as one printable character, the mapping of
// GPT-2's encoder: printable Latin-1 characters stand for themselves, the other 68
// bytes for the characters from U+0100 on.
type byteMap struct {
	char [256]string
	byte [0x144]int16 // by character; -1 where none
}

var bytesAsChars = newByteMap()

func newByteMap() *byteMap {
	m := &byteMap{}
	for i := range m.byte {
		m.byte[i] = -1
	}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			r = next
			next++
		}
		m.char[b] = string(r)
		m.byte[r] = int16(b)
	}
	return m
}

// mapBytes writes the bytes of s as characters.
func mapBytes(s string) string {
	out := make([]byte, 0, len(s)+len(s)/4)
	for i := range len(s) {
		out = append(out, bytesAsChars.char[s[i]]...)
	}
	return string(out)
}

// unmapBytes is the inverse of mapBytes; ok is false when s has a character that
// stands for no byte.
func unmapBytes(s string) (string, bool) {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		if int(r) >= len(bytesAsChars.byte) || bytesAsChars.byte[r] < 0 {
			return "", false
		}
		out = append(out, byte(bytesAsChars.byte[r]))
	}
	return string(out), true
}

// appendMappedBytes appends the bytes a token stands for: its own, when it has a
// character that stands for none.
func appendMappedBytes(out []byte, token string) []byte {
	start := len(out)
	for _, r := range token {
		if int(r) >= len(bytesAsChars.byte) || bytesAsChars.byte[r] < 0 {
			return append(out[:start], token...)
		}
		out = append(out, byte(bytesAsChars.byte[r]))
	}
	return out
}

// lossy returns b as text with U+FFFD for each longest part of a character that is
// cut short, as Unicode recommends and other implementations do. (Ranging over a
// string gives one for each byte.)
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	out := make([]byte, 0, len(b)+8)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n <= 1 {
			n = brokenPart(b)
			out = append(out, "\uFFFD"...)
		} else {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return string(out)
}

// brokenPart returns how many bytes of b, which begins with no character, could
// still have begun one.
func brokenPart(b []byte) int {
	lo, hi, need := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c == 0xE0:
		lo, need = 0xA0, 2
	case c == 0xED:
		hi, need = 0x9F, 2
	case c >= 0xE1 && c <= 0xEF:
		need = 2
	case c == 0xF0:
		lo, need = 0x90, 3
	case c >= 0xF1 && c <= 0xF3:
		need = 3
	case c == 0xF4:
		hi, need = 0x8F, 3
	}
	n := 1
	for n <= need && n < len(b) && b[n] >= lo && b[n] <= hi {
		lo, hi = 0x80, 0xBF
		n++
	}
	return n
}

// incompleteTail returns the length of the part at the end of b that may still
// become a character when more bytes follow.
func incompleteTail(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) && brokenPart(tail) == n {
				return n
			}
			return 0
		}
	}
	return 0
}

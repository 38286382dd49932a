package textfilter

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Words are the words of a text, each as a hash: runs of letters, marks and digits in
// lower case, after NFKC. Each character of scripts without spaces is a word. Punctuation
// and space count for nothing.
type Words struct {
	text   string // normalised
	hashes []uint64
	spans  [][2]int32 // of each word in text
}

// SplitWords returns the words of a text. It takes over the space of the words given, which
// are no longer valid.
func SplitWords(text string, reuse Words) Words {
	w := Words{text: norm.NFKC.String(text), hashes: reuse.hashes[:0], spans: reuse.spans[:0]}
	start, hash := -1, uint64(fnvOffset)
	end := func(at int) {
		if start >= 0 {
			w.hashes = append(w.hashes, mix(hash))
			w.spans = append(w.spans, [2]int32{int32(start), int32(at)})
		}
		start, hash = -1, fnvOffset
	}
	for i := 0; i < len(w.text); {
		r, size := rune(w.text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(w.text[i:])
		}
		switch {
		case !isWord(r):
			end(i)
		case r >= utf8.RuneSelf && unspaced(r):
			end(i)
			start, hash = i, fnv(hash, r)
			end(i + size)
		default:
			if start < 0 {
				start = i
			}
			hash = fnv(hash, lower(r))
		}
		i += size
	}
	end(len(w.text))
	return w
}

// Len is the number of words.
func (w *Words) Len() int { return len(w.hashes) }

// Text returns n words from the given one on, as they stand in the normalised text.
func (w *Words) Text(first, n int) string {
	return w.text[w.spans[first][0]:w.spans[first+n-1][1]]
}

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
}

func lower(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	return unicode.ToLower(r)
}

// unspaced says whether a letter belongs to a script that does not separate words.
func unspaced(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// FNV-1a over runes, and the finishing step of SplitMix64.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func fnv(hash uint64, r rune) uint64 { return (hash ^ uint64(r)) * fnvPrime }

func mix(h uint64) uint64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// eachGram calls visit with the hash of every n consecutive words; a shorter list has
// none.
func eachGram(hashes []uint64, n int, visit func(first int, hash uint64)) {
	if n <= 0 || len(hashes) < n {
		return
	}
	const base = 0x9e3779b97f4a7c15
	power := uint64(1) // base to the power of n-1
	for range n - 1 {
		power *= base
	}
	rolling := uint64(0)
	for i, h := range hashes {
		if i >= n {
			rolling -= hashes[i-n] * power
		}
		rolling = rolling*base + h
		if i >= n-1 {
			visit(i-n+1, mix(rolling+uint64(n)))
		}
	}
}

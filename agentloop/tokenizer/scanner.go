package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// The patterns that published tokenizers cut text with, as they are written there.
const (
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternO200k  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternTekken = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// knownScanner returns a hand-written equivalent of a pattern: a function that
// gives the length of the match at the start of a text that isn't empty. The
// patterns match at every place, so nothing lies between two matches.
func knownScanner(pattern string) func(string) int {
	switch pattern {
	case patternGPT2:
		return scanGPT2
	case patternLlama3:
		return func(s string) int { return scanWords(s, 3) }
	case patternQwen2:
		return func(s string) int { return scanWords(s, 1) }
	case patternO200k:
		return func(s string) int { return scanCased(s, 3, true) }
	case patternTekken:
		return func(s string) int { return scanCased(s, 1, false) }
	}
	return nil
}

// Classes of a character, as bits.
const (
	letter = 1 << iota
	number
	space
	newline   // \r and \n
	upperLike // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lowerLike // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
)

// classTable holds the classes of the characters below U+10000, which unicode.Is
// would take most of a scan's time to find.
var classTable = sync.OnceValue(func() *[0x10000]uint8 {
	table := new([0x10000]uint8)
	for r := range table {
		table[r] = classify(rune(r))
	}
	return table
})

func classify(r rune) uint8 {
	var c uint8
	if unicode.IsLetter(r) {
		c |= letter
	}
	if unicode.Is(unicode.N, r) {
		c |= number
	}
	if unicode.IsSpace(r) {
		c |= space
	}
	if r == '\r' || r == '\n' {
		c |= newline
	}
	both := unicode.In(r, unicode.Lm, unicode.Lo, unicode.M)
	if both || unicode.In(r, unicode.Lu, unicode.Lt) {
		c |= upperLike
	}
	if both || unicode.Is(unicode.Ll, r) {
		c |= lowerLike
	}
	return c
}

// class returns the classes of the first character of s and its length; 0, 0 at the end.
func class(table *[0x10000]uint8, s string) (uint8, int) {
	if len(s) == 0 {
		return 0, 0
	}
	if s[0] < utf8.RuneSelf {
		return table[s[0]], 1
	}
	r, n := utf8.DecodeRuneInString(s)
	if int(r) < len(table) {
		return table[r], n
	}
	return classify(r), n
}

// run returns the length of the characters at the start of s that have a class of
// want and none of avoid; want 0 asks for none.
func run(table *[0x10000]uint8, s string, want, avoid uint8) int {
	at := 0
	for at < len(s) {
		c, n := class(table, s[at:])
		if want != 0 && c&want == 0 || c&avoid != 0 {
			break
		}
		at += n
	}
	return at
}

// contraction matches (?i:'s|'t|'re|'ve|'m|'ll|'d), where ſ folds to s.
func contraction(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	lower := func(c byte) byte {
		if fold && c >= 'A' && c <= 'Z' {
			return c | 0x20
		}
		return c
	}
	switch lower(s[1]) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if len(s) > 2 && lower(s[2]) == 'e' {
			return 3
		}
	case 'l':
		if len(s) > 2 && lower(s[2]) == 'l' {
			return 3
		}
	}
	if fold && len(s) > 2 && s[1:3] == "ſ" {
		return 3
	}
	return 0
}

// spaces matches \s+(?!\S)|\s+ where s begins with white space: all of it at the
// end of the text, else all but the last character, or that one when it is alone.
func spaces(table *[0x10000]uint8, s string) int {
	end := run(table, s, space, 0)
	if end == len(s) {
		return end
	}
	_, last := utf8.DecodeLastRuneInString(s[:end])
	if end > last {
		return end - last
	}
	return end
}

// newlines matches \s*[\r\n]+ where s begins with white space: up to the last line
// break of it. 0 when it has none.
func newlines(table *[0x10000]uint8, s string) int {
	for end := run(table, s, space, 0); end > 0; end-- {
		if s[end-1] == '\n' || s[end-1] == '\r' {
			return end
		}
	}
	return 0
}

func scanGPT2(s string) int {
	table := classTable()
	if n := contraction(s, false); n > 0 {
		return n
	}
	at := 0
	if s[0] == ' ' {
		at = 1
	}
	c, _ := class(table, s[at:])
	switch {
	case at < len(s) && c&letter != 0:
		return at + run(table, s[at:], letter, 0)
	case at < len(s) && c&number != 0:
		return at + run(table, s[at:], number, 0)
	case at < len(s) && c&space == 0:
		return at + run(table, s[at:], 0, space|letter|number)
	}
	return spaces(table, s)
}

// scanWords is the pattern of cl100k and its kin: Llama 3 takes up to three digits
// at a time, Qwen 2 one.
func scanWords(s string, digits int) int {
	table := classTable()
	if n := contraction(s, true); n > 0 {
		return n
	}
	c, n := class(table, s)
	if c&letter != 0 {
		return run(table, s, letter, 0)
	}
	if c&(newline|number) == 0 {
		if letters := run(table, s[n:], letter, 0); letters > 0 {
			return n + letters
		}
	}
	return scanRest(table, s, c, digits, newline, false)
}

// scanRest is what the patterns have in common after their words: numbers,
// punctuation with the line breaks after it, white space.
func scanRest(table *[0x10000]uint8, s string, c uint8, digits int, after uint8, slash bool) int {
	if c&number != 0 {
		at := 0
		for range digits {
			c, n := class(table, s[at:])
			if c&number == 0 {
				break
			}
			at += n
		}
		return at
	}
	at := 0
	if s[0] == ' ' {
		at = 1
	}
	if n := run(table, s[at:], 0, space|letter|number); n > 0 {
		at += n
		for at < len(s) {
			c, n := class(table, s[at:])
			if c&after == 0 && !(slash && s[at] == '/') {
				break
			}
			at += n
		}
		return at
	}
	if n := newlines(table, s); n > 0 {
		return n
	}
	return spaces(table, s)
}

// scanCased is the pattern of o200k and Mistral's tekken: words end before a capital
// letter that follows a small one.
func scanCased(s string, digits int, contractions bool) int {
	table := classTable()
	c, n := class(table, s)
	// The optional character before the word is tried first, then none.
	starts := [2]int{0, -1}
	if c&(newline|letter|number) == 0 {
		starts = [2]int{n, 0}
	}
	for _, match := range [2]func(*[0x10000]uint8, string) int{endsLower, beginsUpper} {
		for _, from := range starts {
			if from < 0 {
				continue
			}
			if word := match(table, s[from:]); word > 0 {
				end := from + word
				if contractions {
					end += contraction(s[end:], true)
				}
				return end
			}
		}
	}
	return scanRest(table, s, c, digits, newline, true)
}

// endsLower matches upperLike* lowerLike+.
func endsLower(table *[0x10000]uint8, s string) int {
	upper := run(table, s, upperLike, 0)
	if lower := run(table, s[upper:], lowerLike, 0); lower > 0 {
		return upper + lower
	}
	// Give back characters that are both, from the end.
	for at := upper; at > 0; {
		r, n := utf8.DecodeLastRuneInString(s[:at])
		if classify(r)&lowerLike != 0 {
			return at
		}
		at -= n
	}
	return 0
}

// beginsUpper matches upperLike+ lowerLike*.
func beginsUpper(table *[0x10000]uint8, s string) int {
	upper := run(table, s, upperLike, 0)
	if upper == 0 {
		return 0
	}
	return upper + run(table, s[upper:], lowerLike, 0)
}

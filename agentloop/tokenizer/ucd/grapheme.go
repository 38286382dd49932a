package ucd

import (
	"sync"
	"unicode/utf8"
)

// The values of Grapheme_Cluster_Break in the order of the table.
const (
	breakCR byte = iota
	breakLF
	breakControl
	breakExtend
	breakZWJ
	breakRegional
	breakPrepend
	breakSpacing
	breakL
	breakV
	breakT
	breakLV
	breakLVT
)

type graphemeTables struct {
	breaks                                     runs
	pictographic, conjunct, consonant, linkers Set
}

var graphemes = sync.OnceValue(func() *graphemeTables {
	return &graphemeTables{
		breaks: unpackRuns(breaks17), pictographic: set(pictographic17)(),
		conjunct: set(conjuncts17)(), consonant: set(consonants17)(), linkers: set(linkers17)(),
	}
})

// Grapheme returns the length of the extended grapheme cluster at the start of s,
// which is not empty, by the rules of Unicode 17
// (https://www.unicode.org/reports/tr29/#Grapheme_Cluster_Boundary_Rules).
func Grapheme(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r >= ' ' && r < 0x7F && (len(s) == n || s[n] < 0x80) {
		return n
	}
	t := graphemes()
	last := t.breaks.of(r)
	regional := last == breakRegional                  // an indicator that has no partner yet
	emoji, joined := t.pictographic.Contains(r), false // an emoji with marks, and then a joiner
	consonant, linked := t.consonant.Contains(r), false
	for n < len(s) {
		r, width := utf8.DecodeRuneInString(s[n:])
		next := t.breaks.of(r)
		if !t.joins(last, next, regional, joined && t.pictographic.Contains(r), linked && t.consonant.Contains(r)) {
			break
		}
		regional = next == breakRegional && !regional
		joined = emoji && next == breakZWJ
		emoji = t.pictographic.Contains(r) || emoji && next == breakExtend
		linked = consonant && (t.linkers.Contains(r) || linked && t.conjunct.Contains(r))
		consonant = t.consonant.Contains(r) || consonant && t.conjunct.Contains(r)
		if t.consonant.Contains(r) {
			linked = false
		}
		last, n = next, n+width
	}
	return n
}

// joins tells whether two neighbouring characters belong to one cluster.
func (t *graphemeTables) joins(last, next byte, regional, emoji, conjunct bool) bool {
	switch {
	case last == breakCR && next == breakLF:
		return true
	case last <= breakControl || next <= breakControl:
		return false
	case next == breakExtend || next == breakZWJ || next == breakSpacing || last == breakPrepend:
		return true
	case last == breakL:
		return next == breakL || next == breakV || next == breakLV || next == breakLVT
	case last == breakLV || last == breakV:
		return next == breakV || next == breakT
	case last == breakLVT || last == breakT:
		return next == breakT
	}
	return emoji || conjunct || regional && next == breakRegional
}

package oniguruma

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer/ucd"
)

// alphabet numbers the classes of characters that no set of a pattern tells apart. All
// a matcher needs of a character is the number of its class.
type alphabet struct {
	bounds  []boundary
	sets    []*charset
	known   map[string]*charset // by the bounds of the set
	classes int
	ascii   [utf8.RuneSelf]uint16
	pages   [ucd.End >> pageBits]*page
}

const pageBits = 7

type page [1 << pageBits]uint16

type boundary struct {
	at  rune
	set int
}

// charset is a set of characters of the alphabet.
type charset struct {
	members []bool     // by class
	lead    [256]uint8 // by the first byte of a character: in, out or depends
}

const (
	out uint8 = iota
	in
	depends
)

// add registers a set.
func (a *alphabet) add(s ucd.Set) *charset {
	key := make([]byte, 0, 4*len(s))
	for _, r := range s {
		key = binary.LittleEndian.AppendUint32(key, uint32(r))
	}
	if c, ok := a.known[string(key)]; ok {
		return c
	}
	for _, r := range s {
		a.bounds = append(a.bounds, boundary{r, len(a.sets)})
	}
	c := &charset{}
	a.sets = append(a.sets, c)
	if a.known == nil {
		a.known = map[string]*charset{}
	}
	a.known[string(key)] = c
	return c
}

// finish numbers the classes and fills the sets.
func (a *alphabet) finish() error {
	slices.SortFunc(a.bounds, func(x, y boundary) int { return int(x.at - y.at) })
	numbers := map[string]uint16{}
	signature := make([]byte, (len(a.sets)+7)/8)
	at := rune(0)
	shared := map[uint16]*page{} // pages of one class
	for i := 0; ; {
		for ; i < len(a.bounds) && a.bounds[i].at == at; i++ {
			signature[a.bounds[i].set/8] ^= 1 << (a.bounds[i].set % 8)
		}
		id, known := numbers[string(signature)]
		if !known {
			if a.classes = len(numbers) + 1; a.classes > math.MaxUint16 {
				return errors.New("it has too many classes of characters")
			}
			id = uint16(len(numbers))
			numbers[string(signature)] = id
			for s, c := range a.sets {
				c.members = append(c.members, signature[s/8]>>(s%8)&1 == 1)
			}
		}
		to := rune(ucd.End)
		if i < len(a.bounds) {
			to = a.bounds[i].at
		}
		a.fill(at, to, id, shared)
		if at = to; at == ucd.End {
			break
		}
	}
	for c := range a.ascii {
		a.ascii[c] = a.pages[0][c]
	}
	for _, s := range a.sets {
		for c := range s.lead {
			switch {
			case c >= utf8.RuneSelf:
				s.lead[c] = depends
			case s.members[a.ascii[c]]:
				s.lead[c] = in
			}
		}
	}
	a.bounds, a.known = nil, nil
	return nil
}

// fill gives the characters before to the class id.
func (a *alphabet) fill(at, to rune, id uint16, shared map[uint16]*page) {
	for at < to {
		start := at &^ (1<<pageBits - 1)
		end := min(start+1<<pageBits, to)
		p := &a.pages[at>>pageBits]
		if at == start && end == start+1<<pageBits {
			if shared[id] == nil {
				shared[id] = new(page)
				for i := range shared[id] {
					shared[id][i] = id
				}
			}
			*p = shared[id]
		} else {
			if *p == nil {
				*p = new(page)
			}
			for i := at; i < end; i++ {
				(*p)[i-start] = id
			}
		}
		at = end
	}
}

func (a *alphabet) class(r rune) uint16 { return a.pages[r>>pageBits][r&(1<<pageBits-1)] }

// at returns the class of the character at a place of s and its length.
func (a *alphabet) at(s string, i int) (class uint16, width int) {
	if c := s[i]; c < utf8.RuneSelf {
		return a.ascii[c], 1
	}
	r, width := utf8.DecodeRuneInString(s[i:])
	return a.class(r), width
}

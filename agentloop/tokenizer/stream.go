package tokenizer

import "strings"

// Stream decodes ids as they come. What Next and Flush return adds up to what
// Decode returns for all ids at once, and never ends within a character.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool

	bytes []byte // not yet given out, where the tokenizer works on bytes

	// Otherwise ids are decoded together with those before them, since what a token
	// looks like may depend on its neighbours: window holds ids from a place on
	// where text was given out, and given is how much of its text that was.
	window []int
	given  int
}

// Neighbours further away than this don't matter to any decoder but those that
// join bytes, of which a character has four at most.
const streamWindow = 16

// Stream returns a decoder for one sequence.
func (t *Tokenizer) Stream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial}
}

// Next takes one id and returns the text that is certain by now, often none.
func (s *Stream) Next(id int) string {
	if s.t.byteLevel {
		s.bytes = s.t.appendBytes(s.bytes, []int{id}, s.skipSpecial)
		whole := len(s.bytes) - incompleteTail(s.bytes)
		text := lossy(s.bytes[:whole])
		s.bytes = append(s.bytes[:0], s.bytes[whole:]...)
		return text
	}
	if token, ok := s.t.Token(id); !ok || s.skipSpecial && s.t.added.special(token) {
		return ""
	}
	s.window = append(s.window, id)
	if !s.t.decode.steady() {
		return "" // nothing is certain before the end
	}
	text := s.t.Decode(s.window, false)
	if s.open(id) || len(text) < s.given {
		return ""
	}
	out := text[s.given:]
	s.given = len(text)
	if len(s.window) > 2*streamWindow && len(s.window) > 1 {
		s.shorten()
	}
	return out
}

// open tells whether the token may join with the next to something else than text
// that can be given out.
func (s *Stream) open(id int) bool {
	token, _ := s.t.Token(id)
	_, isByte := fallbackByte(token)
	return isByte
}

// shorten drops the oldest ids of the window but one: the first of a sequence is
// decoded unlike the others, and stands for it.
func (s *Stream) shorten() {
	kept := append(s.window[:1:1], s.window[len(s.window)-streamWindow:]...)
	for _, id := range kept[1:3] {
		if s.open(id) {
			return // within a character; wait for a better place
		}
	}
	s.window = kept
	s.given = len(s.t.Decode(s.window, false))
}

// Flush ends the sequence and returns what was held back.
func (s *Stream) Flush() string {
	if s.t.byteLevel {
		text := lossy(s.bytes)
		s.bytes = nil
		return text
	}
	text := s.t.Decode(s.window, false)
	s.window = nil
	if len(text) <= s.given {
		return ""
	}
	return strings.Clone(text[s.given:])
}

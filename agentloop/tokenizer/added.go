package tokenizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer/ucd"
)

// AddedToken is a token that is looked for in the text before anything else.
type AddedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where no word character is next to it
	LeftStrip  bool   `json:"lstrip"`      // takes the white space before it along
	RightStrip bool   `json:"rstrip"`      // takes the white space after it along
	Normalized bool   `json:"normalized"`  // looked for in the normalized text
	Special    bool   `json:"special"`
}

// piece is a part of the text on its way to the model.
type piece struct {
	text  string
	start bool // it begins where the whole text begins
	head  int  // bytes at the beginning that a pre-tokenizer inserted: what follows begins there too
}

// cut returns a part of a piece.
func (p piece) cut(from, to int) piece {
	return piece{text: p.text[from:to], start: p.start && from <= p.head, head: min(max(p.head-from, 0), to-from)}
}

// addedVocabulary finds added tokens: those taken literally in the raw text first,
// then those that are normalized in the normalized rest.
type addedVocabulary struct {
	byID      map[int]AddedToken
	byContent map[string]AddedToken
	specials  map[string]bool // by content
	raw       *matcher
	processed *matcher
}

// newAddedVocabulary gives each token the id that the library gives it, whatever the
// file says: that of the model's token with the same content, else the next one.
func newAddedVocabulary(tokens []AddedToken, normalize normalizer, m model) (*addedVocabulary, error) {
	v := &addedVocabulary{byID: map[int]AddedToken{}, byContent: map[string]AddedToken{}, specials: map[string]bool{}, raw: newMatcher(), processed: newMatcher()}
	next := m.size()
	for _, token := range tokens {
		if token.Content == "" {
			continue
		}
		if known, ok := v.byContent[token.Content]; ok {
			token.ID = known.ID
		} else if id, ok := m.id(token.Content); ok {
			token.ID = id
		} else {
			token.ID = next
			next++
		}
		v.byContent[token.Content] = token
		if token.Special {
			v.specials[token.Content] = true
		}
		if token.Normalized && normalize != nil {
			var err error
			if token.Content, _, err = normalize(token.Content); err != nil {
				return nil, fmt.Errorf("normalize the added token %q: %w", token.Content, err)
			}
		}
		v.byID[token.ID] = token // decoders undo what the normalizer did
	}
	for _, id := range slices.Sorted(maps.Keys(v.byID)) {
		token := v.byID[id]
		if token.Normalized {
			v.processed.add(token.Content, token)
		} else {
			v.raw.add(token.Content, token)
		}
	}
	return v, nil
}

// special tells whether decoding without special tokens leaves the token out.
func (v *addedVocabulary) special(token string) bool { return v.specials[token] }

// split yields the parts of text in order: an added token with its id, or a
// normalized piece with the id -1. ordinary leaves special tokens unrecognised.
func (v *addedVocabulary) split(text string, normalize normalizer, ordinary bool, yield func(piece, int)) error {
	var failure error
	v.raw.split(text, ordinary, func(from, to, id int) {
		if failure != nil {
			return
		}
		if id >= 0 {
			yield(piece{}, id)
			return
		}
		part, shifted := text[from:to], false
		if normalize != nil {
			if part, shifted, failure = normalize(part); failure != nil {
				return
			}
		}
		v.processed.split(part, ordinary, func(a, b, id int) {
			if id >= 0 {
				yield(piece{}, id)
			} else {
				yield(piece{text: part[a:b], start: from == 0 && a == 0 && !shifted}, -1)
			}
		})
	})
	return failure
}

// matcher finds the longest of its contents at the leftmost place, as a trie over bytes.
type matcher struct {
	first [256]bool // bytes some content begins with
	root  *node
}

type node struct {
	next  map[byte]*node
	token *AddedToken
}

func newMatcher() *matcher { return &matcher{root: &node{}} }

func (m *matcher) add(content string, token AddedToken) {
	if content == "" {
		return
	}
	m.first[content[0]] = true
	at := m.root
	for i := range len(content) {
		if at.next == nil {
			at.next = map[byte]*node{}
		}
		below := at.next[content[i]]
		if below == nil {
			below = &node{}
			at.next[content[i]] = below
		}
		at = below
	}
	if at.token == nil {
		at.token = &token
	}
}

// longest returns the longest content that text begins with and its length.
func (m *matcher) longest(text string, ordinary bool) (*AddedToken, int) {
	var found *AddedToken
	length := 0
	at := m.root
	for i := range len(text) {
		at = at.next[text[i]]
		if at == nil {
			break
		}
		if at.token != nil {
			found, length = at.token, i+1
		}
	}
	if found != nil && ordinary && found.Special {
		return nil, length
	}
	return found, length
}

// split yields every range of text in order, with the id of the token it holds or -1.
func (m *matcher) split(text string, ordinary bool, yield func(from, to, id int)) {
	done := 0 // everything before has been yielded
	for i := 0; i < len(text); {
		if !m.first[text[i]] {
			i++
			continue
		}
		token, length := m.longest(text[i:], ordinary)
		if token == nil {
			// A special token that is not to be recognised hides shorter ones in it.
			i += max(length, 1)
			continue
		}
		from, to := i, i+length
		i = to
		if token.SingleWord && (endsWithWord(text[:from]) || startsWithWord(text[to:])) {
			continue
		}
		if token.LeftStrip {
			from = max(done, len(strings.TrimRightFunc(text[:from], unicode.IsSpace)))
		}
		if token.RightStrip {
			to = len(text) - len(strings.TrimLeftFunc(text[to:], unicode.IsSpace))
		}
		if done < from {
			yield(done, from, -1)
		}
		yield(from, to, token.ID)
		done = to
	}
	if done < len(text) {
		yield(done, len(text), -1)
	}
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && ucd.Word().Contains(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && ucd.Word().Contains(r)
}

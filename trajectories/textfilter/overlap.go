package textfilter

import "slices"

// OverlapConfig says what counts as an overlap. The zero value means the defaults.
type OverlapConfig struct {
	// Words is the length of the n-grams; 0 means DefaultOverlapWords. Texts of fewer
	// words, but no fewer than MinOverlapWords, are looked for as a whole.
	Words int
	// Share is the share of the n-grams of a text to be found; 0 means that one is enough.
	Share float64
}

// DefaultOverlapWords is the usual length of n-grams for decontamination.
const DefaultOverlapWords = 13

// MinOverlapWords is the number of words below which a text is too common to be looked for.
const MinOverlapWords = 8

// N-grams that more than sharedRows rows, and more than one in sharedPart, have in common are
// instructions of the evaluation set and not looked for.
const (
	sharedRows = 10
	sharedPart = 100
)

// Overlaps is an index of the n-grams of evaluation sets. It is built with Add and Finish,
// and then safe for concurrent use.
type Overlaps struct {
	config OverlapConfig
	grams  map[uint64]uint32 // first posting of an n-gram, plus one
	posts  []posting
	texts  []overlapText
	sizes  []int // lengths of n-grams that are there
	rows   int
	seen   Words
}

// posting is one text that has an n-gram.
type posting struct{ text, next uint32 }

type overlapText struct {
	row   uint32
	grams uint32 // different n-grams that are looked for
}

// Overlap is what a text has in common with a text of an evaluation set.
type Overlap struct {
	Row   int     // of the evaluation sets, in the order of Add
	Share float64 // of the n-grams of the evaluation text
	Text  string  // the first n-gram they have in common, in the words of the text searched
}

// NewOverlaps returns an empty index.
func NewOverlaps(config OverlapConfig) *Overlaps {
	if config.Words <= 0 {
		config.Words = DefaultOverlapWords
	}
	return &Overlaps{config: config, grams: map[uint64]uint32{}}
}

// Add adds the texts of one row of an evaluation set. It returns how many of them are long
// enough to be looked for.
func (o *Overlaps) Add(texts []string) (usable int) {
	row := uint32(o.rows)
	o.rows++
	for _, text := range texts {
		o.seen = SplitWords(text, o.seen)
		n := min(o.config.Words, o.seen.Len())
		if n < min(MinOverlapWords, o.config.Words) {
			continue
		}
		usable++
		if !slices.Contains(o.sizes, n) {
			o.sizes = append(o.sizes, n)
		}
		id := uint32(len(o.texts))
		o.texts = append(o.texts, overlapText{row: row})
		eachGram(o.seen.hashes, n, func(_ int, hash uint64) {
			first := o.grams[hash]
			if first > 0 && o.posts[first-1].text == id {
				return
			}
			o.posts = append(o.posts, posting{id, first})
			o.grams[hash] = uint32(len(o.posts))
		})
	}
	return usable
}

// Finish ends the building. It returns how many n-grams are not looked for because they
// are instructions that many rows repeat.
func (o *Overlaps) Finish() (common int) {
	limit := max(sharedRows, o.rows/sharedPart)
	for hash, first := range o.grams {
		rows, last := 0, uint32(0)
		for at := first; at > 0; at = o.posts[at-1].next {
			if row := o.texts[o.posts[at-1].text].row; rows == 0 || row != last {
				rows, last = rows+1, row
			}
		}
		if rows > limit {
			common++
			delete(o.grams, hash)
			continue
		}
		for at := first; at > 0; at = o.posts[at-1].next {
			o.texts[o.posts[at-1].text].grams++
		}
	}
	slices.Sort(o.sizes)
	return common
}

// Find returns what the texts have in common with those of the evaluation sets: an overlap
// for each row that is found, the rows in order. Texts of one row of the evaluation set are
// looked for apart; the text of which most was found counts.
func (o *Overlaps) Find(texts []string, reuse *Words) []Overlap {
	type hits struct {
		grams map[uint64]bool
		text  string
	}
	var found map[uint32]*hits
	for _, text := range texts {
		*reuse = SplitWords(text, *reuse)
		for _, n := range o.sizes {
			eachGram(reuse.hashes, n, func(first int, hash uint64) {
				at := o.grams[hash]
				if at == 0 {
					return
				}
				for ; at > 0; at = o.posts[at-1].next {
					id := o.posts[at-1].text
					h := found[id]
					if h == nil {
						if found == nil {
							found = map[uint32]*hits{}
						}
						h = &hits{grams: map[uint64]bool{}, text: reuse.Text(first, n)}
						found[id] = h
					}
					h.grams[hash] = true
				}
			})
		}
	}
	ids := make([]uint32, 0, len(found))
	for id := range found {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var list []Overlap
	for _, id := range ids {
		share := float64(len(found[id].grams)) / float64(o.texts[id].grams)
		if share < o.config.Share {
			continue
		}
		one := Overlap{Row: int(o.texts[id].row), Share: share, Text: found[id].text}
		if n := len(list); n > 0 && list[n-1].Row == one.Row {
			if one.Share > list[n-1].Share {
				list[n-1] = one
			}
			continue
		}
		list = append(list, one)
	}
	return list
}

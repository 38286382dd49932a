package textfilter

import (
	"errors"
	"math"
)

// permutations is the number of values of a signature. The estimate of a similarity of 0.8
// has a standard deviation of 0.035.
const permutations = 128

// Signature is the MinHash of a set of n-grams: of each permutation of all hashes the
// lowest eight bits of the least one in the set.
type Signature [permutations]byte

// Signer makes signatures. It is safe for concurrent use.
type Signer struct {
	ngram int
	a, b  [permutations]uint64
}

// NewSigner returns a signer of n-grams of so many words.
func NewSigner(ngram int) *Signer {
	s := &Signer{ngram: max(1, ngram)}
	state := uint64(1)
	next := func() uint64 {
		state += 0x9e3779b97f4a7c15
		return mix(state)
	}
	for i := range s.a {
		s.a[i], s.b[i] = next()|1, next()
	}
	return s
}

// Sign returns the signature of the n-grams of the words. A text of fewer words is one
// n-gram; a text without words has no signature.
func (s *Signer) Sign(words *Words) (sig Signature, ok bool) {
	if words.Len() == 0 {
		return sig, false
	}
	var least [permutations]uint32
	for i := range least {
		least[i] = math.MaxUint32
	}
	eachGram(words.hashes, min(s.ngram, words.Len()), func(_ int, hash uint64) {
		for i := range least {
			if v := uint32((s.a[i]*hash + s.b[i]) >> 32); v < least[i] {
				least[i] = v
			}
		}
	})
	for i, v := range least {
		sig[i] = byte(mix(uint64(v)))
	}
	return sig, true
}

// Similarity estimates the share of the n-grams of two sets that both have (Jaccard).
func Similarity(a, b *Signature) float64 {
	equal := 0
	for i := range a {
		if a[i] == b[i] {
			equal++
		}
	}
	// Values that differ have the same eight bits once in 256 times.
	const chance = 1.0 / 256
	return max(0, (float64(equal)/permutations-chance)/(1-chance))
}

// maxCandidates bounds the texts that are compared for one band.
const maxCandidates = 64

// chunkSize is the number of signatures that are allocated at a time.
const chunkSize = 1 << 12

// NearIndex finds earlier texts that are similar. It keeps 128 bytes of signature and, with
// the usual 18 bands, about 140 bytes of table per text.
type NearIndex struct {
	threshold   float64
	bands, rows int
	chunks      [][]Signature
	numbers     []uint32 // the caller's number of each text
	slots       []uint32 // position of a text + 1, 0 if free; one entry per text and band
	used        int
}

// LeastSimilarity is the lowest threshold of an index. Texts that have less in common are
// not duplicates, and finding them would compare nearly all texts with each other.
const LeastSimilarity = 0.5

// NewNearIndex returns an index of texts that are similar by the threshold or more.
func NewNearIndex(threshold float64) (*NearIndex, error) {
	if !(threshold >= LeastSimilarity && threshold <= 1) {
		return nil, errors.New("a similarity is between 0.5 and 1")
	}
	x := &NearIndex{threshold: threshold, slots: make([]uint32, 1<<10)}
	// The longest bands by which 98 of 100 texts at the threshold are found. What they
	// find too much, the signatures tell apart.
	for x.rows = permutations; x.rows > 1; x.rows-- {
		x.bands = permutations / x.rows
		if 1-math.Pow(1-math.Pow(threshold, float64(x.rows)), float64(x.bands)) >= 0.98 {
			break
		}
	}
	x.bands = permutations / x.rows
	return x, nil
}

func (x *NearIndex) at(position uint32) *Signature {
	return &x.chunks[position/chunkSize][position%chunkSize]
}

func (x *NearIndex) band(s *Signature, band int) []byte {
	return s[band*x.rows : (band+1)*x.rows]
}

func (x *NearIndex) hash(s *Signature, band int) uint64 {
	hash := fnv(fnvOffset, rune(band))
	for _, b := range x.band(s, band) {
		hash = fnv(hash, rune(b))
	}
	return mix(hash)
}

// FindOrAdd returns the number of the most similar earlier text and how similar it is. If
// none is similar enough, the text is added under its number.
func (x *NearIndex) FindOrAdd(number int, s *Signature) (earlier int, similarity float64, found bool) {
	best := uint32(0)
	for band := range x.bands {
		seen := 0
		for slot := x.hash(s, band) & uint64(len(x.slots)-1); x.slots[slot] != 0 && seen < maxCandidates; slot = (slot + 1) & uint64(len(x.slots)-1) {
			position := x.slots[slot] - 1
			other := x.at(position)
			if string(x.band(other, band)) != string(x.band(s, band)) {
				continue
			}
			seen++
			if got := Similarity(s, other); got >= x.threshold && (got > similarity || got == similarity && position < best) {
				best, similarity, found = position, got, true
			}
		}
	}
	if found {
		return int(x.numbers[best]), similarity, true
	}
	for 10*(x.used+x.bands) > 7*len(x.slots) {
		x.grow()
	}
	position := uint32(len(x.numbers))
	if position%chunkSize == 0 {
		x.chunks = append(x.chunks, make([]Signature, chunkSize))
	}
	x.numbers = append(x.numbers, uint32(number))
	*x.at(position) = *s
	for band := range x.bands {
		x.insert(position, band)
	}
	return 0, 0, false
}

// insert adds a band of a text, unless maxCandidates texts with the same band are there.
func (x *NearIndex) insert(position uint32, band int) {
	s := x.at(position)
	same := 0
	slot := x.hash(s, band) & uint64(len(x.slots)-1)
	for ; x.slots[slot] != 0; slot = (slot + 1) & uint64(len(x.slots)-1) {
		if string(x.band(x.at(x.slots[slot]-1), band)) == string(x.band(s, band)) {
			if same++; same >= maxCandidates {
				return
			}
		}
	}
	x.slots[slot] = position + 1
	x.used++
}

// grow doubles the table and inserts all texts again.
func (x *NearIndex) grow() {
	x.slots, x.used = make([]uint32, 2*len(x.slots)), 0
	for position := range uint32(len(x.numbers)) {
		for band := range x.bands {
			x.insert(position, band)
		}
	}
}

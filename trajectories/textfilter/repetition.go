package textfilter

// The n-grams of repetition: ten words, as in the rules of Gopher. Texts below minRepetition
// words are too short to tell.
const (
	repetitionWords = 10
	minRepetition   = 50
	chunkRunes      = 16 // after which a run without a break counts as several words
)

// Repetition returns the share of a text's words that stand in n-grams of ten words that
// occurred before in the same text. Every mark counts as a word, and a long run without a
// break as several, so that "!!!!" and "aaaa" repeat themselves too.
func Repetition(text string) float64 {
	var hashes []uint64
	hash, length := uint64(fnvOffset), 0
	end := func() {
		if length > 0 {
			hashes = append(hashes, mix(hash))
		}
		hash, length = fnvOffset, 0
	}
	for _, r := range text {
		switch {
		case r == ' ' || r == '\n' || r == '\t' || r == '\r':
			end()
		case !isWord(r) || unspaced(r):
			end()
			hashes = append(hashes, mix(fnv(fnvOffset, r)))
		default:
			hash = fnv(hash, lower(r))
			if length++; length == chunkRunes {
				end()
			}
		}
	}
	end()
	if len(hashes) < minRepetition {
		return 0
	}
	seen := make(map[uint64]bool, len(hashes))
	repeated, covered := 0, 0 // words before covered have been looked at
	eachGram(hashes, repetitionWords, func(first int, hash uint64) {
		if seen[hash] {
			repeated += first + repetitionWords - max(first, covered)
			covered = first + repetitionWords
		}
		seen[hash] = true
	})
	return float64(repeated) / float64(len(hashes))
}

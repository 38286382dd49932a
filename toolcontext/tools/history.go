package tools

import "crypto/sha256"

// readHistory remembers what the model has read, so that reading in circles gets a
// short answer. It is hidden state that changes observations: one per rollout, and
// it can be switched off.
type readHistory struct {
	pages map[pageKey]*page
	last  string // the last read or search, as its arguments
	run   int    // how many times in a row it was made
}

type pageKey struct {
	path          string
	offset, limit int
}

type page struct {
	print [sha256.Size]byte
	hits  int // how often the page was asked for again unchanged
}

// seen records a page and returns how often it was shown before without a change.
// The content itself is compared: a modification time of whole seconds would miss
// a write made within the second.
func (h *readHistory) seen(key pageKey, content string) int {
	print := sha256.Sum256([]byte(content))
	if p := h.pages[key]; p != nil && p.print == print {
		p.hits++
		return p.hits
	}
	if h.pages == nil {
		h.pages = make(map[pageKey]*page)
	}
	h.pages[key] = &page{print: print}
	return 0
}

// forget drops the pages of a file that was written.
func (h *readHistory) forget(path string) {
	for key := range h.pages {
		if key.path == path {
			delete(h.pages, key)
		}
	}
}

// repeated counts a read or a search and returns how many times in a row it was made.
func (h *readHistory) repeated(signature string) int {
	if h.last != signature {
		h.last, h.run = signature, 0
	}
	h.run++
	return h.run
}

// interrupt ends a run of repeated calls.
func (h *readHistory) interrupt() { h.last, h.run = "", 0 }

// The third identical call in a row gets a warning, the fourth is refused.
const (
	warnAfter  = 3
	blockAfter = 4
)

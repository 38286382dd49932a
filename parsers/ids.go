package parsers

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"strconv"
	"strings"
)

// idStyle is the shape of the ids a format gives to calls that carry none.
type idStyle uint8

const (
	idHex8   idStyle = iota // call_ and 8 hexadecimal digits
	idHex24                 // call_ and 24 hexadecimal digits
	idAlnum9                // 9 of [A-Za-z0-9], what mistral-common accepts
)

// ids hands out call ids that are unique within one response. It reads random
// bytes once and steps from there by a constant that reaches every value
// before it repeats one.
type ids struct {
	random io.Reader // nil means crypto/rand
	style  idStyle
	high   uint64
	low    uint64
	ready  bool
	given  map[string]bool // ids the model wrote itself
	bumped map[string]int  // the counter last tried for ids that were repeated
}

const alnum = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// alnumSpace is 62 to the power of 9, the number of 9-character ids.
const alnumSpace = 13537086546263552

// idStep is odd and no multiple of 31, so it shares no divisor with 2^32 nor
// with alnumSpace: stepping by it reaches every id before one comes again.
const idStep = 8366379594239857

// next returns a fresh random id.
func (g *ids) next() string {
	if !g.ready {
		var seed [16]byte
		source := g.random
		if source == nil {
			source = rand.Reader
		}
		// A short read leaves zeros: ids stay unique within the response.
		_, _ = io.ReadFull(source, seed[:])
		g.high = binary.LittleEndian.Uint64(seed[:8])
		g.low = binary.LittleEndian.Uint64(seed[8:]) % alnumSpace
		g.ready = true
	}
	for {
		g.low += idStep
		if g.style == idAlnum9 {
			g.low %= alnumSpace
		}
		id := g.spell()
		if !g.given[id] {
			return id
		}
	}
}

func (g *ids) spell() string {
	const hex = "0123456789abcdef"
	switch g.style {
	case idAlnum9:
		var b [9]byte
		for i, v := 0, g.low; i < len(b); i, v = i+1, v/62 {
			b[i] = alnum[v%62]
		}
		return string(b[:])
	case idHex24:
		b := make([]byte, 0, 29)
		b = append(b, "call_"...)
		for i := 60; i >= 0; i -= 4 { // 16 digits that stay, 8 that step
			b = append(b, hex[g.high>>i&15])
		}
		for i := 28; i >= 0; i -= 4 {
			b = append(b, hex[g.low>>i&15])
		}
		return string(b)
	default:
		b := make([]byte, 0, 13)
		b = append(b, "call_"...)
		for i := 28; i >= 0; i -= 4 {
			b = append(b, hex[g.low>>i&15])
		}
		return string(b)
	}
}

// claim reports whether the model's own id is still free, and takes it.
func (g *ids) claim(id string) bool {
	if g.given[id] {
		return false
	}
	if g.given == nil {
		g.given = make(map[string]bool)
	}
	g.given[id] = true
	return true
}

// unique returns the model's own id if it is free. A repeated one gets the next
// free counter behind its last colon. No id stays no id.
func (g *ids) unique(id string) string {
	if id == "" || g.claim(id) {
		return id
	}
	prefix := id
	if i := strings.LastIndexByte(id, ':'); i >= 0 {
		prefix = id[:i]
	}
	if g.bumped == nil {
		g.bumped = make(map[string]int)
	}
	for {
		g.bumped[prefix]++
		if next := prefix + ":" + strconv.Itoa(g.bumped[prefix]); g.claim(next) {
			return next
		}
	}
}

package dataset

import (
	"encoding/binary"
	"math/bits"
)

// Counts counts digests by their first 16 bytes. A digest that was counted once, as most
// are, takes about 25 bytes. The zero value is empty. It is not safe for concurrent use.
type Counts struct {
	// table has open addressing and is at most four fifths full. A zero entry is free.
	table [][16]byte
	n     int
	more  map[[16]byte]int // of digests that were counted more than once
}

// Add counts a digest and returns its new count.
func (c *Counts) Add(digest [16]byte) int {
	digest = occupied(digest)
	if 5*(c.n+1) > 4*len(c.table) {
		c.grow()
	}
	at := c.find(digest)
	if c.table[at] != digest {
		c.table[at] = digest
		c.n++
		return 1
	}
	if c.more == nil {
		c.more = map[[16]byte]int{}
	}
	n := max(1, c.more[digest]) + 1
	c.more[digest] = n
	return n
}

// Has says whether a digest was counted.
func (c *Counts) Has(digest [16]byte) bool {
	digest = occupied(digest)
	return len(c.table) > 0 && c.table[c.find(digest)] == digest
}

// find returns the place of a digest in the table, or the free one where it belongs.
func (c *Counts) find(digest [16]byte) int {
	high, _ := bits.Mul64(binary.BigEndian.Uint64(digest[:]), uint64(len(c.table)))
	at := int(high)
	for c.table[at] != digest && c.table[at] != ([16]byte{}) {
		if at++; at == len(c.table) {
			at = 0
		}
	}
	return at
}

func (c *Counts) grow() {
	old := c.table
	c.table = make([][16]byte, max(64, len(old)+len(old)/2))
	for _, digest := range old {
		if digest != ([16]byte{}) {
			c.table[c.find(digest)] = digest
		}
	}
}

// occupied tells a digest of zeros from a free entry.
func occupied(digest [16]byte) [16]byte {
	if digest == ([16]byte{}) {
		digest[15] = 1
	}
	return digest
}

package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Row is one row of a dataset.
type Row struct {
	// Position counts rows from 0 over all files of the split in order. Bad rows count, blank lines don't, so a row keeps its
	// position whether bad ones are skipped or not.
	Position int64
	// Data is one compact JSON object: keys in the order of the file or of its columns, numbers with the digits of the
	// source, no key twice. It belongs to the caller.
	Data []byte
}

// Get returns the value at a gjson path, such as "prompt" or "messages.0.content"; a column whose name has a dot is written
// with a backslash before it.
func (r Row) Get(path string) gjson.Result { return gjson.GetBytes(r.Data, path) }

// Digest returns "sha256:" and the hash of the row's canonical text, which docs/datasets.md defines: it depends on neither
// the order of keys, the spelling of numbers and strings, members that are null, nor the format of the file.
func (r Row) Digest() string {
	sum := sha256.Sum256(appendCanonical(nil, r.Data))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// KeyedRow is a row with a key that finds it again after the file was reordered or appended to.
type KeyedRow struct {
	Row
	// Key is the row's digest; the second row of the same content has "#2" after it, the third "#3", and so on.
	Key string
}

// Digest returns what Row.Digest does, which the key begins with.
func (r KeyedRow) Digest() string {
	digest, _, _ := strings.Cut(r.Key, "#")
	return digest
}

// Keyed gives every row of a pass its key. It remembers the digests in Counts: about 25 MB per million distinct rows.
// Errors pass through.
func Keyed(rows iter.Seq2[Row, error]) iter.Seq2[KeyedRow, error] {
	return func(yield func(KeyedRow, error) bool) {
		var seen Counts
		for row, err := range rows {
			if err != nil {
				if !yield(KeyedRow{}, err) {
					return
				}
				continue
			}
			sum := sha256.Sum256(appendCanonical(nil, row.Data))
			key := "sha256:" + hex.EncodeToString(sum[:])
			if n := seen.Add([16]byte(sum[:16])); n > 1 {
				key += "#" + strconv.Itoa(n)
			}
			if !yield(KeyedRow{Row: row, Key: key}, nil) {
				return
			}
		}
	}
}

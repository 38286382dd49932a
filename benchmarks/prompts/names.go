package prompts

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/dataset"
	"github.com/hermes-env/hermes-env/env/reward/rowtext"
)

// defaultIDField is the column that rows are named by if it exists.
const defaultIDField = "id"

// maxIDBytes bounds a row's name.
const maxIDBytes = 512

// rowID returns a row's name in the column field, "" if it has none: the value is missing,
// null, no text or number, or too long.
func rowID(data []byte, field string) (id, reason string) {
	v, ok := rowtext.Lookup(data, field)
	switch {
	case !ok || v.Type == gjson.Null:
		return "", "missing"
	case v.Type != gjson.String && v.Type != gjson.Number:
		return "", "neither text nor a number"
	}
	id = v.String()
	if v.Type == gjson.Number {
		id = v.Raw
	}
	switch {
	case strings.TrimSpace(id) == "":
		return "", "empty"
	case len(id) > maxIDBytes:
		return "", fmt.Sprintf("longer than %d bytes", maxIDBytes)
	case !utf8.ValidString(id):
		return "", "not valid UTF-8"
	}
	return id, ""
}

// namedRow is a row with its name among the rows of a pass.
type namedRow struct {
	dataset.KeyedRow
	// ID is the row's name from its id column, else its key. The second row of a name has
	// "#2" after it, and so on.
	ID string
	// fromColumn says that ID comes from the id column.
	fromColumn bool
}

// nameDigest returns the digest that earlier versions recorded for rows with an id: it
// covers the name and not the content. It is empty for a row without an id.
func (r namedRow) nameDigest() string {
	if !r.fromColumn {
		return ""
	}
	digest, _, _ := strings.Cut(r.ID, "#")
	return digest
}

// named gives rows the names of their id column. A row without one is named by its key, which
// may be its digest: rows of equal names are told apart here. Of each name it remembers a digest
// in dataset.Counts.
func named(rows iter.Seq2[dataset.KeyedRow, error], field string) iter.Seq2[namedRow, error] {
	return func(yield func(namedRow, error) bool) {
		var seen dataset.Counts
		for r, err := range rows {
			row := namedRow{KeyedRow: r, ID: r.Key}
			if err == nil {
				if id, _ := rowID(row.Data, field); id != "" {
					row.ID, row.fromColumn = id, true
				}
				// An id may look like another row's second name.
				for base := row.ID; seen.Has(nameSum(row.ID)); {
					row.ID = base + "#" + strconv.Itoa(seen.Add(nameSum(base)))
				}
				seen.Add(nameSum(row.ID))
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// nameSum returns the digest that a name is remembered by.
func nameSum(name string) [16]byte {
	sum := sha256.Sum256([]byte(name))
	return [16]byte(sum[:16])
}

package prompts

import (
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

// named gives rows the names of their id column in place of their digests. A row without
// one keeps its digest; the second row of a name has "#2" after it, and so on.
func named(rows iter.Seq2[dataset.KeyedRow, error], field string) iter.Seq2[dataset.KeyedRow, error] {
	return func(yield func(dataset.KeyedRow, error) bool) {
		seen := map[string]int{}
		for row, err := range rows {
			if err == nil {
				if id, _ := rowID(row.Data, field); id != "" {
					row.Key = id
				}
				// An id may look like another row's second name.
				for base := row.Key; seen[row.Key] > 0; {
					seen[base]++
					row.Key = base + "#" + strconv.Itoa(seen[base])
				}
				seen[row.Key]++
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

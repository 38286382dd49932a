package harbor

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// metadataJSON writes the table [metadata] as JSON, keys in the order of the file.
func metadataJSON(v any, meta toml.MetaData) json.RawMessage {
	table, ok := v.(map[string]any)
	if !ok {
		return json.RawMessage("{}")
	}
	order := map[string][]string{}
	seen := map[string]bool{}
	for _, key := range meta.Keys() {
		for i := 1; i < len(key); i++ {
			// Joined with a character that no key of a path can be confused by.
			parent, path := strings.Join(key[:i], "\x00"), strings.Join(key[:i+1], "\x00")
			if !seen[path] {
				seen[path] = true
				order[parent] = append(order[parent], key[i])
			}
		}
	}
	return appendValue(nil, table, "metadata", order)
}

func appendValue(b []byte, v any, path string, order map[string][]string) []byte {
	switch v := v.(type) {
	case map[string]any:
		b = append(b, '{')
		first := true
		for _, key := range keysInOrder(v, order[path]) {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = appendValue(append(appendText(b, key), ':'), v[key], path+"\x00"+key, order)
		}
		return append(b, '}')
	case []map[string]any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, e, path, order)
		}
		return append(b, ']')
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, e, path, order)
		}
		return append(b, ']')
	case string:
		return appendText(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return append(b, "null"...)
		}
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	case bool:
		return strconv.AppendBool(b, v)
	case time.Time:
		return appendText(b, v.Format(time.RFC3339Nano))
	}
	return append(b, "null"...)
}

// keysInOrder returns a table's keys in the given order, and those it does not name, which
// are in tables within arrays, sorted behind them.
func keysInOrder(table map[string]any, order []string) []string {
	keys := make([]string, 0, len(table))
	known := map[string]bool{}
	for _, key := range order {
		if _, ok := table[key]; ok { // else of another element of the same array
			keys, known[key] = append(keys, key), true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if !known[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// appendText writes a JSON string as it is, without escapes for HTML.
func appendText(b []byte, s string) []byte {
	var buf strings.Builder
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return append(b, `""`...)
	}
	return append(b, strings.TrimSuffix(buf.String(), "\n")...)
}

package chattemplate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// decodeJSON reads one JSON value, keeping the order of keys and telling integers
// from floats. Conversations are read anew for every prompt, so strings without
// escapes are not copied one by one.
func decodeJSON(raw []byte) (value, error) {
	if !json.Valid(raw) {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("not one JSON value")
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	return readJSON(gjson.ParseBytes(raw), 0)
}

func readJSON(v gjson.Result, depth int) (value, error) {
	if depth > deepest {
		return nil, fmt.Errorf("JSON nested deeper than %d", deepest)
	}
	switch v.Type {
	case gjson.Null:
		return nil, nil
	case gjson.True, gjson.False:
		return v.Type == gjson.True, nil
	case gjson.Number:
		return jsonNumber(v.Raw)
	case gjson.String:
		return v.Str, nil
	}
	var failure error
	if v.IsArray() {
		l := &list{items: []value{}}
		v.ForEach(func(_, item gjson.Result) bool {
			var read value
			read, failure = readJSON(item, depth+1)
			l.items = append(l.items, read)
			return failure == nil
		})
		return l, failure
	}
	o := newDict(4)
	v.ForEach(func(key, item gjson.Result) bool {
		var read value
		read, failure = readJSON(item, depth+1)
		o.setString(key.Str, read)
		return failure == nil
	})
	return o, failure
}

func jsonNumber(s string) (value, error) {
	if !strings.ContainsAny(s, ".eE") {
		n, ok := new(big.Int).SetString(s, 10)
		if !ok {
			return nil, fmt.Errorf("%q is no number", s)
		}
		return shrink(n), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && f == 0 {
		return nil, err
	}
	return f, nil
}

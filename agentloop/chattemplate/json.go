package chattemplate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// decodeJSON reads one JSON value, keeping the order of keys and telling integers
// from floats.
func decodeJSON(raw []byte) (value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := readJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

func readJSON(d *json.Decoder, depth int) (value, error) {
	if depth > deepest {
		return nil, fmt.Errorf("JSON nested deeper than %d", deepest)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Number:
		return jsonNumber(string(t))
	case json.Delim:
		if t == '[' {
			l := &list{items: []value{}}
			for d.More() {
				v, err := readJSON(d, depth+1)
				if err != nil {
					return nil, err
				}
				l.items = append(l.items, v)
			}
			_, err := d.Token()
			return l, err
		}
		o := newDict(4)
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := readJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			o.setString(k.(string), v)
		}
		_, err := d.Token()
		return o, err
	}
	return token, nil // string, bool or nil
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

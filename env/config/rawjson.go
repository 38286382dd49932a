package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// encodeText returns s as a JSON string without HTML escaping.
func encodeText(s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return []byte(`""`) // a string always encodes
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// nodeJSON appends a node as JSON, keys in their order and numbers with their digits.
// A value JSON can't hold, or that YAML versions read differently, goes to bad.
func nodeJSON(out []byte, n *yaml.Node, bad func(n *yaml.Node, message string)) []byte {
	switch n.Kind {
	case yaml.MappingNode:
		out = append(out, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(out, encodeText(n.Content[i].Value)...), ':')
			out = nodeJSON(out, n.Content[i+1], bad)
		}
		return append(out, '}')
	case yaml.SequenceNode:
		out = append(out, '[')
		for i, c := range n.Content {
			if i > 0 {
				out = append(out, ',')
			}
			out = nodeJSON(out, c, bad)
		}
		return append(out, ']')
	}
	switch kindOf(n) {
	case "!!null":
		return append(out, "null"...)
	case "!!bool":
		return append(out, strings.ToLower(n.Value)...)
	case "!!int", "!!float":
		if text, ok := numberJSON(n); ok {
			return append(out, text...)
		}
		bad(n, fmt.Sprintf("%s is not a number JSON can hold; write plain decimal digits or put it in quotes", textutil.Shorten(n.Value, maxQuoted)))
		return append(out, "null"...)
	}
	if n.Style == 0 {
		switch strings.ToLower(n.Value) {
		case "yes", "no", "on", "off":
			bad(n, fmt.Sprintf("%s is text to some YAML readers and a boolean to others; write true or false, or put it in quotes", n.Value))
		}
	}
	return append(out, encodeText(n.Value)...)
}

type member struct {
	key   string
	value json.RawMessage
}

// members splits a JSON object into its members in order; ok is false for anything else.
func members(raw json.RawMessage) (list []member, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, false
		}
		key, ok := t.(string)
		if !ok {
			return nil, false
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, false
		}
		list = append(list, member{key, value})
	}
	return list, true
}

// mergeJSON lays over on top of base: objects merge member by member, at every
// depth, and anything else replaces what was there.
func mergeJSON(base, over json.RawMessage) json.RawMessage {
	lower, ok1 := members(base)
	upper, ok2 := members(over)
	if !ok1 || !ok2 {
		return over
	}
	place := make(map[string]int, len(lower))
	for i, m := range lower {
		place[m.key] = i
	}
	for _, m := range upper {
		if i, ok := place[m.key]; ok {
			lower[i].value = mergeJSON(lower[i].value, m.value)
			continue
		}
		place[m.key] = len(lower)
		lower = append(lower, m)
	}
	return objectOf(lower)
}

// objectOf is the JSON object of members.
func objectOf(list []member) json.RawMessage {
	out := []byte{'{'}
	for i, m := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, encodeText(m.key)...), ':'), m.value...)
	}
	return append(out, '}')
}

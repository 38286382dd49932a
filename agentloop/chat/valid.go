package chat

import (
	"encoding/binary"
	"math/bits"
)

// MaxDepth is how deep JSON may nest to be valid, as in encoding/json: readers
// that recurse could otherwise be made to exhaust the stack.
const MaxDepth = 10_000

// Valid says whether b is one JSON value that nests at most MaxDepth deep, as
// strictly as encoding/json and several times faster on long strings. It does not
// recurse. UTF-8 is not checked, here as there.
func Valid(b []byte) bool { return ValidWithin(b, MaxDepth) }

// ValidWithin is Valid with another bound on the depth, for values that hold
// values which were checked by themselves.
func ValidWithin(b []byte, depth int) bool {
	var room [64]byte
	open := room[:0] // the brackets that are open, innermost last
	i := skipSpace(b, 0)
value:
	if i >= len(b) {
		return false
	}
	switch c := b[i]; {
	case len(open) == depth && (c == '{' || c == '['):
		return false
	case c == '{':
		open = append(open, c)
		if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
			goto closed
		}
		goto key
	case c == '[':
		open = append(open, c)
		if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
			goto closed
		}
		goto value
	case c == '"':
		i = stringEnd(b, i+1)
	case c == '-' || (c >= '0' && c <= '9'):
		i = numberEnd(b, i)
	case c == 't':
		i = literalEnd(b, i, "true")
	case c == 'f':
		i = literalEnd(b, i, "false")
	case c == 'n':
		i = literalEnd(b, i, "null")
	default:
		return false
	}
after:
	if i < 0 {
		return false
	}
	i = skipSpace(b, i)
	if len(open) == 0 {
		return i == len(b)
	}
	if i >= len(b) {
		return false
	}
	switch inner := open[len(open)-1]; {
	case b[i] == ',' && inner == '[':
		i = skipSpace(b, i+1)
		goto value
	case b[i] == ',':
		i = skipSpace(b, i+1)
		goto key
	case (b[i] == ']') == (inner == '[') && (b[i] == '}') == (inner == '{'):
		goto closed
	}
	return false
key:
	if i >= len(b) || b[i] != '"' {
		return false
	}
	if i = stringEnd(b, i+1); i < 0 {
		return false
	}
	if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
		return false
	}
	i = skipSpace(b, i+1)
	goto value
closed:
	open = open[:len(open)-1]
	i++
	goto after
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns the position after the string whose content begins at i, or
// -1 when there is no such string. Eight bytes are looked at together as long as
// none of them means anything.
func stringEnd(b []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for {
		for i+8 <= len(b) {
			word := binary.LittleEndian.Uint64(b[i:])
			quote, escape := word^(ones*'"'), word^(ones*'\\')
			special := ((word - ones*0x20) &^ word) | ((quote - ones) &^ quote) | ((escape - ones) &^ escape)
			if special &= tops; special != 0 {
				i += bits.TrailingZeros64(special) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			return -1
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < 0x20:
			return -1
		case c != '\\':
			i++
		default:
			if i = escapeEnd(b, i+1); i < 0 {
				return -1
			}
		}
	}
}

func escapeEnd(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if i+5 > len(b) {
			return -1
		}
		for _, c := range b[i+1 : i+5] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

func literalEnd(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func numberEnd(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	default:
		if i = digitsEnd(b, i); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = digitsEnd(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		i = digitsEnd(b, i)
	}
	return i
}

// digitsEnd returns the position after one or more digits, or -1.
func digitsEnd(b []byte, i int) int {
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

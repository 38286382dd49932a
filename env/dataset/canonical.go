package dataset

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/trajectories/parquetrows"
	"github.com/tidwall/gjson"
)

// appendCanonical appends the canonical text of one valid JSON value, the input of Row.Digest. It is what Python writes with
// json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False), apart from two rules that make the text
// independent of the file format: members that are null are left out, and numbers are written by value (see canonicalNumber).
func appendCanonical(dst, value []byte) []byte {
	return appendCanonicalResult(dst, gjson.ParseBytes(value))
}

func appendCanonicalResult(dst []byte, v gjson.Result) []byte {
	switch v.Type {
	case gjson.Number:
		return appendCanonicalNumber(dst, v.Raw)
	case gjson.String:
		return parquetrows.AppendString(dst, unquote(v.Raw))
	case gjson.True:
		return append(dst, "true"...)
	case gjson.False:
		return append(dst, "false"...)
	case gjson.JSON:
		if v.IsArray() {
			return appendCanonicalArray(dst, v)
		}
		return appendCanonicalObject(dst, v)
	default:
		return append(dst, "null"...)
	}
}

func appendCanonicalArray(dst []byte, v gjson.Result) []byte {
	dst = append(dst, '[')
	first := true
	v.ForEach(func(_, item gjson.Result) bool {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendCanonicalResult(dst, item)
		return true
	})
	return append(dst, ']')
}

func appendCanonicalObject(dst []byte, v gjson.Result) []byte {
	type member struct {
		key   []byte
		value gjson.Result
	}
	var members []member
	v.ForEach(func(key, value gjson.Result) bool {
		if value.Type != gjson.Null {
			members = append(members, member{unquote(key.Raw), value})
		}
		return true
	})
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = parquetrows.AppendString(dst, m.key)
		dst = append(dst, ':')
		dst = appendCanonicalResult(dst, m.value)
	}
	return append(dst, '}')
}

// appendCanonicalNumber writes a JSON number by its exact decimal value: no sign on zero, no trailing zeros, plain digits
// between 1e-6 and 1e21 and scientific notation outside, as JavaScript prints numbers. 1, 1.0, 10e-1 are all "1".
func appendCanonicalNumber(dst []byte, raw string) []byte {
	negative := raw != "" && raw[0] == '-'
	if negative {
		raw = raw[1:]
	}
	mantissa, exponent := raw, int64(0)
	for i := 0; i < len(raw); i++ {
		if raw[i] == 'e' || raw[i] == 'E' {
			e, err := strconv.ParseInt(raw[i+1:], 10, 64)
			if err != nil || e > 1<<40 || e < -(1<<40) {
				return append(appendSign(dst, negative), raw...) // beyond any arithmetic: the digits themselves
			}
			mantissa, exponent = raw[:i], e
			break
		}
	}
	digits := make([]byte, 0, len(mantissa))
	for i := 0; i < len(mantissa); i++ {
		if mantissa[i] == '.' {
			exponent -= int64(len(mantissa) - i - 1)
			continue
		}
		digits = append(digits, mantissa[i])
	}
	digits = bytes.TrimLeft(digits, "0")
	trimmed := bytes.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(trimmed))
	digits = trimmed
	if len(digits) == 0 {
		return append(dst, '0')
	}
	dst = appendSign(dst, negative)
	point := int64(len(digits)) + exponent // the value is 0.digits × 10^point
	switch {
	case exponent >= 0 && point <= 21:
		dst = append(dst, digits...)
		return append(dst, bytes.Repeat([]byte{'0'}, int(exponent))...)
	case point > 0 && point <= 21:
		dst = append(dst, digits[:point]...)
		dst = append(dst, '.')
		return append(dst, digits[point:]...)
	case point <= 0 && point > -6:
		dst = append(dst, "0."...)
		dst = append(dst, bytes.Repeat([]byte{'0'}, int(-point))...)
		return append(dst, digits...)
	}
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(dst, '.')
		dst = append(dst, digits[1:]...)
	}
	dst = append(dst, 'e')
	if point > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, point-1, 10)
}

func appendSign(dst []byte, negative bool) []byte {
	if negative {
		return append(dst, '-')
	}
	return dst
}

// unquote decodes a JSON string literal. A surrogate without its partner keeps its three-byte form (as WTF-8 does), so that
// two different broken strings don't become one.
func unquote(raw string) []byte {
	if len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '\\' || i+1 >= len(raw) {
			out = append(out, c)
			continue
		}
		i++
		switch raw[i] {
		case 'b':
			out = append(out, '\b')
		case 't':
			out = append(out, '\t')
		case 'n':
			out = append(out, '\n')
		case 'f':
			out = append(out, '\f')
		case 'r':
			out = append(out, '\r')
		case 'u':
			r, ok := hex4(raw, i+1)
			if !ok {
				out = append(out, '\\', 'u')
				continue
			}
			i += 4
			if r >= 0xD800 && r < 0xDC00 && i+2 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
				if low, ok := hex4(raw, i+3); ok && low >= 0xDC00 && low < 0xE000 {
					out = utf8.AppendRune(out, (r-0xD800)<<10|(low-0xDC00)+0x10000)
					i += 6
					continue
				}
			}
			if r >= 0xD800 && r < 0xE000 {
				out = append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
				continue
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, raw[i])
		}
	}
	return out
}

// hex4 reads four hexadecimal digits at i.
func hex4(s string, i int) (rune, bool) {
	if i+4 > len(s) {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s[i : i+4]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

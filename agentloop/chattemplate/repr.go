package chattemplate

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// str is Python's str(v): what {{ v }} renders.
func str(v value) string {
	switch v := v.(type) {
	case string:
		return v
	case markup:
		return string(v)
	case *undefined:
		return ""
	}
	return repr(v)
}

// repr is Python's repr(v).
func repr(v value) string {
	var b strings.Builder
	writeRepr(&b, v, 0)
	return b.String()
}

const deepest = 200 // nesting that representations and JSON follow

func writeRepr(b *strings.Builder, v value, depth int) {
	if depth > deepest {
		b.WriteString("...")
		return
	}
	items := func(open string, all []value, end string) {
		b.WriteString(open)
		for i, item := range all {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, item, depth+1)
		}
		b.WriteString(end)
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		b.WriteString(v.String())
	case float64:
		b.WriteString(reprFloat(v))
	case string:
		b.WriteString(reprString(v))
	case markup:
		b.WriteString("Markup(" + reprString(string(v)) + ")")
	case *list:
		items("[", v.items, "]")
	case tuple:
		if len(v) == 1 {
			items("(", v, ",)")
		} else {
			items("(", v, ")")
		}
	case *dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(b, k, depth+1)
			b.WriteString(": ")
			writeRepr(b, v.values[i], depth+1)
		}
		b.WriteByte('}')
	case span:
		if v.step == 1 {
			fmt.Fprintf(b, "range(%d, %d)", v.start, v.stop)
		} else {
			fmt.Fprintf(b, "range(%d, %d, %d)", v.start, v.stop, v.step)
		}
	case *undefined:
		b.WriteString("Undefined")
	case *namespace:
		b.WriteString("<Namespace ")
		writeRepr(b, v.attrs, depth+1)
		b.WriteByte('>')
	case *function:
		b.WriteString("<function " + v.name + ">")
	default:
		b.WriteString("<" + typeName(v) + ">")
	}
}

// reprFloat writes the shortest digits that give the number back, with an exponent
// outside 1e-4 to 1e16.
func reprFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		s := strconv.FormatFloat(f, 'e', -1, 64)
		mantissa, exponent, _ := strings.Cut(s, "e")
		if len(exponent) == 2 { // Go and Python both write at least two digits
			exponent = exponent[:1] + "0" + exponent[1:]
		}
		return mantissa + "e" + exponent
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func reprString(s string) string {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b := make([]byte, 0, len(s)+2)
	b = append(b, quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < 0x20 || r == 0x7f:
			b = fmt.Appendf(b, `\x%02x`, r)
		case r < 0x7f || printable(r):
			b = utf8.AppendRune(b, r)
		case r <= 0xff:
			b = fmt.Appendf(b, `\x%02x`, r)
		case r <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = fmt.Appendf(b, `\U%08x`, r)
		}
	}
	return string(append(b, quote))
}

// printable is Python's str.isprintable for one character that isn't ASCII.
func printable(r rune) bool {
	return unicode.IsPrint(r) && r != 0xAD
}

// jsonStyle is how tojson writes.
type jsonStyle struct {
	indent          string // "" for one line
	multiline       bool
	item, pair      string // separators
	sortKeys, ascii bool
}

// appendJSON is Python's json.dumps.
func appendJSON(b []byte, v value, style *jsonStyle, depth int) ([]byte, error) {
	if depth > deepest {
		return nil, failf("tojson: nested deeper than %d", deepest)
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case *big.Int:
		return v.Append(b, 10), nil
	case float64:
		return append(b, jsonFloat(v)...), nil
	case string:
		return appendJSONString(b, v, style.ascii), nil
	case markup:
		return appendJSONString(b, string(v), style.ascii), nil
	case *list:
		return appendJSONItems(b, v.items, style, depth)
	case tuple:
		return appendJSONItems(b, v, style, depth)
	case *dict:
		return appendJSONDict(b, v, style, depth)
	}
	return nil, failf("Object of type %s is not JSON serializable", typeName(v))
}

func jsonFloat(f float64) string {
	switch s := reprFloat(f); s {
	case "nan":
		return "NaN"
	case "inf":
		return "Infinity"
	case "-inf":
		return "-Infinity"
	default:
		return s
	}
}

func (s *jsonStyle) newline(b []byte, depth int) []byte {
	if !s.multiline {
		return b
	}
	b = append(b, '\n')
	for range depth {
		b = append(b, s.indent...)
	}
	return b
}

func appendJSONItems(b []byte, items []value, style *jsonStyle, depth int) ([]byte, error) {
	if len(items) == 0 {
		return append(b, "[]"...), nil
	}
	b = style.newline(append(b, '['), depth+1)
	for i, item := range items {
		if i > 0 {
			b = style.newline(append(b, style.item...), depth+1)
		}
		var err error
		if b, err = appendJSON(b, item, style, depth+1); err != nil {
			return nil, err
		}
	}
	return append(style.newline(b, depth), ']'), nil
}

func appendJSONDict(b []byte, d *dict, style *jsonStyle, depth int) ([]byte, error) {
	if len(d.keys) == 0 {
		return append(b, "{}"...), nil
	}
	order := make([]value, len(d.keys))
	for i := range d.keys {
		order[i] = tuple{d.keys[i], d.values[i]}
	}
	if style.sortKeys {
		if err := sortValues(order, func(v value) value { return v.(tuple)[0] }, false); err != nil {
			return nil, err
		}
	}
	b = style.newline(append(b, '{'), depth+1)
	for i, entry := range order {
		if i > 0 {
			b = style.newline(append(b, style.item...), depth+1)
		}
		var name string
		switch k := entry.(tuple)[0].(type) {
		case string:
			name = k
		case markup:
			name = string(k)
		case nil:
			name = "null"
		case bool:
			name = strconv.FormatBool(k)
		case int64, *big.Int:
			name = str(k)
		case float64:
			name = jsonFloat(k)
		default:
			return nil, failf("keys must be str, int, float, bool or None, not %s", typeName(k))
		}
		b = append(appendJSONString(b, name, style.ascii), style.pair...)
		var err error
		if b, err = appendJSON(b, entry.(tuple)[1], style, depth+1); err != nil {
			return nil, err
		}
	}
	return append(style.newline(b, depth), '}'), nil
}

func appendJSONString(b []byte, s string, ascii bool) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < 0x20:
			b = fmt.Appendf(b, `\u%04x`, r)
		case r < 0x7f || !ascii:
			b = utf8.AppendRune(b, r)
		case r == 0x7f:
			b = append(b, 0x7f)
		case r <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		}
	}
	return append(b, '"')
}

package parquetrows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AppendString appends a JSON string with the fewest escapes: quotes, backslashes and
// control characters only. Bytes that are not UTF-8 pass through, so that different
// values stay different.
func AppendString(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// badUTF8 returns the position of the first byte that is not UTF-8.
func badUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(text)
}

// wanted is nil when every column is.
func wanted(columns []string) map[string]bool {
	if len(columns) == 0 {
		return nil
	}
	keep := make(map[string]bool, len(columns))
	for _, c := range columns {
		keep[c] = true
	}
	return keep
}

// missingColumns is an error when a wanted column is not among those that exist.
func missingColumns(want, have []string) error {
	quoted := make([]string, len(have))
	for i, name := range have {
		quoted[i] = strconv.Quote(name)
	}
	for _, c := range want {
		if !slices.Contains(have, c) {
			return fmt.Errorf("%w: there is no column %q; the columns are %s", ErrFormat, c, strings.Join(quoted, ", "))
		}
	}
	return nil
}

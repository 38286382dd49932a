package sandbox

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Omitted returns how many bytes in the middle were dropped.
func (o Output) Omitted() int64 { return o.Total - int64(len(o.Head)) - int64(len(o.Tail)) }

// Bytes returns head and tail joined, with nothing put where the middle was
// dropped: the exact output when Omitted is 0.
func (o Output) Bytes() []byte {
	b := make([]byte, 0, len(o.Head)+len(o.Tail))
	return append(append(b, o.Head...), o.Tail...)
}

// String returns the output as text. Where the middle was dropped it says so with
// the notice models of this family know, and characters that the cut left
// incomplete are dropped too; other bytes are as the command wrote them.
func (o Output) String() string {
	var b strings.Builder
	if o.Omitted() <= 0 {
		b.Grow(len(o.Head) + len(o.Tail))
		b.Write(o.Head)
		b.Write(o.Tail)
		return b.String()
	}
	head, tail := cutPartialEnd(o.Head), cutPartialStart(o.Tail)
	b.Grow(len(head) + len(tail) + 96)
	b.Write(head)
	b.WriteString("\n\n... [OUTPUT TRUNCATED - ")
	b.WriteString(strconv.FormatInt(o.Total-int64(len(head))-int64(len(tail)), 10))
	b.WriteString(" bytes omitted out of ")
	b.WriteString(strconv.FormatInt(o.Total, 10))
	b.WriteString(" total] ...\n\n")
	b.Write(tail)
	return b.String()
}

// cutPartialEnd drops a character at the end that misses its last bytes.
func cutPartialEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		c := b[len(b)-i]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// cutPartialStart drops the last bytes of a character whose start was cut away.
// More than three of them are no remains of a character, and stay.
func cutPartialStart(b []byte) []byte {
	n := 0
	for n < len(b) && n < utf8.UTFMax && !utf8.RuneStart(b[n]) {
		n++
	}
	if n == utf8.UTFMax {
		return b
	}
	return b[n:]
}

// String returns stdout followed by stderr as text, a line break between them.
func (r Result) String() string {
	out, err := r.Stdout.String(), r.Stderr.String()
	if out != "" && err != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	return out + err
}

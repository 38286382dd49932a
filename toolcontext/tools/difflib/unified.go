package difflib

import (
	"fmt"
	"strings"
)

// Tag is what an Opcode does with its ranges.
type Tag int

// What an Opcode does.
const (
	Equal Tag = iota
	Replace
	Delete
	Insert
)

// Opcode turns a[A1:A2] into b[B1:B2].
type Opcode struct {
	Tag            Tag
	A1, A2, B1, B2 int
}

// Opcodes returns the steps that turn a into b, in order and without gaps.
func (m *Matcher[T]) Opcodes() []Opcode {
	var codes []Opcode
	i, j := 0, 0
	for _, x := range m.Blocks() {
		switch {
		case i < x.A && j < x.B:
			codes = append(codes, Opcode{Replace, i, x.A, j, x.B})
		case i < x.A:
			codes = append(codes, Opcode{Delete, i, x.A, j, x.B})
		case j < x.B:
			codes = append(codes, Opcode{Insert, i, x.A, j, x.B})
		}
		i, j = x.A+x.Size, x.B+x.Size
		if x.Size > 0 {
			codes = append(codes, Opcode{Equal, x.A, i, x.B, j})
		}
	}
	return codes
}

// grouped returns the changes with up to n equal elements around them, split where
// more than 2n equal elements lie between two changes.
func grouped(codes []Opcode, n int) [][]Opcode {
	if len(codes) == 0 {
		codes = []Opcode{{Equal, 0, 1, 0, 1}}
	}
	if c := &codes[0]; c.Tag == Equal {
		c.A1, c.B1 = max(c.A1, c.A2-n), max(c.B1, c.B2-n)
	}
	if c := &codes[len(codes)-1]; c.Tag == Equal {
		c.A2, c.B2 = min(c.A2, c.A1+n), min(c.B2, c.B1+n)
	}
	var groups [][]Opcode
	var group []Opcode
	for _, c := range codes {
		if c.Tag == Equal && c.A2-c.A1 > 2*n {
			group = append(group, Opcode{Equal, c.A1, min(c.A2, c.A1+n), c.B1, min(c.B2, c.B1+n)})
			groups = append(groups, group)
			group = nil
			c.A1, c.B1 = max(c.A1, c.A2-n), max(c.B1, c.B2-n)
		}
		group = append(group, c)
	}
	if len(group) > 0 && (len(group) > 1 || group[0].Tag != Equal) {
		groups = append(groups, group)
	}
	return groups
}

// Unified returns a unified diff of two texts with n lines of context, "" when
// they are equal. A last line without a newline is marked the way diff and git do;
// Python would run it into the next line.
func Unified(a, b, fromFile, toFile string, n int) string {
	before, after := SplitLines(a), SplitLines(b)
	var out strings.Builder
	for _, group := range grouped(steps(before, after), n) {
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", fromFile, toFile)
		}
		first, last := group[0], group[len(group)-1]
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", lineRange(first.A1, last.A2), lineRange(first.B1, last.B2))
		for _, c := range group {
			if c.Tag == Equal {
				write(&out, ' ', before[c.A1:c.A2])
				continue
			}
			write(&out, '-', before[c.A1:c.A2])
			write(&out, '+', after[c.B1:c.B2])
		}
	}
	return out.String()
}

const (
	longText  = 4000       // lines from which equal ends are taken off before comparing
	lineLimit = 20_000_000 // comparisons of lines, less than a second's worth
)

// steps returns the opcodes between two lists of lines. Python compares long texts
// whole, which can take minutes when lines repeat; here what they have in common
// at both ends is set aside first, and what is still too much becomes one replacement.
func steps(a, b []string) []Opcode {
	head, tail := 0, 0
	if len(a)+len(b) > longText {
		shorter := min(len(a), len(b))
		for head < shorter && a[head] == b[head] {
			head++
		}
		for tail < shorter-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
			tail++
		}
	}
	var codes []Opcode
	if head > 0 {
		codes = append(codes, Opcode{Equal, 0, head, 0, head})
	}
	enda, endb := len(a)-tail, len(b)-tail
	m := NewMatcher(a[head:enda], b[head:endb]).Limit(lineLimit)
	inner := m.Opcodes()
	if m.spent {
		inner = []Opcode{{Replace, 0, enda - head, 0, endb - head}}
	}
	for _, c := range inner {
		c.A1, c.A2, c.B1, c.B2 = c.A1+head, c.A2+head, c.B1+head, c.B2+head
		if n := len(codes); n > 0 && c.Tag == Equal && codes[n-1].Tag == Equal {
			codes[n-1].A2, codes[n-1].B2 = c.A2, c.B2
			continue
		}
		codes = append(codes, c)
	}
	if tail > 0 {
		c := Opcode{Equal, enda, len(a), endb, len(b)}
		if n := len(codes); n > 0 && codes[n-1].Tag == Equal {
			codes[n-1].A2, codes[n-1].B2 = c.A2, c.B2
		} else {
			codes = append(codes, c)
		}
	}
	return codes
}

func write(out *strings.Builder, mark byte, lines []string) {
	for _, line := range lines {
		out.WriteByte(mark)
		out.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

func lineRange(start, stop int) string {
	length := stop - start
	if length == 1 {
		return fmt.Sprint(start + 1)
	}
	if length > 0 {
		start++
	}
	return fmt.Sprintf("%d,%d", start, length)
}

// SplitLines splits a text after every newline; the last line may have none.
func SplitLines(s string) []string {
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

package cli

import (
	"io"
	"regexp"
	"strings"
)

// maxLabel is the widest first column below which folded lines are indented.
const maxLabel = 32

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// fold breaks the lines of a text that are wider than the terminal between words and indents what
// follows to the second column of the line, or by two spaces. Zero columns, of what is no terminal,
// fold nothing. Lines with commands stay whole, so that they can be copied.
func fold(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if shownWidth(line) > columns && !strings.Contains(line, " --") && !strings.Contains(line, "→ ") {
			lines[i] = foldLine(line, columns)
		}
	}
	return strings.Join(lines, "\n")
}

// columnsOf returns the width of the terminal that w is, 0 if it is none.
func columnsOf(w io.Writer) int {
	columns, _ := terminalSize(w)
	return columns
}

// shownWidth is the width of a line without what colours it.
func shownWidth(line string) int { return textWidth(escapes.ReplaceAllString(line, "")) }

func foldLine(line string, columns int) string {
	body := strings.TrimLeft(line, " ")
	start := len(line) - len(body) // of the text that is folded, in bytes
	indent := start + 2
	if gap := strings.Index(body, "  "); gap > 0 {
		value := strings.TrimLeft(body[gap:], " ")
		label := line[:len(line)-len(value)]
		if width := shownWidth(label); width <= min(maxLabel, columns/2) {
			start, indent = len(label), width
		}
	} else if start > 2 { // a line without a label below one that has one
		indent = start
	}
	indent = min(indent, columns/2)
	var b strings.Builder
	b.WriteString(line[:start])
	at, gap := shownWidth(line[:start]), ""
	for i, word := range strings.Split(line[start:], " ") {
		switch width := shownWidth(word); {
		case i == 0:
			b.WriteString(word)
			at += width
		case word == "":
			gap += " "
		case at+len(gap)+1+width > columns:
			b.WriteString("\n" + strings.Repeat(" ", indent) + word)
			at, gap = indent+width, ""
		default:
			b.WriteString(gap + " " + word)
			at, gap = at+len(gap)+1+width, ""
		}
	}
	return b.String()
}

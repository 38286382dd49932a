package report

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// colorCodes matches the escape sequences that set colours and weights in a terminal.
var colorCodes = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// Visible makes a text safe to look at: terminal colours are taken out, and
// characters that would hide, reorder or overwrite what stands around them (control
// characters, changes of writing direction, invisible marks) are shown by name.
func Visible(s string) string {
	if strings.Contains(s, "\x1b[") {
		s = colorCodes.ReplaceAllString(s, "")
	}
	if !strings.ContainsFunc(s, hides) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == 0x7f:
			b.WriteRune('\u2421')
		case r < 0x20 && hides(r):
			b.WriteRune('\u2400' + r) // the picture of the control character
		case hides(r):
			fmt.Fprintf(&b, "⟪U+%04X⟫", r)
		default:
			b.WriteRune(r) // an invalid byte arrives as U+FFFD
		}
	}
	return b.String()
}

func hides(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r == 0x061c:
		return true
	case r >= 0xe0000 && r <= 0xe007f: // tags, in which whole messages can be hidden
		return true
	}
	return false
}

// OneLine is Visible on one line of at most n characters.
func OneLine(s string, n int) string {
	s = Visible(strings.Join(strings.Fields(s), " "))
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Short writes a number with about three digits and a letter for its size.
func Short(v float64) string {
	abs := v
	if abs < 0 {
		abs = -abs
	}
	switch {
	case abs >= 1e9:
		return strconv.FormatFloat(v/1e9, 'f', 1, 64) + "G"
	case abs >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', 1, 64) + "M"
	case abs >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', 1, 64) + "k"
	case abs >= 100 || v == float64(int64(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Seconds writes a duration for people: 12 ms, 3.4 s, 5m06s, 2h07m.
func Seconds(s float64) string {
	switch {
	case s <= 0:
		return "0 s"
	case s < 0.9995:
		return strconv.FormatFloat(s*1000, 'f', 0, 64) + " ms"
	case s < 59.95:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	}
	d := time.Duration(s * float64(time.Second)).Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// Percent writes a share of n in total.
func Percent(n, total int) string {
	if total == 0 {
		return "–"
	}
	return strconv.FormatFloat(100*float64(n)/float64(total), 'f', 1, 64) + " %"
}

// limitText says what a limit of the tests means, by the name of stats.TestLimit.
func limitText(name string) string {
	switch name {
	case "loaded_by_tests":
		return "The tests loaded the agent's code into their own process. No harness can detect a reward that is forged there."
	case "not_isolated":
		return "The tests were not isolated from the agent's code, which can change the reward while they run."
	case "changed_by_program":
		return "The tests wrote files that the agent's code then changed. If the tests compare with such a file, the reward can be forged."
	}
	return ""
}

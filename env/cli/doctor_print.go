package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// doctorReport is what the command prints.
type doctorReport struct {
	OK       bool      `json:"ok"` // no problems
	Problems int       `json:"problems"`
	Warnings int       `json:"warnings"`
	Checks   []finding `json:"checks"`
}

func newDoctorReport(findings []finding) doctorReport {
	r := doctorReport{Checks: findings}
	for _, f := range findings {
		switch f.Level {
		case levelProblem:
			r.Problems++
		case levelWarning:
			r.Warnings++
		}
	}
	r.OK = r.Problems == 0
	return r
}

func (r doctorReport) writeJSON(w io.Writer) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// look is how findings are marked.
type look struct {
	marks map[level]string
	color bool
}

// doctorLook chooses marks that the terminal can show.
func doctorLook(w io.Writer, getenv func(string) (string, bool)) look {
	l := look{color: useColor(w, getenv)}
	if wideCharacters(getenv) {
		l.marks = map[level]string{levelOK: "✓", levelWarning: "!", levelProblem: "✗"}
	} else {
		l.marks = map[level]string{levelOK: "ok  ", levelWarning: "warn", levelProblem: "FAIL"}
	}
	return l
}

// wideCharacters reports whether the locale's characters are UTF-8.
func wideCharacters(getenv func(string) (string, bool)) bool {
	if getenv == nil {
		getenv = os.LookupEnv
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v, _ := getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// colors of the marks on a terminal.
var levelColors = [...]struct {
	level level
	code  string
}{{levelOK, "32"}, {levelWarning, "33"}, {levelProblem, "31"}}

func (l look) mark(of level) string {
	if l.color {
		for _, c := range levelColors {
			if c.level == of {
				return "\x1b[" + c.code + "m" + l.marks[of] + "\x1b[0m"
			}
		}
	}
	return l.marks[of]
}

// writeText writes a line per check with the fix below it.
func (r doctorReport) writeText(w io.Writer, l look) error {
	var b strings.Builder
	width, last := 0, ""
	for _, f := range r.Checks {
		width = max(width, len(f.Check))
	}
	for _, f := range r.Checks {
		if f.Part != last {
			if last != "" {
				b.WriteByte('\n')
			}
			b.WriteString(f.Part + "\n")
			last = f.Part
		}
		fmt.Fprintf(&b, "  %s %-*s  %s\n", l.mark(f.Level), width, f.Check, plainLine(f.Found))
		if f.Fix != "" {
			fmt.Fprintf(&b, "  %*s %-*s  fix: %s\n", len([]rune(l.marks[f.Level])), "", width, "", plainLine(f.Fix))
		}
	}
	fmt.Fprintf(&b, "\n%s, %s, %s\n", count(len(r.Checks), "check"), count(r.Problems, "problem"), count(r.Warnings, "warning"))
	_, err := io.WriteString(w, fold(b.String(), columnsOf(w)))
	return err
}

// plainLine makes text that came from elsewhere one line without control characters,
// which could move the cursor.
func plainLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, s)
	return oneLine(s, 600)
}

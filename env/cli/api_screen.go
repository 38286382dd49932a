package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// resizeCheck is how often the size of the terminal is asked for.
const resizeCheck = 200 * time.Millisecond

// terminalSize returns the size of the terminal that w is, zero when it is none.
func terminalSize(w io.Writer) (columns, rows int) {
	f, ok := w.(*os.File)
	if !ok || !isTerminal(f) {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return 80, 24 // a terminal that doesn't say
	}
	return columns, rows
}

// dumbTerminal says whether the terminal can't move its cursor.
func dumbTerminal(getenv func(string) (string, bool)) bool {
	if getenv == nil {
		return false
	}
	kind, _ := getenv("TERM")
	return kind == "dumb"
}

// screenWatcher draws the newest look on a screen of its own, which goes away at the
// end; the terminal then shows what it did before, and the last look.
type screenWatcher struct {
	command *apiStatusCommand
	out     io.Writer
	size    func() (columns, rows int)
	color   bool
	now     func() time.Time
	session *session

	last          *atropos.Overview
	seen          time.Time // of last
	failed        error
	since         time.Time // when failed began
	columns, rows int       // as drawn
}

// Sequences of terminals that are not dumb.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeCursor  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

func newScreenWatcher(c *apiStatusCommand, s *session) *screenWatcher {
	return &screenWatcher{command: c, session: s, out: s.app.Stdout, color: useColor(s.app.Stdout, s.app.Getenv), now: time.Now,
		size: func() (int, int) { return terminalSize(s.app.Stdout) }}
}

func (w *screenWatcher) show(o *atropos.Overview, failed error) error {
	now := w.now()
	if failed == nil {
		w.last, w.seen = o, now
	} else if w.failed == nil {
		w.since = now
	}
	w.failed = failed
	return w.draw()
}

// refresh draws again when the terminal has another size.
func (w *screenWatcher) refresh() error {
	if columns, rows := w.size(); columns == w.columns && rows == w.rows {
		return nil
	}
	return w.draw()
}

func (w *screenWatcher) draw() error {
	var b strings.Builder
	if w.rows == 0 {
		b.WriteString(enterScreen)
	}
	w.columns, w.rows = w.size()
	b.WriteString(homeCursor)
	for i, line := range fit(w.view(w.columns), w.columns, w.rows) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line.render(w.color) + clearLine)
	}
	b.WriteString(clearBelow)
	_, err := io.WriteString(w.out, b.String())
	return err
}

// view is what there is to show. When the server is away it is what was seen last.
func (w *screenWatcher) view(columns int) []viewLine {
	if w.failed == nil {
		return apiView(w.command.URL, w.last, columns)
	}
	silence := fmt.Sprintf("no answer for %s, asking again every %s: %s", spanText(w.now().Sub(w.since).Seconds()), w.command.Every, printable(w.failed.Error()))
	v := []viewLine{}
	for _, line := range wrap(silence, columns) {
		v = append(v, viewLine{line, alarmTone})
	}
	if w.last == nil {
		return v
	}
	v = append(v, viewLine{"as it was at " + w.seen.Format(time.TimeOnly) + ":", plainTone}, viewLine{})
	for _, line := range apiView(w.command.URL, w.last, columns) {
		v = append(v, viewLine{line.text, dimTone})
	}
	return v
}

// end gives the terminal back.
func (w *screenWatcher) end() error {
	if w.rows == 0 {
		return nil
	}
	if _, err := io.WriteString(w.out, leaveScreen); err != nil {
		return err
	}
	columns, _ := w.size()
	return printView(w.session, w.view(columns))
}

// fit cuts a view to the size of a terminal and says how much was cut at its end.
func fit(view []viewLine, columns, rows int) []viewLine {
	if len(view) > rows {
		cut := len(view) - rows + 1
		view = append(view[:rows-1:rows-1], viewLine{fmt.Sprintf("… %s more: `api status` prints all", count(cut, "line")), dimTone})
	}
	fitted := make([]viewLine, len(view))
	for i, line := range view {
		fitted[i] = viewLine{clip(line.text, columns), line.tone}
	}
	return fitted
}

// wrap breaks a text between words into lines of at most so many columns.
func wrap(text string, columns int) []string {
	var broken []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case columns > 0 && textWidth(line)+1+textWidth(word) > columns:
			broken = append(broken, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(broken, line)
}

package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// statusLine is a line at the bottom of a terminal that is drawn over and over. It is
// never wider than the terminal, and erased as a whole after the terminal became narrower
// and wrapped it.
type statusLine struct {
	out   io.Writer
	width func() int // columns of the terminal
	shown string
}

// echoRoom is what stays free at the end of the line for the ^C that terminals echo.
const echoRoom = 5

// draw shows a text in place of the one before.
func (l *statusLine) draw(text string) {
	text = clip(text, max(1, l.width()-echoRoom))
	if text == l.shown {
		return
	}
	_, _ = io.WriteString(l.out, l.erasure()+text)
	l.shown = text
}

// erase takes the line off the terminal.
func (l *statusLine) erase() {
	if erasure := l.erasure(); erasure != "" {
		_, _ = io.WriteString(l.out, erasure)
		l.shown = ""
	}
}

// erasure moves to where the line begins and clears all from there on.
func (l *statusLine) erasure() string {
	if l.shown == "" {
		return ""
	}
	rows := (textWidth(l.shown) - 1) / max(1, l.width())
	return strings.Repeat("\x1b[A", max(0, rows)) + "\r" + clearBelow
}

// progressBar is how far a run is, on a terminal.
type progressBar struct {
	line        statusLine
	now         func() time.Time
	text        string
	done, total int // total -1: unknown
	skipped     int // done before this session
	since       time.Time
	drawn       time.Time
}

// barCells is the width of the bar, drawnEvery how often it is drawn at most.
const (
	barCells   = 24
	drawnEvery = 80 * time.Millisecond
)

func newProgressBar(out io.Writer, text string, total int) *progressBar {
	b := &progressBar{line: statusLine{out: out, width: func() int { columns, _ := terminalSize(out); return columns }}, now: time.Now, text: text, total: total}
	b.since = b.now()
	b.line.draw(b.String())
	return b
}

// advance counts what is done and changes the text.
func (b *progressBar) advance(n int, text string) {
	b.done, b.text = b.done+n, text
	if now := b.now(); now.Sub(b.drawn) >= drawnEvery || b.done == b.total {
		b.drawn = now
		b.line.draw(b.String())
	}
}

// above has something printed above the bar.
func (b *progressBar) above(print func()) {
	b.line.erase()
	print()
	b.line.draw(b.String())
}

// String returns numbers, text, bar and the time left: a narrow terminal cuts the end.
func (b *progressBar) String() string {
	spent := b.now().Sub(b.since)
	if b.total <= 0 {
		return fmt.Sprintf("%d done  %s  %s", b.done, b.text, roundDuration(spent))
	}
	cells := min(barCells, barCells*b.done/b.total)
	left := ""
	if n := b.done - b.skipped; n > 0 && b.done < b.total {
		left = "  about " + (spent / time.Duration(n) * time.Duration(b.total-b.done)).Round(time.Second).String() + " left"
	}
	return fmt.Sprintf("%d/%d  %s  [%s%s]%s", b.done, b.total, b.text, strings.Repeat("=", cells), strings.Repeat(" ", barCells-cells), left)
}

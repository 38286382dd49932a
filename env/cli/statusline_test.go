package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStatusLine_FitsTheTerminalAndErasesAllItsRows(t *testing.T) {
	var out bytes.Buffer
	columns := 40
	l := statusLine{out: &out, width: func() int { return columns }}
	written := func() string { s := out.String(); out.Reset(); return s }

	l.draw(strings.Repeat("x", 100))
	require.Equal(t, strings.Repeat("x", 34)+"…", written(), "room is left for an echoed ^C")
	l.draw(strings.Repeat("x", 100))
	require.Empty(t, written(), "the same line is not drawn again")
	l.draw("short")
	require.Equal(t, "\r\x1b[Jshort", written())
	l.draw(strings.Repeat("y", 35))
	written()
	columns = 12 // the terminal wraps the line into three rows
	l.erase()
	require.Equal(t, "\x1b[A\x1b[A\r\x1b[J", written())
	l.erase()
	require.Empty(t, written())
}

func TestProgressBar_SaysHowFarARunIs(t *testing.T) {
	now := time.Unix(0, 0)
	var out bytes.Buffer
	b := &progressBar{line: statusLine{out: &out, width: func() int { return 120 }}, now: func() time.Time { return now }, text: "rollouts", total: 10, since: now}
	require.Equal(t, "0/10  rollouts  [                        ]", b.String())
	b.advance(2, "rollouts")
	b.skipped = 2
	now = now.Add(6 * time.Second)
	b.advance(3, "mean score 0.500")
	require.Equal(t, "5/10  mean score 0.500  [============            ]  about 10s left", b.String())
	b.advance(9, "mean score 0.500")
	require.Equal(t, "14/10  mean score 0.500  [========================]", b.String())
	b.total = -1
	require.Equal(t, "14 done  mean score 0.500  6s", b.String())
	out.Reset()
	b.above(func() { out.WriteString("note\n") })
	require.Regexp(t, `^\r\x1b\[Jnote\n14 done`, out.String())
}

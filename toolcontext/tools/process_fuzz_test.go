package tools

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// FuzzRollingText makes what a process wrote readable, whatever it wrote and
// wherever the sandbox cut it.
func FuzzRollingText(f *testing.F) {
	for _, text := range []string{"", "plain\n", "é語😀", "語"[:2], "\x80\x80\x80\x80\x80", "\xf0\x9f\x98", "\x1b[31mred\x1b[0m\r\n", "\x1b]0;never ended", "\xc2\x9b1m", "a\x00b"} {
		f.Add([]byte(text), 0, true, false)
		f.Add([]byte("head"+text), 4, false, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int, running, terminal bool) {
		o := sandbox.Output{Tail: data, Total: int64(len(data))}
		if cut > 0 && cut <= len(data) {
			o.Tail = data[cut:] // what was before it is dropped
		}
		text, dropped := rollingText(o, running, terminal)
		require.True(t, utf8.ValidString(text))
		require.LessOrEqual(t, utf8.RuneCountInString(text), len(o.Tail))
		require.Equal(t, o.Omitted() > 0, dropped)
		if plain := string(data); o.Omitted() == 0 && utf8.ValidString(plain) && !strings.ContainsAny(plain, "\x1b\u009b\r") {
			require.Equal(t, plain, text)
		}
	})
}

func TestACharacterThatHasNotFullyArrivedIsLeftOutUntilItHas(t *testing.T) {
	for _, c := range []struct{ name, bytes, running, ended string }{
		{"whole", "a語", "a語", "a語"},
		{"half", "a\xe8\xaa", "a", "a\uFFFD"},
		{"a first byte", "a\xf0", "a", "a\uFFFD"},
		{"no character at all", "a\xff", "a\uFFFD", "a\uFFFD"},
		{"nothing", "", "", ""},
	} {
		for running, want := range map[bool]string{true: c.running, false: c.ended} {
			text, cut := rollingText(sandbox.Output{Head: []byte(c.bytes), Total: int64(len(c.bytes))}, running, false)
			require.Equal(t, want, text, c.name)
			require.False(t, cut)
		}
	}
}

// FuzzSurroundings reads what a session that the model may have spoilt prints: what
// comes of it can always be given to a process.
func FuzzSurroundings(f *testing.F) {
	for _, text := range []string{"", "/w\n.\x00A=1\x00B=x=y\nz\x00", "/w\n\n.\x00", "relative\n.\x00A=1", "/w\n.\x00_=x\x00PWD=/w\x00=x\x00novalue\x00BASH_FUNC_f%%=() { :; }\x00", "junk"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir, env := parseSurroundings(text)
		require.True(t, dir == "" || dir[0] == '/' && !strings.Contains(dir, "\x00"))
		require.NoError(t, sandbox.ValidateEnv(env))
		require.NotContains(t, env, "PWD")
	})
}

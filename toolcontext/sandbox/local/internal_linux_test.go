package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestAStateFileThatIsNoneIsNotRead(t *testing.T) {
	dir := t.TempDir()
	good := []byte("/\x00declare -x A=\"1\"\n\x00\x00end")
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("good"), good, 0o600))
	require.NoError(t, os.Symlink("good", at("link")))
	require.NoError(t, unix.Mkfifo(at("pipe"), 0o600))
	require.NoError(t, os.Mkdir(at("dir"), 0o700))
	require.NoError(t, os.WriteFile(at("huge"), make([]byte, maxStateSize+1), 0o600))
	_, ok := readStateFile(at("good"))
	require.True(t, ok)
	for _, name := range []string{"link", "pipe", "dir", "huge", "missing"} {
		_, ok := readStateFile(at(name))
		require.False(t, ok, name)
	}
	for _, text := range []string{"", "end", "/\x00\x00end", "/\x00\x00\x00", "relative\x00\x00\x00end", "/\x00\x00\x00end\x00", "/\x00rm -rf /\x00\x00end"} {
		_, ok := parseState([]byte(text))
		require.False(t, ok, "%q", text)
	}
}

func TestAScriptThatScribblesOverItsStateHarmsOnlyItself(t *testing.T) {
	p, err := New(Config{BaseDir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close(t.Context())) }()
	made, err := p.Create(t.Context(), sandbox.Spec{})
	require.NoError(t, err)
	s := made.(*Sandbox)
	do := func(script string) string {
		r, err := s.Exec(t.Context(), sandbox.Command{Script: script, Session: true})
		require.NoError(t, err)
		return r.Stdout.String()
	}
	do("export V=1")
	for _, spoil := range []string{
		`for f in ../state/*; do echo garbage > $f; done`,
		`for f in ../state/*; do rm $f; ln -s /etc/passwd $f; done`,
		`for f in ../state/*; do rm $f; mkfifo $f; done; exec true`,
		`chmod 000 ../state/*`,
		`rm -rf ../state`,
		`rm -rf ../state; ln -s /nonexistent ../state; rm ../state`,
	} {
		do(spoil)
		require.Equal(t, "1\n", do("echo $V"), spoil)
	}
}

func TestStatLinesWithHostileNamesAreRead(t *testing.T) {
	rest := " S 10 11 12 13 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 98765 1000 200"
	for _, name := range []string{"sh", "a b", ") S 1 2 3 (", "))))", "\n"} {
		st, ok := parseStat(7, []byte("7 ("+name+")"+rest))
		require.True(t, ok)
		require.Equal(t, stat{pid: 7, state: 'S', parent: 10, group: 11, session: 12, terminal: 13, threads: 3, start: 98765}, st)
	}
	for _, text := range []string{"", "7 (sh", "7 (sh) S 1 2", "7 (sh) S x 11 12 13 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 98765"} {
		_, ok := parseStat(7, []byte(text))
		require.False(t, ok, text)
	}
}

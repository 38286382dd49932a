package trajectories

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinesOfAnyLengthAreReadWithTheirPlace(t *testing.T) {
	long := strings.Repeat("x", 700<<10)
	lines := newLineReader(strings.NewReader("a\n\n" + long + "\nlast"))
	for _, want := range []struct {
		text   string
		whole  bool
		number int
		offset int64
	}{{"a", true, 1, 0}, {"", true, 2, 2}, {long, true, 3, 3}, {"last", false, 4, int64(len(long)) + 4}} {
		line, whole, err := lines.next()
		require.NoError(t, err)
		require.True(t, want.text == string(line))
		require.Equal(t, want.whole, whole)
		require.Equal(t, want.number, lines.number)
		require.Equal(t, want.offset, lines.offset)
	}
	_, _, err := lines.next()
	require.Equal(t, io.EOF, err)
}

// FuzzResume opens a run whose rollouts.jsonl holds anything at all: it either
// refuses and changes nothing, or keeps every whole line and is clean from then on.
func FuzzResume(f *testing.F) {
	first, second := encoded(f, simple("a", 0, 0)), encoded(f, simple("a", 0, 1))
	f.Add([]byte(first + "\n" + second + "\n"))
	f.Add([]byte(first + "\n" + second))
	f.Add([]byte(first + "\n" + second[:100]))
	f.Add([]byte(first + "\n" + first + "\n"))
	f.Add([]byte("\n" + first))
	f.Add([]byte{0, 0, '\n'})
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		require.NoError(t, mustCreate(t, dir).Close(StatusInterrupted))
		path := filepath.Join(dir, rolloutsFile)
		require.NoError(t, os.WriteFile(path, content, 0o644))
		run, err := resume(dir, testInfo(t), testSettings())
		after, readErr := os.ReadFile(path)
		require.NoError(t, readErr)
		if err != nil {
			require.True(t, errors.Is(err, ErrCorrupt), "%v", err)
			require.Equal(t, content, after)
			return
		}
		require.NoError(t, run.Close(StatusInterrupted))
		whole := content[:bytes.LastIndexByte(content, '\n')+1]
		require.True(t, bytes.HasPrefix(after, whole), "a whole line was lost")
		require.True(t, len(after) == 0 || after[len(after)-1] == '\n')
		require.Equal(t, run.Len(), bytes.Count(after, []byte{'\n'}))
		again, err := resume(dir, testInfo(t), testSettings())
		require.NoError(t, err)
		require.Empty(t, again.Repairs())
		require.Equal(t, run.Entries(), again.Entries())
		require.NoError(t, again.Close(StatusDone))
	})
}

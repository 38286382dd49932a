package trajectories

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
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

func TestLinesParsedSideBySideArriveInOrder(t *testing.T) {
	var content bytes.Buffer
	const n = 400
	for i := range n {
		r := simple("item", i, 0)
		r.Messages = append(r.Messages, chat.User(strings.Repeat("v", 12_000)))
		content.WriteString(encoded(t, r))
		if i < n-1 {
			content.WriteByte('\n')
		}
	}
	next := 0
	require.NoError(t, parseLines(newLineReader(bytes.NewReader(content.Bytes())), func(l scannedLine) error {
		require.NoError(t, l.err)
		require.Equal(t, next, l.entry.Step)
		require.Equal(t, next+1, l.number)
		require.Equal(t, next < n-1, l.whole)
		require.Equal(t, fmt.Sprintf("item-%d-0", next), gjson.GetBytes(content.Bytes()[l.offset:l.offset+l.length], "rollout_id").Str)
		next++
		return nil
	}))
	require.Equal(t, n, next)
	stop := errors.New("enough")
	require.Equal(t, stop, parseLines(newLineReader(bytes.NewReader(content.Bytes())), func(l scannedLine) error {
		if l.number == 3 {
			return stop
		}
		return nil
	}))
	broken := errors.New("unreadable")
	require.Equal(t, broken, parseLines(newLineReader(io.MultiReader(bytes.NewReader(content.Bytes()), iotest.ErrReader(broken))), func(scannedLine) error { return nil }))
}

// FuzzResume opens a run whose rollouts.jsonl holds anything at all: every whole
// line stays, and a run that could be opened is clean from then on.
func FuzzResume(f *testing.F) {
	first, second := encoded(f, simple("a", 0, 0)), encoded(f, simple("a", 0, 1))
	f.Add([]byte(first + "\n" + second + "\n"))
	f.Add([]byte(first + "\n" + second))
	f.Add([]byte(first + "\n" + second[:100]))
	f.Add([]byte(first + "\n" + first + "\n"))
	f.Add([]byte("\n" + first))
	f.Add([]byte{0, 0, '\n'})
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := quickDir(t)
		require.NoError(t, mustCreate(t, dir).Close(StatusInterrupted))
		path := filepath.Join(dir, rolloutsFile)
		require.NoError(t, os.WriteFile(path, content, 0o644))
		run, err := resume(dir, testInfo(t), testSettings())
		after, readErr := os.ReadFile(path)
		require.NoError(t, readErr)
		whole := content[:bytes.LastIndexByte(content, '\n')+1]
		require.True(t, bytes.HasPrefix(after, whole), "a whole line was lost")
		if err != nil {
			require.True(t, errors.Is(err, ErrCorrupt), "%v", err)
			return
		}
		require.NoError(t, run.Close(StatusInterrupted))
		require.True(t, len(after) == 0 || after[len(after)-1] == '\n')
		require.Equal(t, run.Len(), bytes.Count(after, []byte{'\n'}))
		again, err := resume(dir, testInfo(t), testSettings())
		require.NoError(t, err)
		require.Empty(t, again.Repairs())
		require.Equal(t, run.Entries(), again.Entries())
		require.NoError(t, again.Close(StatusDone))
	})
}

// quickDir is a directory in memory where the machine has one, for tests that sync a lot.
func quickDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "trajectories-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func TestARecordMayHoldMessagesOfAnyValidDepth(t *testing.T) {
	deep := strings.Repeat("[", chat.MaxDepth-1) + strings.Repeat("]", chat.MaxDepth-1)
	message, err := chat.Decode([]byte(`{"role":"user","content":` + deep + `}`))
	require.NoError(t, err)
	r := simple("a", 0, 0)
	r.Messages = []chat.Message{message}
	_, err = parseEntry([]byte(encoded(t, r)))
	require.NoError(t, err)
	_, err = parseEntry([]byte(strings.Repeat("[", 10_000_000)))
	require.Error(t, err)
}

func TestMembersInAnyOrderAreRead(t *testing.T) {
	line := encoded(t, simple("a", 0, 0))
	head, list, found := strings.Cut(line, messagesKey)
	require.True(t, found)
	want, err := parseEntry([]byte(line))
	require.NoError(t, err)
	require.True(t, want.modelTurn)
	for name, text := range map[string]string{
		"white space":        strings.Replace(head, ",", " , ", 1) + `, "messages": [` + list,
		"messages first":     `{"messages":[` + strings.TrimSuffix(list, "}") + "," + strings.TrimPrefix(head, "{") + "}",
		"a member behind":    strings.TrimSuffix(line, "}") + `,"later":[1]}`,
		"another list first": strings.Replace(head, `"stop_reason"`, `"metadata":{"x":1,"messages":[2]},"stop_reason"`, 1) + messagesKey + list,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseEntry([]byte(text))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

package trajectories

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

func testGroup(step int) Group {
	return Group{Step: step, Sequences: []Sequence{
		{Tokens: []int{1, 2}, Masks: []int{-100, 2}, Score: 1, Messages: []chat.Message{chat.User("say é <b>"), chat.Assistant("é", "")}},
		{Score: -0.5, Messages: []chat.Message{chat.User("say é <b>"), chat.Assistant("I would rather not say that", "")}},
	}}
}

func TestGroupLinesAreGolden(t *testing.T) {
	with, err := AppendGroup(nil, testGroup(0), true)
	require.NoError(t, err)
	without, err := AppendGroup(nil, testGroup(0), false)
	require.NoError(t, err)
	golden(t, "groups.jsonl", []byte(string(with)+"\n"+string(without)+"\n"))
	for _, name := range []string{"tokens", "masks", "scores", "messages"} {
		require.Len(t, gjson.GetBytes(with, name).Array(), 2, name)
	}
	require.False(t, gjson.GetBytes(without, "messages").Exists())
	require.True(t, json.Valid(with))
}

func TestPlaceholderTokensCountCharacters(t *testing.T) {
	for name, c := range map[string]struct {
		messages      []chat.Message
		tokens, masks []int
	}{
		"nothing":    {nil, []int{}, []int{}},
		"too little": {[]chat.Message{chat.User("abc")}, []int{}, []int{}},
		"characters, not bytes, joined by newlines": {[]chat.Message{chat.User("ééé"), chat.User(""), chat.User("éééé")}, []int{0, 1}, []int{-100, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			tokens, masks := PlaceholderTokens(c.messages)
			require.Equal(t, c.tokens, tokens)
			require.Equal(t, c.masks, masks)
		})
	}
	tokens, masks := PlaceholderTokens([]chat.Message{chat.User(strings.Repeat("x", 10_000))})
	require.Len(t, tokens, 128)
	require.Equal(t, 127, tokens[127])
	require.Equal(t, tokens[1:], masks[1:])
	require.Equal(t, -100, masks[0])
}

func TestAGroupThatDoesNotFitTogetherIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		group Group
		want  string
	}{
		"empty":         {Group{}, "no sequences"},
		"negative step": {Group{Step: -1, Sequences: []Sequence{{}}}, "must not be negative"},
		"masks":         {Group{Sequences: []Sequence{{Tokens: []int{1}, Masks: []int{1, 2}}}}, "1 tokens and 2 mask values"},
		"score":         {Group{Sequences: []Sequence{{Score: math.NaN()}}}, "not a finite number"},
		"message":       {Group{Sequences: []Sequence{{Messages: []chat.Message{{}}}}}, "message 0 of sequence 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := AppendGroup(nil, c.group, true)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func openGroups(t *testing.T, run *Run, path string) *GroupWriter {
	t.Helper()
	w, err := run.OpenGroups(GroupConfig{Path: path, IncludeMessages: true})
	require.NoError(t, err)
	return w
}

func TestAGroupFileThatExistsIsNeverTouched(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(base, "deep", "groups.jsonl")
	want := []string{"groups.jsonl", "groups_1.jsonl", "groups_2.jsonl"}
	for i, name := range want {
		dir := filepath.Join(base, "run", name)
		run := mustCreate(t, dir)
		w := openGroups(t, run, path)
		require.Equal(t, filepath.Join(base, "deep", name), w.Path())
		require.NoError(t, w.Write(testGroup(i)))
		require.ErrorIs(t, w.Write(testGroup(i)), ErrDuplicate)
		require.NoError(t, w.Close())
		require.NoError(t, w.Close())
		require.ErrorIs(t, w.Write(testGroup(9)), ErrClosed)
		require.NoError(t, run.Close(StatusInterrupted))
	}
	for i, name := range want {
		run := mustResume(t, filepath.Join(base, "run", name))
		w := openGroups(t, run, path)
		require.Equal(t, filepath.Join(base, "deep", name), w.Path(), "a resumed run goes on in its own file")
		require.True(t, w.Has(i))
		require.False(t, w.Has(i+1))
		require.ErrorIs(t, w.Write(testGroup(i)), ErrDuplicate)
		require.NoError(t, w.Write(testGroup(i+1)))
		require.NoError(t, w.Close())
		require.NoError(t, run.Close(StatusDone))
		require.Len(t, readLines(t, w.Path()), 2)
	}
}

func TestAGroupFileIsMendedOrRefusedOnResume(t *testing.T) {
	line, err := AppendGroup(nil, testGroup(1), true)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(t *testing.T, group, journal string)
		want   string // of the error; "" when it can be mended
		has    bool   // whether the second group is there
		path   string // other than the one asked for
	}{
		"untouched":                        {change: func(*testing.T, string, string) {}, has: true},
		"the last line is torn":            {change: func(t *testing.T, group, _ string) { cutTail(t, group, 10) }},
		"the last line is missing":         {change: func(t *testing.T, group, _ string) { cutTail(t, group, len(line)+1) }},
		"the last line is zeroes":          {change: func(t *testing.T, group, _ string) { zeroTail(t, group, 50) }},
		"the journal is torn":              {change: func(t *testing.T, _, journal string) { appendTo(t, journal, `{"step":2,"sta`) }, has: true},
		"announced but not written":        {change: func(t *testing.T, group, journal string) { appendTo(t, journal, announce(t, group, "x\n")) }, has: true},
		"more than the last line is gone":  {change: func(t *testing.T, group, _ string) { cutTail(t, group, len(line)+2) }, want: "put the file back"},
		"someone else wrote to it":         {change: func(t *testing.T, group, _ string) { appendTo(t, group, "mine\n") }, want: "added to by someone else"},
		"it is gone":                       {change: func(t *testing.T, group, _ string) { require.NoError(t, os.Remove(group)) }, want: "is gone"},
		"the journal is garbage":           {change: func(t *testing.T, _, journal string) { appendTo(t, journal, "garbage\n") }, want: "line 4: not a JSON object"},
		"the journal names no file":        {change: func(t *testing.T, _, journal string) { require.NoError(t, os.WriteFile(journal, nil, 0o644)) }, want: "names no group file"},
		"asked for under another name now": {change: func(*testing.T, string, string) {}, path: "other.jsonl", want: "the run writes its groups to"},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dir, path := filepath.Join(base, "run"), filepath.Join(base, "groups.jsonl")
			run := mustCreate(t, dir)
			w := openGroups(t, run, path)
			require.NoError(t, w.Write(testGroup(0)))
			require.NoError(t, w.Write(testGroup(1)))
			require.NoError(t, w.Close())
			require.NoError(t, run.Close(StatusInterrupted))
			c.change(t, path, filepath.Join(dir, groupsFile))

			run = mustResume(t, dir)
			defer func() { require.NoError(t, run.Close(StatusDone)) }()
			asked := path
			if c.path != "" {
				asked = filepath.Join(base, c.path)
			}
			w, err := run.OpenGroups(GroupConfig{Path: asked, IncludeMessages: true})
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			require.True(t, w.Has(0))
			require.Equal(t, c.has, w.Has(1))
			if !c.has {
				require.NoError(t, w.Write(testGroup(1)))
			}
			require.NoError(t, w.Write(testGroup(2)))
			require.NoError(t, w.Close())
			lines := readLines(t, path)
			require.Len(t, lines, 3)
			require.Equal(t, string(line), lines[1])
		})
	}
}

func announce(t *testing.T, group, line string) string {
	info, err := os.Stat(group)
	require.NoError(t, err)
	intent := groupIntent{step: 2, start: info.Size(), size: int64(len(line)), digest: "0"}
	return string(intent.append(nil)) + "\n"
}

func cutTail(t *testing.T, path string, n int) {
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, info.Size()-int64(n)))
}

func zeroTail(t *testing.T, path string, n int) {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	clear(content[len(content)-n:])
	require.NoError(t, os.WriteFile(path, content, 0o644))
}

func TestAGroupFileNamedButNotYetMadeIsMadeOnResume(t *testing.T) {
	for name, c := range map[string]struct {
		content string // of a file of that name; "" for none
		want    string
	}{
		"nothing there":     {"", "groups.jsonl"},
		"another's content": {"mine\n", "groups_1.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dir, path := filepath.Join(base, "run"), filepath.Join(base, "groups.jsonl")
			run := mustCreate(t, dir)
			require.NoError(t, writeJournal(filepath.Join(dir, groupsFile), path, path, nil))
			if c.content != "" {
				require.NoError(t, os.WriteFile(path, []byte(c.content), 0o644))
			}
			w := openGroups(t, run, path)
			require.Equal(t, filepath.Join(base, c.want), w.Path())
			require.NoError(t, w.Write(testGroup(0)))
			require.NoError(t, w.Close())
			require.NoError(t, run.Close(StatusDone))
			if c.content != "" {
				require.Equal(t, []string{"mine"}, readLines(t, path))
			}
		})
	}
	run := mustCreate(t, t.TempDir())
	_, err := run.OpenGroups(GroupConfig{})
	require.ErrorContains(t, err, "not a path")
	require.NoError(t, run.Append(context.Background(), simple("a", 0, 0)))
	require.NoError(t, run.Close(StatusDone))
}

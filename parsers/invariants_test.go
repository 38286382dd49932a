package parsers

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkInvariants holds for every format and any text whatsoever.
func checkInvariants(t testing.TB, f *Format, text string, tools []Tool) {
	t.Helper()
	whole := f.Parse(text, tools)
	seen := map[string]bool{}
	for _, c := range whole.Calls {
		require.NotEmpty(t, c.Name)
		require.Equal(t, strings.TrimSpace(c.Name), c.Name)
		require.NotEmpty(t, c.ID)
		require.False(t, seen[c.ID], "id %q is given twice", c.ID)
		seen[c.ID] = true
		require.Equal(t, !isObject(c.Arguments), c.InvalidArguments, "flag of arguments %q", c.Arguments)
	}
	if len(whole.Calls) == 0 {
		require.NotNil(t, whole.Content)
		require.Equal(t, text, *whole.Content, "text without calls must come back unchanged")
	} else if whole.Content != nil {
		require.NotEmpty(t, *whole.Content)
		require.Equal(t, strings.TrimSpace(*whole.Content), *whole.Content)
		require.Contains(t, text, *whole.Content)
	}
	random := rand.New(rand.NewPCG(1, uint64(len(text))))
	plans := map[string]func() int{
		"in one piece":     func() int { return len(text) },
		"byte by byte":     func() int { return 1 },
		"in random pieces": func() int { return 1 + random.IntN(17) },
	}
	var told []Event
	for how, size := range plans {
		if len(text) > 1<<16 && how == "byte by byte" {
			continue
		}
		events := streamed(f, text, tools, size)
		got := Assemble(events)
		require.Equal(t, anonymous(f, whole), anonymous(f, got), "streamed %s, of %q", how, text)
		events = condensed(f, events)
		if told == nil {
			told = events
		}
		require.Equal(t, told, events, "events depend on how the text is cut, of %q", text)
	}
}

// isObject is the standard library's opinion.
func isObject(s string) bool {
	return json.Valid([]byte(s)) && strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{")
}

// streamed feeds text in pieces of the given sizes.
func streamed(f *Format, text string, tools []Tool, size func() int) []Event {
	s := f.Stream(tools)
	var events []Event
	for len(text) > 0 {
		n := min(size(), len(text))
		events = append(events, s.Feed(text[:n])...)
		text = text[n:]
	}
	return append(events, s.Finish()...)
}

// anonymous removes the ids that are random.
func anonymous(f *Format, p Parsed) Parsed {
	calls := make([]Call, len(p.Calls))
	for i, c := range p.Calls {
		if f.name != "kimi_k2" {
			c.ID = ""
		}
		calls[i] = c
	}
	p.Calls = calls
	return p
}

// condensed joins deltas that follow each other and removes random ids, so that
// streams can be compared however they were cut.
func condensed(f *Format, events []Event) []Event {
	out := []Event{}
	for _, e := range events {
		if f.name != "kimi_k2" {
			e.ID = ""
		}
		if e.Parsed != nil {
			p := anonymous(f, *e.Parsed)
			e.Parsed = &p
		}
		if n := len(out); n > 0 && out[n-1].Kind == e.Kind && out[n-1].Index == e.Index &&
			(e.Kind == ContentDelta || e.Kind == ArgsDelta) {
			out[n-1].Text += e.Text
			continue
		}
		out = append(out, e)
	}
	return out
}

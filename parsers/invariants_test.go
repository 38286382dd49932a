package parsers

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// reporter is what the checks need of a test, a fuzz target or a property.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkInvariants holds for every format and any text whatsoever: nothing is
// lost, flags are true, ids differ, and a stream says the same as Parse however
// the text is cut. It avoids testify because fuzzing calls it all the time.
func checkInvariants(t reporter, f *Format, text string, tools []Tool) {
	t.Helper()
	whole := f.Parse(text, tools)
	checkParsed(t, text, whole)
	random := rand.New(rand.NewPCG(1, uint64(len(text))))
	plans := []struct {
		how  string
		size func() int
	}{
		{"in one piece", func() int { return len(text) }},
		{"byte by byte", func() int { return 1 }},
		{"in random pieces", func() int { return 1 + random.IntN(17) }},
	}
	want := anonymous(f, whole)
	var told []Event
	for i, plan := range plans {
		if len(text) > 1<<16 && i == 1 {
			continue
		}
		events := streamed(f, text, tools, plan.size)
		if got := anonymous(f, Assemble(events)); !reflect.DeepEqual(want, got) {
			t.Fatalf("%s streamed %s says\n%s\nbut parsed whole\n%s\nof %q", f.name, plan.how, dump(got), dump(want), text)
		}
		if utf8.ValidString(text) {
			checkRunes(t, events)
		}
		events = condensed(f, events)
		if i == 0 {
			told = events
		} else if !reflect.DeepEqual(told, events) {
			t.Fatalf("%s tells %s\n%s\nbut in one piece\n%s\nof %q", f.name, plan.how, dump(events), dump(told), text)
		}
	}
}

// checkParsed checks one result against the text it came from.
func checkParsed(t reporter, text string, p Parsed) {
	t.Helper()
	for i, c := range p.Calls {
		switch {
		case c.Name == "" || strings.TrimSpace(c.Name) != c.Name:
			t.Fatalf("name %q of %q", c.Name, text)
		case c.ID == "" || slices.ContainsFunc(p.Calls[:i], func(o Call) bool { return o.ID == c.ID }):
			t.Fatalf("id %q of call %d of %q", c.ID, i, text)
		case isObject(c.Arguments) == c.InvalidArguments:
			t.Fatalf("arguments %q are flagged invalid=%v, of %q", c.Arguments, c.InvalidArguments, text)
		}
	}
	switch {
	case p.Calls == nil:
		t.Fatalf("calls are null, of %q", text)
	case len(p.Calls) == 0 && (p.Content == nil || *p.Content != text):
		t.Fatalf("text without calls must come back unchanged: %q", text)
	case len(p.Calls) > 0 && p.Content != nil:
		if c := *p.Content; c == "" || strings.TrimSpace(c) != c || !isLeftOf(c, text) {
			t.Fatalf("content %q of %q", c, text)
		}
	}
}

// checkRunes checks that no piece of valid text is cut inside a rune.
func checkRunes(t reporter, events []Event) {
	t.Helper()
	for _, e := range events {
		if !utf8.ValidString(e.Text) {
			t.Fatalf("a %s event is cut inside a rune: %q", e.Kind, e.Text)
		}
	}
}

// isLeftOf reports whether content is text with pieces taken out, joined by
// newlines where necessary.
func isLeftOf(content, text string) bool {
	for i := range len(content) {
		if content[i] == '\n' {
			continue
		}
		at := strings.IndexByte(text, content[i])
		if at < 0 {
			return false
		}
		text = text[at+1:]
	}
	return true
}

func dump(v any) string {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(b)
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

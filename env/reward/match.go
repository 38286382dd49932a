package reward

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/reward/rowtext"
	"github.com/hermes-env/hermes-env/internal/textutil"
)

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// matcher compares the final answer with a reference.
type matcher struct {
	field             string
	compare           string // exact, normalized or numeric; "" for a pattern alone
	answer, reference extractor
	pattern           *regexp.Regexp // type regex
	dropReasoning     bool
	tolerance         Tolerance
	extract, tag      string // how answer finds its part; tag is the name of it
}

func newMatcher(p Part) (*matcher, error) {
	m := &matcher{field: p.ReferenceField, compare: p.Type, tolerance: Tolerance{p.AbsoluteTolerance, p.RelativeTolerance}, extract: p.Extract, tag: p.ExtractPattern}
	var err error
	if m.answer, err = newExtractor(p.Extract, p.ExtractPattern); err != nil {
		return nil, fmt.Errorf("extract: %w", err)
	}
	if m.reference, err = newExtractor(p.ReferenceExtract, p.ReferencePattern); err != nil {
		return nil, fmt.Errorf("reference_extract: %w", err)
	}
	if p.Type == TypeRegex {
		if m.pattern, err = compile(p.Pattern); err != nil {
			return nil, fmt.Errorf("pattern: %w", err)
		}
		if m.compare = p.Compare; m.field == "" {
			m.compare = ""
		}
	}
	switch p.AnswerReasoning {
	case "drop":
		m.dropReasoning = true
	case "", "auto":
		m.dropReasoning = m.compare != ""
	}
	return m, nil
}

// references returns the right answers of a row, each usable for the comparison.
func (m *matcher) references(row []byte) ([]string, error) {
	if m.field == "" {
		return nil, nil
	}
	v, ok := rowtext.Lookup(row, m.field)
	if !ok {
		return nil, fmt.Errorf("reference_field: %w", &rowtext.MissingError{Path: m.field, Columns: rowtext.Columns(row)})
	}
	values := []gjson.Result{v}
	if v.IsArray() {
		values = v.Array()
	}
	var list []string
	for _, v := range values {
		text := v.Raw
		switch {
		case v.Type == gjson.Null || v.IsObject() || v.IsArray():
			return nil, fmt.Errorf("reference_field: %w", &rowtext.TypeError{Path: m.field, Want: "text, a number or a list of them", Got: rowtext.Describe(v)})
		case v.Type == gjson.String:
			text = v.String()
		}
		part, ok := m.reference(text)
		if !ok {
			return nil, fmt.Errorf("reference_extract finds nothing in %q", m.field)
		}
		if m.compare == TypeNumeric {
			if _, ok := LastNumber(part); !ok {
				return nil, fmt.Errorf("there is no number in the reference %q: %s", m.field, textutil.Quote(part, 60))
			}
		}
		list = append(list, part)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the list of references in %q is empty", m.field)
	}
	return list, nil
}

// right returns an answer that the reference of a row makes right; ok is false where the
// form of answers is a pattern.
func (m *matcher) right(row []byte) (answer string, ok bool) {
	references, err := m.references(row)
	if err != nil || len(references) == 0 || m.pattern != nil {
		return "", false
	}
	switch m.extract {
	case "", "whole", "last_line":
		return references[0], true
	case "boxed":
		return `\boxed{` + references[0] + "}", true
	case "tag":
		return "<" + m.tag + ">" + references[0] + "</" + m.tag + ">", true
	}
	return "", false
}

func (m *matcher) check(row []byte) error {
	_, err := m.references(row)
	return err
}

func (m *matcher) score(_ context.Context, in Input) (result, error) {
	references, err := m.references(in.Row)
	if err != nil {
		return result{}, err
	}
	details := chat.Object{}
	text := in.Result.FinalText()
	if m.dropReasoning {
		text = withoutReasoning(text)
	}
	answer, found := m.answer(text)
	if found && m.pattern != nil {
		if m.field == "" {
			found = m.pattern.MatchString(answer)
		} else {
			answer, found = lastMatch(m.pattern, answer)
		}
	}
	if !found {
		details.Set("note", chat.AppendString(nil, "no answer found in the last message"))
		return result{score: 0, details: details}, nil
	}
	details.Set("answer", chat.AppendString(nil, textutil.Shorten(answer, 500)))
	if m.field == "" {
		return result{score: 1, details: details}, nil
	}
	for _, reference := range references {
		if m.equal(answer, reference) {
			return result{score: 1, details: details}, nil
		}
	}
	details.Set("reference", chat.AppendString(nil, textutil.Shorten(references[0], 500)))
	return result{score: 0, details: details}, nil
}

func (m *matcher) equal(answer, reference string) bool {
	switch m.compare {
	case TypeNormalized:
		return Normalize(answer) == Normalize(reference)
	case TypeNumeric:
		a, ok := LastNumber(answer)
		b, there := LastNumber(reference)
		return ok && there && equalNumbers(a, b, m.tolerance)
	}
	return strings.TrimSpace(answer) == strings.TrimSpace(reference)
}

func (m *matcher) close() error { return nil }

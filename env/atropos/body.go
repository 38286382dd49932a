package atropos

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// ErrNotUTF8 is returned for bodies that aren't text, for example because they
// are packed in a way the server doesn't know.
var ErrNotUTF8 = errors.New("the body is not UTF-8 text")

// Incoming is a group as it was posted, checked and in the form it is stored in:
// compact JSON with the 14 fields in their order, absent ones null.
type Incoming struct {
	Parts     [][]byte // the JSON, in pieces
	Sequences int64
	Tokens    int64
	Longest   int64  // tokens of the longest sequence
	EnvID     *int64 // the sender, clamped to 64 bits

	shape shapes
}

// Size is the length of the JSON in bytes.
func (g *Incoming) Size() int64 {
	var n int64
	for _, p := range g.Parts {
		n += int64(len(p))
	}
	return n
}

// shapes are the lengths found in a group, for comparison. Nil stands for null.
type shapes struct {
	lengths [fieldCount]*lengths
}

// lengths are those of one field: its elements, and what each of them holds.
type lengths struct {
	n    int
	each []int32 // positions per sequence; nil where elements are no lists
	deep uint64  // a digest of the lengths inside the positions
}

// Fields of a group, in the order of the wire.
const (
	fieldTokens = iota
	fieldMasks
	fieldScores
	fieldAdvantages
	fieldRefLogprobs
	fieldMessages
	fieldGenerationParams
	fieldInferenceLogprobs
	fieldOverrides
	fieldGroupOverrides
	fieldImages
	fieldEnvID
	fieldDistillTokenIDs
	fieldDistillLogprobs
	fieldCount
)

func fieldName(i int) string {
	return [fieldCount]string{"tokens", "masks", "scores", "advantages", "ref_logprobs", "messages", "generation_params",
		"inference_logprobs", "overrides", "group_overrides", "images", "env_id", "distill_token_ids", "distill_logprobs"}[i]
}

func fieldIndex(key []byte) int {
	for i := range fieldCount {
		if string(key) == fieldName(i) {
			return i
		}
	}
	return -1
}

// DecodeGroup reads the body of /scored_data. The error is an *InvalidError, or
// ErrNotUTF8.
func (r Rules) DecodeGroup(body []byte) (*Incoming, error) {
	s, err := r.start(body)
	if err != nil {
		return nil, err
	}
	s.out = make([]byte, 0, len(body)+len(body)/16)
	var problems []Problem
	group, err := s.group(nil, &problems)
	return finish(s, group, problems, err)
}

// DecodeGroups reads the body of /scored_data_list. One group that is wrong is an
// error for all.
func (r Rules) DecodeGroups(body []byte) ([]*Incoming, error) {
	s, err := r.start(body)
	if err != nil {
		return nil, err
	}
	s.out = make([]byte, 0, len(body)+len(body)/16)
	var problems []Problem
	groups := []*Incoming{}
	_, err = s.list(func(i int) error {
		group, err := s.group([]string{strconv.Itoa(i)}, &problems)
		groups = append(groups, group)
		return err
	})
	return finish(s, groups, problems, err)
}

func (r Rules) start(body []byte) (*scanner, error) {
	if !utf8.Valid(body) {
		return nil, ErrNotUTF8
	}
	if len(body) >= 3 && string(body[:3]) == "\ufeff" {
		body = body[3:]
	}
	s := &scanner{in: body, lax: r.AcceptImpossible}
	s.space()
	return s, nil
}

// finish checks that nothing follows and turns what went wrong into one error.
func finish[T any](s *scanner, value T, problems []Problem, err error) (T, error) {
	var none T
	if err == nil {
		s.space()
		if s.i < len(s.in) {
			err = s.syntax("Extra data")
		}
	}
	problems = append(problems, s.repeats...)
	var syntax *syntaxError
	var wrong *typeError
	switch {
	case errors.As(err, &syntax):
		return none, invalid("json_invalid", "JSON decode error: "+syntax.msg, strconv.Itoa(syntax.at))
	case errors.As(err, &wrong):
		return none, invalid(wrong.kind, wrong.msg)
	case err != nil:
		return none, err
	case len(problems) > 0:
		return none, &InvalidError{problems[:min(len(problems), maxProblems)]}
	}
	return value, nil
}

// group reads one group. Wrong fields go to problems, so that all are reported.
func (s *scanner) group(at []string, problems *[]Problem) (*Incoming, error) {
	s.space()
	g := &Incoming{}
	var found [fieldCount][2]int // where each field's value lies in out; both 0 when it is absent
	var shape shapes
	seen := [fieldCount]bool{}
	report := func(field int, kind, msg string, path []int) {
		loc := append(append([]string{}, at...), fieldName(field))
		for k := len(path) - 1; k >= 0; k-- {
			loc = append(loc, strconv.Itoa(path[k]))
		}
		*problems = append(*problems, Problem{Type: kind, Loc: loc, Msg: msg})
	}
	if s.peek() != '{' {
		if err := s.value(0); err != nil {
			return nil, err
		}
		*problems = append(*problems, Problem{Type: "model_attributes_type", Loc: at, Msg: "Input should be a valid dictionary or object to extract fields from"})
		return g, nil
	}
	s.at = append(slices.Clone(at), "")
	err := s.object(func(key []byte) error {
		field := fieldIndex(key)
		s.at = append(slices.Clone(at), string(key))
		if field < 0 {
			return s.value(1)
		}
		from, first := s.i, s.begin()
		seen[field] = true
		held, err := s.field(field)
		s.end()
		var wrong *typeError
		if errors.As(err, &wrong) {
			report(field, wrong.kind, wrong.msg, wrong.path)
			s.out, s.i = s.out[:first], from
			return s.skip()
		}
		if err != nil {
			return err
		}
		found[field] = [2]int{first, len(s.out)}
		shape.lengths[field] = held
		if field == fieldEnvID {
			g.EnvID = clamp(s.out[first:])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, field := range []int{fieldTokens, fieldMasks, fieldScores} {
		if !seen[field] {
			report(field, "missing", "Field required", nil)
		}
	}
	s.assemble(g, found)
	if tokens := shape.lengths[fieldTokens]; tokens != nil {
		g.Sequences = int64(tokens.n)
		for _, n := range tokens.each {
			g.Tokens += int64(n)
			g.Longest = max(g.Longest, int64(n))
		}
	}
	g.shape = shape
	return g, nil
}

// assemble puts the fields in their order. The pieces share the scanner's memory.
func (s *scanner) assemble(g *Incoming, found [fieldCount][2]int) {
	separator := byte('{')
	for i, place := range found {
		key := make([]byte, 0, 24)
		key = append(key, separator, '"')
		key = append(key, fieldName(i)...)
		key = append(key, `":`...)
		separator = ','
		value := s.out[place[0]:place[1]]
		if len(value) == 0 {
			key = append(key, "null"...)
			g.Parts = append(g.Parts, key)
			continue
		}
		g.Parts = append(g.Parts, key, value)
	}
	g.Parts = append(g.Parts, []byte{'}'})
}

// clamp returns the integer written in text, or nil for null. An integer of more
// than 64 bits becomes the nearest one that has them.
func clamp(text []byte) *int64 {
	if string(text) == "null" {
		return nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		n = math.MaxInt64
		if text[0] == '-' {
			n = math.MinInt64
		}
	}
	return &n
}

// field reads the value of one field and returns its lengths.
func (s *scanner) field(field int) (*lengths, error) {
	if field > fieldScores && s.null() {
		return nil, nil
	}
	held := &lengths{}
	var err error
	switch field {
	case fieldTokens, fieldMasks:
		s.ids, s.masks = !s.lax, field == fieldMasks
		held.n, err = s.list(held.row(s.ints))
		s.ids = false
	case fieldScores:
		held.n, err = s.floats()
	case fieldAdvantages, fieldRefLogprobs, fieldInferenceLogprobs:
		held.n, err = s.list(held.row(s.floats))
	case fieldMessages:
		held.n, err = s.list(func(int) error {
			_, err := s.list(func(int) error { return s.message() })
			return err
		})
	case fieldOverrides:
		held.n, err = s.list(func(int) error { return s.dictionary() })
	case fieldGenerationParams, fieldGroupOverrides:
		return nil, s.dictionary()
	case fieldImages:
		return nil, s.value(1)
	case fieldEnvID:
		return nil, s.integer()
	case fieldDistillTokenIDs:
		s.ids, s.masks = !s.lax, false
		held.n, err = s.list(held.row(held.deeper(s, s.ints)))
		s.ids = false
	case fieldDistillLogprobs:
		held.n, err = s.list(held.row(held.deeper(s, s.floats)))
	}
	return held, err
}

// row wraps a reader of lists so that their lengths are kept.
func (l *lengths) row(read func() (int, error)) func(int) error {
	return func(int) error {
		n, err := read()
		l.each = append(l.each, int32(min(n, math.MaxInt32)))
		return err
	}
}

// deeper wraps a reader of lists into one of lists of them.
func (l *lengths) deeper(s *scanner, read func() (int, error)) func() (int, error) {
	return func() (int, error) {
		return s.list(func(int) error {
			n, err := read()
			l.deep = (l.deep ^ uint64(n+1)) * 0x100000001b3
			return err
		})
	}
}

func (s *scanner) dictionary() error {
	if s.peek() != '{' {
		if err := s.value(1); err != nil {
			return err
		}
		return &typeError{kind: "dict_type", msg: "Input should be a valid dictionary"}
	}
	return s.value(1)
}

// message walks over one turn of a conversation.
func (s *scanner) message() error {
	if s.peek() != '{' {
		return s.dictionary()
	}
	var role, content bool
	err := s.object(func(key []byte) error {
		switch string(key) {
		case "role":
			role = true
		case "content":
			content = true
		}
		return s.value(2)
	})
	if err == nil && !(role && content) {
		return &typeError{kind: "value_error", msg: "Value error, Message must have 'role' and 'content' fields"}
	}
	return err
}

// Check says whether the lengths in a group fit each other: every list that is not
// empty has one element per sequence, and every one that goes by position has one
// per token. An empty optional list counts as absent.
func (g *Incoming) Check() error {
	tokens := g.shape.lengths[fieldTokens]
	if tokens == nil || tokens.n == 0 {
		return invalid("ragged", "The group has no sequences", "tokens")
	}
	for field, held := range g.shape.lengths {
		if held == nil || field == fieldTokens || held.n == 0 && field > fieldScores {
			continue
		}
		if held.n != tokens.n {
			return invalid("ragged", fmt.Sprintf("The list has %d elements and tokens has %d: there must be one per sequence", held.n, tokens.n), fieldName(field))
		}
		for i, n := range held.each {
			if n != tokens.each[i] {
				return invalid("ragged", fmt.Sprintf("The list has %d elements and the sequence has %d tokens: there must be one per token", n, tokens.each[i]), fieldName(field), strconv.Itoa(i))
			}
		}
	}
	ids, logprobs := g.shape.lengths[fieldDistillTokenIDs], g.shape.lengths[fieldDistillLogprobs]
	if ids != nil && logprobs != nil && ids.n > 0 && logprobs.n > 0 && ids.deep != logprobs.deep {
		return invalid("ragged", "The lists have other lengths than those of distill_token_ids", fieldName(fieldDistillLogprobs))
	}
	return nil
}

package convert

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories/textfilter"
)

// EvaluationSet says what was found of an evaluation set.
type EvaluationSet struct {
	Path  string `json:"path"`
	Rows  int    `json:"rows"`  // it has
	Short int    `json:"short"` // rows whose texts are too short to be looked for
	Found int    `json:"found"` // rows of which something was found
	Left  int64  `json:"left_out"`

	first int // number of its first row over all sets
}

// evaluationSets is what rows must not contain.
type evaluationSets struct {
	index  *textfilter.Overlaps
	sets   []EvaluationSet
	files  []string
	places []place // of each row
	found  []bool  // by row
	common int     // n-grams that are instructions
}

// place is where a row was read.
type place struct{ file, line uint32 }

// of returns the set that a row belongs to.
func (s *evaluationSets) of(row int) *EvaluationSet {
	return &s.sets[sort.Search(len(s.sets), func(i int) bool { return s.sets[i].first > row })-1]
}

// readEvaluationSets reads the files of a filter; nil if it has none. A row that can't be
// read is an error: what is not read would not be found.
func readEvaluationSets(ctx context.Context, f *TextFilter) (*evaluationSets, error) {
	if len(f.Decontaminate) == 0 {
		return nil, nil
	}
	s := &evaluationSets{index: textfilter.NewOverlaps(textfilter.OverlapConfig{Words: f.DecontaminateWords, Share: f.DecontaminateShare})}
	for _, path := range f.Decontaminate {
		info, err := os.Stat(path)
		if err != nil {
			return nil, usage("--decontaminate: %w", err)
		}
		files := []string{path}
		if info.IsDir() {
			if files, err = FilesIn(path); err != nil {
				return nil, usage("--decontaminate: %w", err)
			}
		}
		set := EvaluationSet{Path: path, first: len(s.places)}
		for _, file := range files {
			if err := s.read(ctx, file, f.DecontaminateFields, &set); err != nil {
				return nil, err
			}
		}
		if set.Short == set.Rows {
			return nil, usage("--decontaminate %s: none of its %d rows has a text of %d words or more to look for%s", path, set.Rows, textfilter.MinOverlapWords, fieldsHint(f.DecontaminateFields))
		}
		s.sets = append(s.sets, set)
	}
	s.common = s.index.Finish()
	s.found = make([]bool, len(s.places))
	return s, nil
}

func fieldsHint(fields []string) string {
	if len(fields) == 0 {
		return ""
	}
	return fmt.Sprintf(" in the members %q", fields)
}

func (s *evaluationSets) read(ctx context.Context, file string, fields []string, set *EvaluationSet) error {
	number := uint32(len(s.files))
	s.files = append(s.files, file)
	var progress atomic.Int64
	add := func(line int64, texts []string) {
		s.places = append(s.places, place{number, uint32(line)})
		set.Rows++
		if s.index.Add(texts) == 0 {
			set.Short++
		}
	}
	err := eachRecord(ctx, file, &progress, func(r record) error {
		switch {
		case r.err != nil:
			return fmt.Errorf("row %d: %w", r.number, r.err)
		case r.tooLong:
			return fmt.Errorf("row %d is longer than %d MiB", r.number, maxLine>>20)
		case !chat.Valid(r.text):
			return fmt.Errorf("row %d: not valid JSON", r.number)
		case isList(r.text): // a document that holds all rows
			chat.EachElement(r.text, func(item []byte) bool {
				add(r.number, evaluationTexts(item, fields))
				return true
			})
			return nil
		}
		add(r.number, evaluationTexts(r.text, fields))
		return ctx.Err()
	})
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return usage("--decontaminate %s: %w", file, err)
	}
	return nil
}

// evaluationTexts are the texts of a row that rows must not contain: those of the given
// members, else the user's messages of a conversation, else all texts.
func evaluationTexts(raw []byte, fields []string) (texts []string) {
	var collect func(v gjson.Result)
	collect = func(v gjson.Result) {
		switch {
		case v.Type == gjson.String:
			texts = append(texts, v.Str)
		case v.IsArray() || v.IsObject():
			v.ForEach(func(_, member gjson.Result) bool {
				collect(member)
				return true
			})
		}
	}
	if len(fields) > 0 {
		v := gjson.ParseBytes(raw)
		v.ForEach(func(key, member gjson.Result) bool {
			if slices.Contains(fields, key.String()) {
				collect(member)
			}
			return true
		})
		return texts
	}
	if isObject(raw) {
		if format, err := detect(membersOf(raw)); err == nil {
			d := &decoder{}
			if _, rows, err := d.decode("", record{text: bytes.Clone(raw)}); err == nil && format != Groups {
				for _, m := range rows[0].Messages {
					if m.Role() == chat.RoleUser {
						texts = append(texts, m.Text())
					}
				}
				return texts
			}
		}
	}
	collect(gjson.ParseBytes(raw))
	return texts
}

// take notes which evaluation rows were found in a row.
func (s *evaluationSets) take(found []textfilter.Overlap) {
	var last *EvaluationSet
	for _, o := range found {
		set := s.of(o.Row)
		if !s.found[o.Row] {
			s.found[o.Row] = true
			set.Found++
		}
		if set != last { // overlaps come in the order of rows
			set.Left++
			last = set
		}
	}
}

package prompts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/hermes-env/hermes-env/env/dataset"
)

// source reads the rows of one dataset as items.
type source struct {
	data    *dataset.Dataset
	own     Config
	seed    int64
	check   func(row []byte) error // what keeps a row from being used
	skipped *skippedRows
	keyless bool // items without keys, to be counted; not with own.Shuffle
}

// items yields the usable rows in the configured order. Positions and offsets count all rows that could be read.
func (s *source) items(ctx context.Context) iter.Seq2[namedRow, error] {
	return func(yield func(namedRow, error) bool) {
		s.skipped.begin()
		var rows iter.Seq2[namedRow, error]
		switch field := cmp.Or(s.own.IDField, defaultIDField); {
		case s.keyless:
			rows = s.unnamed(ctx)
		case s.own.Shuffle:
			// Rows of the same content need different keys to be put in an order.
			rows = named(shuffled(ctx, s.data.Keyed(ctx), s.seed), field)
		default:
			rows = named(s.digested(ctx), field)
		}
		var seen, taken int64
		var last error
		for row, err := range rows {
			if err != nil {
				yield(namedRow{}, advise(err))
				return
			}
			if seen++; seen <= s.own.Offset {
				continue
			}
			if s.own.MaxRows > 0 && taken == s.own.MaxRows {
				return
			}
			if err := s.check(row.Data); err != nil {
				last = fmt.Errorf("%s, row %d: %w", s.data.Info().Name, row.Position+1, err)
				if s.own.OnBadRow != dataset.BadRowSkips {
					yield(namedRow{}, fmt.Errorf("%w (env.on_bad_row: skip leaves such rows out)", last))
					return
				}
				s.skipped.add(s.data.Info().Name, 0, row.Position+1, err)
				continue
			}
			taken++
			if !yield(row, nil) {
				return
			}
		}
		switch {
		case taken > 0:
		case last != nil:
			yield(namedRow{}, fmt.Errorf("none of the rows can be used; the last problem: %w", last))
		case s.own.Offset > 0:
			yield(namedRow{}, fmt.Errorf("env.offset %d leaves out all %d rows of %s: %w", s.own.Offset, seen, s.data.Info().Name, dataset.ErrEmpty))
		default:
			yield(namedRow{}, errors.New("the dataset has no rows"))
		}
	}
}

// unnamed yields the rows without keys and names.
func (s *source) unnamed(ctx context.Context) iter.Seq2[namedRow, error] {
	return func(yield func(namedRow, error) bool) {
		for row, err := range s.data.Rows(ctx) {
			if !yield(namedRow{KeyedRow: dataset.KeyedRow{Row: row}}, err) {
				return
			}
		}
	}
}

// digested yields the rows with their digests for keys: those of the same content have the same.
func (s *source) digested(ctx context.Context) iter.Seq2[dataset.KeyedRow, error] {
	return func(yield func(dataset.KeyedRow, error) bool) {
		for row, err := range s.data.Rows(ctx) {
			keyed := dataset.KeyedRow{Row: row}
			if err == nil {
				keyed.Key = row.Digest()
			}
			if !yield(keyed, err) {
				return
			}
		}
	}
}

// advise adds which settings let a row that can't be read pass.
func advise(err error) error {
	var problem *dataset.Problem
	if !errors.As(err, &problem) || !problem.Skippable {
		return err
	}
	if errors.Is(err, dataset.ErrRowTooLarge) {
		return fmt.Errorf("%w (env.max_row_bytes is the limit; env.on_bad_row: skip leaves such rows out)", err)
	}
	return fmt.Errorf("%w (env.on_bad_row: skip leaves such rows out)", err)
}

package env

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"slices"

	"github.com/hermes-env/hermes-env/env/config"
)

// maxSampled bounds how many items a sample is drawn from, so that items without an end
// are found out.
const maxSampled = 10_000_000

// Subset is a part of an environment's items; the zero value is all of them.
type Subset struct {
	Limit  int   // the first items; 0 is no limit
	Sample int   // items drawn at random, in the order of the environment; 0 draws none
	Seed   int64 // of the draw
}

// SubsetOf returns the part of the items that a configuration asks for.
func SubsetOf(c config.Env) Subset {
	return Subset{Limit: c.MaxItems, Sample: c.SampleItems, Seed: c.Seed}
}

// size returns how many of n items are taken; n is -1 where that is unknown.
func (s Subset) size(n int) int {
	most := cmp.Or(s.Limit, s.Sample)
	if most == 0 || n >= 0 && n < most {
		return n
	}
	if n < 0 {
		return -1
	}
	return most
}

// Bound returns how many items there are at most; 0 is no bound.
func (s Subset) Bound() int { return cmp.Or(s.Limit, s.Sample) }

// items yields the subset of the items of a mode. In serve the items begin anew after the
// last one, for as long as the trainer wants groups.
func (s Subset) items(ctx context.Context, e Environment, mode config.Mode) iter.Seq2[Item, error] {
	if s.Bound() == 0 {
		return items(ctx, e, mode)
	}
	if mode != config.Serve {
		return s.of(items(ctx, e, mode), s.repeatable(e, mode))
	}
	return func(yield func(Item, error) bool) {
		var list []Item
		for item, err := range s.of(onePass(ctx, e), false) {
			if !yield(item, err) || err != nil {
				return
			}
			list = append(list, item)
		}
		if len(list) == 0 {
			yield(Item{}, errors.New("there are no items"))
			return
		}
		_, keyed := e.(ContentKeyed)
		for pass := 2; ; pass++ {
			for _, item := range list {
				if keyed {
					item.ID = fmt.Sprintf("%s@%d", item.ID, pass)
				}
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// repeatable reports whether the items of a mode can be gone through twice.
func (s Subset) repeatable(e Environment, mode config.Mode) bool {
	_, ok := e.(Evaluator)
	return ok && mode == config.Evaluate
}

// onePass yields the items of NextItem up to their end, or until the first comes again.
func onePass(ctx context.Context, e Environment) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		first := ""
		for n := 0; ; n++ {
			item, err := e.NextItem(ctx)
			switch {
			case errors.Is(err, io.EOF):
				return
			case n == 0:
				first = item.ID
			case err == nil && item.ID == first:
				return
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// of yields the subset of some items. Items that are not repeatable are kept while a
// sample is drawn from them, as far as they are in it.
func (s Subset) of(all iter.Seq2[Item, error], repeatable bool) iter.Seq2[Item, error] {
	if s.Sample == 0 {
		return func(yield func(Item, error) bool) {
			n := 0
			for item, err := range all {
				if !yield(item, err) || err != nil {
					return
				}
				if n++; n == s.Limit {
					return
				}
			}
		}
	}
	return func(yield func(Item, error) bool) {
		drawn, err := s.draw(all, !repeatable)
		if err != nil {
			yield(Item{}, err)
			return
		}
		if !repeatable {
			slices.SortFunc(drawn, func(a, b ticket) int { return a.position - b.position })
			for _, t := range drawn {
				if !yield(t.item, nil) {
					return
				}
			}
			return
		}
		chosen := make(map[string]bool, len(drawn))
		for _, t := range drawn {
			chosen[t.id] = true
		}
		for item, err := range all {
			if err == nil && !chosen[item.ID] {
				continue
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// ticket is an item in the draw.
type ticket struct {
	draw     uint64
	id       string
	position int
	item     Item // its value, if the items are not repeatable
}

// tickets is a heap with the worst ticket first.
type tickets []ticket

func (t tickets) Len() int           { return len(t) }
func (t tickets) Less(i, j int) bool { return t[j].before(t[i]) }
func (t tickets) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *tickets) Push(x any)        { *t = append(*t, x.(ticket)) }
func (t *tickets) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

func (t ticket) before(other ticket) bool {
	if t.draw != other.draw {
		return t.draw < other.draw
	}
	return t.position < other.position
}

// draw returns the items with the lowest hashes of seed and id, so that a larger sample
// has all items of a smaller one, and an item that is added changes at most one place.
func (s Subset) draw(all iter.Seq2[Item, error], keep bool) (tickets, error) {
	var drawn tickets
	position := 0
	seen := ""
	for item, err := range all {
		if err != nil {
			return nil, err
		}
		if position == 0 {
			seen = item.ID
		} else if item.ID == seen {
			break // the items start over
		}
		if position == maxSampled {
			return nil, fmt.Errorf("env.sample_items draws from all items, and after %d there were still more: use env.max_items", position)
		}
		t := ticket{draw: drawOf(s.Seed, item.ID), id: item.ID, position: position}
		if keep {
			t.item = item
		}
		position++
		if len(drawn) < s.Sample {
			heap.Push(&drawn, t)
		} else if t.before(drawn[0]) {
			drawn[0] = t
			heap.Fix(&drawn, 0)
		}
	}
	return drawn, nil
}

// drawOf is an item's place in the draw.
func drawOf(seed int64, id string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "sample/%d/%s", seed, id)
	x := h.Sum64() // FNV alone orders similar ids alike
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}

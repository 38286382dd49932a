package atropos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Held counts the groups that are taken and not delivered.
func (s *State) Held() Amount {
	held := s.sizes.Amount
	for _, w := range s.Workers {
		held = held.plus(amountOf(w.Buffer))
	}
	for _, b := range s.Batches {
		held = held.plus(amountOf(b.Entries))
	}
	return held
}

func (a Amount) plus(b Amount) Amount {
	return Amount{a.Groups + b.Groups, a.Sequences + b.Sequences, a.Tokens + b.Tokens, a.Bytes + b.Bytes}
}

func amountOf(entries []*Entry) Amount {
	var t Amount
	for _, e := range entries {
		t = t.plus(Amount{1, e.Sequences, e.Tokens, e.Place.Length})
	}
	return t
}

// Info answers /info.
func (s *State) Info() Info {
	if !s.Known {
		return Info{-1, -1}
	}
	return Info{s.Trainer.BatchSize, s.Trainer.MaxTokenLen}
}

// WandbInfo answers /wandb_info.
func (s *State) WandbInfo() WandbInfo {
	if !s.Registered {
		return WandbInfo{}
	}
	group, project := s.Trainer.WandbGroup, s.Trainer.WandbProject
	return WandbInfo{&group, &project}
}

// Status answers /status.
func (s *State) Status() Status {
	if !s.Registered {
		return Status{}
	}
	return Status{s.Step, int64(len(s.Queue))}
}

// isStuck says whether the trainer asked in vain though there are enough sequences.
func (s *State) isStuck() bool { return s.stuck && s.batchable() >= s.Trainer.BatchSize }

// batchable counts the queued sequences that batches are formed of.
func (s *State) batchable() int64 {
	if s.rules.StrictPacking {
		return s.sizes.Sequences
	}
	var total int64
	for size, groups := range s.sizes.bySize {
		if size <= s.Trainer.BatchSize {
			total += size * groups
		}
	}
	return total
}

// whyStuck says why the queue gives no batch, or "" when it does or is too small.
func (s *State) whyStuck(now time.Time) string {
	if !s.isStuck() {
		return ""
	}
	const listed = 8
	var sizes []string
	for _, size := range slices.Sorted(maps.Keys(s.sizes.bySize)) {
		if len(sizes) == listed {
			sizes = append(sizes, "…")
			break
		}
		sizes = append(sizes, fmt.Sprintf("%d of %d", s.sizes.bySize[size], size))
	}
	text := fmt.Sprintf("no groups add up to %d sequences: %s", s.Trainer.BatchSize, strings.Join(sizes, ", "))
	for i, w := range s.Workers {
		if w.MinBatchAllocation != nil && s.alive(int64(i), now) {
			return text + "; minimum allocations have to be met as well"
		}
	}
	return text
}

// Overview describes the state; what the server knows besides is for it to fill in.
func (s *State) Overview(now time.Time) *Overview {
	o := &Overview{Generation: s.Generation, Registered: s.Registered, Started: s.Started, CurrentStep: s.Step, Queue: s.sizes.Amount,
		Batches: []BatchOverview{}, Workers: []WorkerOverview{}}
	if s.Registered {
		trainer := s.Trainer
		o.Trainer = &trainer
		for _, e := range s.Queue {
			if trainer.BatchSize > 0 && e.Sequences > trainer.BatchSize {
				o.Unbatchable = o.Unbatchable.plus(amountOf([]*Entry{e}))
			}
		}
	}
	o.Stuck = s.whyStuck(now)
	for _, b := range s.Batches {
		state := "ready"
		switch {
		case b.Sending > 0:
			state = "sending"
		case b.Sent:
			state = "unacknowledged"
		}
		o.Batches = append(o.Batches, BatchOverview{b.ID, state, b.Sequences()})
		o.Undelivered = o.Undelivered.plus(amountOf(b.Entries))
	}
	for i, w := range s.Workers {
		row := WorkerOverview{EnvID: int64(i), Name: w.Name, Connected: !w.Disconnected, Alive: s.alive(int64(i), now),
			SilentSeconds: now.Sub(s.runtime[i].seen).Seconds(), Weight: w.Weight, MinBatchAllocation: w.MinBatchAllocation,
			GroupSize: w.GroupSize, Buffered: amountOf(w.Buffer), Accepted: s.runtime[i].accepted}
		if t := s.senders[sender{true, int64(i)}]; t != nil {
			row.Queued = t.Amount
		}
		o.Buffered = o.Buffered.plus(row.Buffered)
		o.Workers = append(o.Workers, row)
	}
	return o
}

package atropos

import (
	"math"
	"slices"
)

// A batch is whole groups whose sequences add up to exactly its size. The rules
// below are the original server's, which trainers and workers were built against;
// packing any groups that fit is an addition for queues on which they give nothing.

// queued is what batching looks at: one group of the queue.
type queued struct {
	size   int64
	sender *int64
}

// packs bundles groups of one size until they have exactly largest sequences, and
// returns the indices of all bundled groups, by the moment their bundle was full.
func packs(groups []queued, of func(int) bool, largest int64) []int {
	open := map[int64][]int{}
	var order []int
	for i, g := range groups {
		if !of(i) {
			continue
		}
		same := append(open[g.size], i)
		if int64(len(same))*g.size == largest {
			order = append(order, same...)
			same = nil
		}
		open[g.size] = same
	}
	return order
}

func largestOf(groups []queued) int64 {
	var largest int64
	for _, g := range groups {
		largest = max(largest, g.size)
	}
	return largest
}

// plainBatch returns the indices of the next batch of size sequences, in its
// order, or nil.
func plainBatch(groups []queued, size int64) []int {
	var total int64
	for _, g := range groups {
		total += g.size
	}
	if len(groups) == 0 || total < size {
		return nil
	}
	order := packs(groups, func(int) bool { return true }, largestOf(groups))
	total = 0
	for n, i := range order {
		total += groups[i].size
		switch {
		case total == size:
			return order[:n+1]
		case total > size:
			return nil
		}
	}
	return nil
}

// minimum is a worker's claim on a share of each batch.
type minimum struct {
	sender int64
	share  float64
}

// minimumBatch is plainBatch for queues on which workers have minimum
// allocations, which are given in the order of registration.
func minimumBatch(groups []queued, size int64, minimums []minimum) []int {
	if len(groups) == 0 {
		return nil
	}
	largest := largestOf(groups)
	senders := map[int64]bool{}
	packable := map[int64][]int{}
	bundled := make([]bool, len(groups))
	for _, g := range groups {
		if g.sender == nil || senders[*g.sender] {
			continue
		}
		sender := *g.sender
		senders[sender] = true
		packable[sender] = packs(groups, func(i int) bool { return groups[i].sender != nil && *groups[i].sender == sender }, largest)
		for _, i := range packable[sender] {
			bundled[i] = true
		}
	}
	needs, ok := shares(minimums, size, func(sender int64) (smallest int64, any bool) {
		for _, i := range packable[sender] {
			if !any || groups[i].size < smallest {
				smallest, any = groups[i].size, true
			}
		}
		return smallest, any
	})
	if !ok {
		return nil
	}
	taken := make([]bool, len(groups))
	var batch []int
	var total int64
	take := func(i int) {
		taken[i] = true
		batch = append(batch, i)
		total += groups[i].size
	}
	for _, need := range needs {
		var own int64
		for _, i := range packable[need.sender] {
			if own >= need.sequences {
				break
			}
			if !taken[i] && total+groups[i].size <= size {
				take(i)
				own += groups[i].size
			}
		}
	}
	for i, g := range groups {
		if total == size {
			break
		}
		if bundled[i] && !taken[i] && total+g.size <= size {
			take(i)
		}
	}
	if total != size {
		return nil
	}
	return batch
}

// need is a minimum in sequences of one batch.
type need struct {
	sender    int64
	sequences int64
}

// shares turns minimums into sequences, scaled down when they exceed the batch. It
// is not ok when a worker with a minimum has nothing to give; smallest returns its
// smallest group.
func shares(minimums []minimum, size int64, smallest func(sender int64) (int64, bool)) (needs []need, ok bool) {
	var total int64
	for _, m := range minimums {
		n := truncate(float64(size) * m.share)
		if n <= 0 {
			continue
		}
		if _, any := smallest(m.sender); !any {
			return nil, false
		}
		needs = append(needs, need{m.sender, n})
		total += n
	}
	if total > size {
		factor := float64(size) / float64(total)
		for k := range needs {
			least, _ := smallest(needs[k].sender)
			needs[k].sequences = max(least, truncate(float64(needs[k].sequences)*factor))
		}
	}
	return needs, true
}

func truncate(f float64) int64 {
	if f >= math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return int64(f)
}

// anyBatch takes the oldest groups of any sizes that add up to the batch, after
// what the minimums claim; for queues on which the original rules give nothing. It
// finds a batch if there is one, unless the search would take too much memory.
func anyBatch(groups []queued, size int64, minimums []minimum) []int {
	needs, ok := shares(minimums, size, func(sender int64) (smallest int64, any bool) {
		for _, g := range groups {
			if g.sender != nil && *g.sender == sender && (!any || g.size < smallest) {
				smallest, any = g.size, true
			}
		}
		return smallest, any
	})
	if !ok || size <= 0 {
		return nil
	}
	taken := make([]bool, len(groups))
	var batch []int
	rest := size
	for _, need := range needs {
		var own int64
		for i, g := range groups {
			if own >= need.sequences {
				break
			}
			if g.sender != nil && *g.sender == need.sender && !taken[i] && g.size <= rest {
				taken[i] = true
				batch = append(batch, i)
				own += g.size
				rest -= g.size
			}
		}
	}
	if rest == 0 {
		return batch
	}
	left := candidates(groups, rest, func(i int) bool { return !taken[i] })
	if chosen := subset(sizesOf(groups, left), rest); chosen != nil {
		for _, k := range chosen {
			batch = append(batch, left[k])
		}
		return batch
	}
	if len(needs) == 0 {
		return nil
	}
	return claimedBatch(groups, size, needs)
}

// claimedBatch takes any groups that add up to the batch, preferring those of workers
// with needs, for queues whose oldest groups of these workers don't fit into any batch.
func claimedBatch(groups []queued, size int64, needs []need) []int {
	claims := func(i int) bool {
		sender := groups[i].sender
		return sender != nil && slices.ContainsFunc(needs, func(n need) bool { return n.sender == *sender })
	}
	order := candidates(groups, size, claims)
	order = append(order, candidates(groups, size, func(i int) bool { return !claims(i) })...)
	slices.Reverse(order) // knapsack prefers later elements
	var batch []int
	for _, k := range knapsack(sizesOf(groups, order), size) {
		batch = append(batch, order[k])
	}
	slices.Reverse(batch)
	return batch
}

// candidates returns the oldest groups that may be part of a sum: of each size no more
// than fit into it.
func candidates(groups []queued, target int64, of func(int) bool) []int {
	filled := map[int64]int64{} // sequences by size
	var list []int
	for i, g := range groups {
		if g.size > 0 && of(i) && filled[g.size]+g.size <= target {
			filled[g.size] += g.size
			list = append(list, i)
		}
	}
	return list
}

func sizesOf(groups []queued, indices []int) []int64 {
	sizes := make([]int64, len(indices))
	for k, i := range indices {
		sizes[k] = groups[i].size
	}
	return sizes
}

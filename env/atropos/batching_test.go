package atropos

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSubsetsOfTheBuffer(t *testing.T) {
	ones := make([]int64, 16)
	for i := range ones {
		ones[i] = 1
	}
	for _, c := range []struct {
		sizes  []int64
		target int64
		want   []int
	}{
		{[]int64{1, 2, 1}, 4, []int{0, 1, 2}},
		{[]int64{2, 2, 4}, 4, []int{0, 1}},
		{[]int64{3, 1, 4}, 5, []int{1, 2}},
		{[]int64{2, 4}, 3, nil},
		{nil, 4, nil},
		{[]int64{4}, 4, []int{0}},
		{[]int64{2, 2, 2, 2}, 8, []int{0, 1, 2, 3}},
		{[]int64{16, 8, 8}, 32, []int{0, 1, 2}},
		{[]int64{2, 2, 4, 2, 2}, 4, []int{0, 1}},
		{[]int64{2, 4, 2, 1}, 6, []int{0, 1}},
		{ones, 8, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{[]int64{3, 2, 1}, 4, []int{0, 2}},
		{[]int64{5}, 4, nil},
		{[]int64{0, 3, 2, 2}, 4, []int{0, 2, 3}},
	} {
		require.Equal(t, c.want, subset(c.sizes, c.target), "%v %d", c.sizes, c.target)
	}
}

// literalSubset is the specification's search, word by word.
func literalSubset(sizes []int64, target int64) []int {
	var total int64
	var taken []int
	for i, s := range sizes {
		if total+s <= target {
			total += s
			taken = append(taken, i)
			if total == target {
				return taken
			}
		}
	}
	reach := make([]map[int64]bool, len(sizes)+1)
	reach[0] = map[int64]bool{0: true}
	for i, s := range sizes {
		reach[i+1] = map[int64]bool{}
		for sum := range reach[i] {
			reach[i+1][sum] = true
			reach[i+1][sum+s] = true
		}
	}
	if !reach[len(sizes)][target] {
		return nil
	}
	var back []int
	rest := target
	for i := len(sizes) - 1; i >= 0; i-- {
		if reach[i][rest-sizes[i]] {
			back = append([]int{i}, back...)
			rest -= sizes[i]
		}
	}
	return back
}

func TestSubsetsAreThoseOfTheSpecification(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 70), 0, 12).Draw(t, "sizes")
		target := rapid.Int64Range(1, 200).Draw(t, "target")
		require.Equal(t, literalSubset(sizes, target), subset(sizes, target))
	})
}

// literalPacks are the packs of one list of groups, word by word.
func literalPacks(groups []queued, of []int, largest int64) []int {
	open := map[int64][]int{}
	var order []int
	for _, i := range of {
		n := groups[i].size
		open[n] = append(open[n], i)
		if int64(len(open[n]))*n == largest {
			order = append(order, open[n]...)
			open[n] = nil
		}
	}
	return order
}

func literalPlain(groups []queued, b int64) []int {
	var total, m int64
	var all []int
	for i, g := range groups {
		total += g.size
		m = max(m, g.size)
		all = append(all, i)
	}
	if len(groups) == 0 || total < b {
		return nil
	}
	order := literalPacks(groups, all, m)
	var batch []int
	var sum int64
	for _, i := range order {
		batch = append(batch, i)
		sum += groups[i].size
		if sum == b {
			return batch
		}
		if sum > b {
			return nil
		}
	}
	return nil
}

func literalMinimum(groups []queued, b int64, minimums []minimum) []int {
	if len(groups) == 0 {
		return nil
	}
	var m int64
	of := map[int64][]int{}
	for i, g := range groups {
		m = max(m, g.size)
		if g.sender != nil {
			of[*g.sender] = append(of[*g.sender], i)
		}
	}
	packable := map[int64][]int{}
	isPackable := map[int]bool{}
	for id, list := range of {
		packable[id] = literalPacks(groups, list, m)
		for _, i := range packable[id] {
			isPackable[i] = true
		}
	}
	needs := map[int64]int64{}
	var order []int64
	var sum int64
	for _, x := range minimums {
		n := int64(float64(b) * x.share)
		if n > 0 {
			if len(of[x.sender]) == 0 || len(packable[x.sender]) == 0 {
				return nil
			}
			needs[x.sender] = n
			order = append(order, x.sender)
			sum += n
		}
	}
	if sum > b {
		f := float64(b) / float64(sum)
		for _, id := range order {
			smallest := groups[packable[id][0]].size
			for _, i := range packable[id] {
				smallest = min(smallest, groups[i].size)
			}
			needs[id] = max(smallest, int64(float64(needs[id])*f))
		}
	}
	var batch []int
	in := map[int]bool{}
	var total int64
	taken := map[int64]int64{}
	for _, id := range order {
		for _, i := range packable[id] {
			if taken[id] >= needs[id] {
				break
			}
			if total+groups[i].size > b {
				continue
			}
			batch = append(batch, i)
			in[i] = true
			total += groups[i].size
			taken[id] += groups[i].size
		}
	}
	if total < b {
		for i, g := range groups {
			if isPackable[i] && !in[i] && total+g.size <= b {
				batch = append(batch, i)
				in[i] = true
				total += g.size
				if total == b {
					break
				}
			}
		}
	}
	if total != b {
		return nil
	}
	return batch
}

func drawQueue(t *rapid.T) []queued {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) queued {
		g := queued{size: rapid.SampledFrom([]int64{1, 2, 2, 3, 4, 4, 8}).Draw(t, "size")}
		if rapid.IntRange(0, 5).Draw(t, "known") > 0 {
			id := rapid.Int64Range(0, 3).Draw(t, "sender")
			g.sender = &id
		}
		return g
	}), 0, 24).Draw(t, "queue")
}

func TestBatchesAreThoseOfTheSpecification(t *testing.T) {
	formed := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		groups := drawQueue(t)
		size := rapid.SampledFrom([]int64{4, 6, 8, 12, 16, 24}).Draw(t, "batch size")
		plain := plainBatch(groups, size)
		require.Equal(t, literalPlain(groups, size), plain)
		var minimums []minimum
		for _, id := range rapid.SliceOfNDistinct(rapid.Int64Range(0, 3), 1, 3, rapid.ID).Draw(t, "workers") {
			minimums = append(minimums, minimum{id, rapid.SampledFrom([]float64{0, 0.05, 0.25, 0.5, 0.6, 1, 2}).Draw(t, "share")})
		}
		allocated := minimumBatch(groups, size, minimums)
		require.Equal(t, literalMinimum(groups, size, minimums), allocated)
		for name, batch := range map[string][]int{"plain": plain, "minimum": allocated, "any": anyBatch(groups, size, nil), "any with minimums": anyBatch(groups, size, minimums)} {
			if batch != nil {
				formed[name]++
				requireExact(t, groups, batch, size)
			}
		}
		if plain != nil {
			require.NotNil(t, anyBatch(groups, size, nil), "what can be bundled adds up")
		}
	})
	require.Len(t, formed, 4, "each kind gave batches: %v", formed)
}

func requireExact(t *rapid.T, groups []queued, batch []int, size int64) {
	var total int64
	seen := map[int]bool{}
	for _, i := range batch {
		require.False(t, seen[i], "a group is in a batch once")
		seen[i] = true
		total += groups[i].size
	}
	require.Equal(t, size, total)
}

func TestMinimumAllocations(t *testing.T) {
	one, two := int64(1), int64(2)
	queue := func(counts ...int) []queued {
		var list []queued
		for i, n := range counts {
			for range n {
				g := queued{size: 4}
				if i > 0 {
					g.sender = []*int64{nil, &one, &two}[i]
				}
				list = append(list, g)
			}
		}
		return list
	}
	senders := func(groups []queued, batch []int) string {
		text := ""
		for _, i := range batch {
			if groups[i].sender == nil {
				text += "-"
			} else {
				text += fmt.Sprint(*groups[i].sender)
			}
		}
		return text
	}
	for name, c := range map[string]struct {
		groups   []queued
		minimums []minimum
		want     string
	}{
		"each has its share, in the order of registration": {queue(0, 3, 3), []minimum{{2, 0.5}, {1, 0.25}}, "2211"},
		"the rest is the queue's order":                    {queue(0, 4, 4), []minimum{{2, 0.25}}, "2111"},
		"one with nothing holds up all":                    {queue(0, 8, 0), []minimum{{2, 0.25}}, ""},
		"one that needs nothing does not":                  {queue(0, 8, 0), []minimum{{2, 0.01}}, "1111"},
		"shares beyond a batch are scaled":                 {queue(0, 4, 4), []minimum{{1, 1}, {2, 1}}, "1122"},
		"groups of nobody are not used":                    {queue(8, 2, 0), []minimum{{1, 0.25}}, ""},
	} {
		require.Equal(t, c.want, senders(c.groups, minimumBatch(c.groups, 16, c.minimums)), name)
	}
	groups := queue(8, 2, 0)
	require.Equal(t, "1---", senders(groups, anyBatch(groups, 16, []minimum{{1, 0.25}})), "unless nothing else gives a batch")
}

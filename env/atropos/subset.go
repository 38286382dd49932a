package atropos

// subset returns the indices, ascending, of sizes that add up to exactly target,
// or nil. It takes greedily from the left, skipping what doesn't fit; if that
// misses the target it looks for any solution and prefers later elements.
func subset(sizes []int64, target int64) []int {
	if target < 0 || len(sizes) == 0 {
		return nil
	}
	var sum int64
	taken := []int{}
	for i, size := range sizes {
		if sum+size > target {
			continue
		}
		taken = append(taken, i)
		if sum += size; sum == target {
			return taken
		}
	}
	return knapsack(sizes, target)
}

// knapsackCells bounds the table of knapsack, in bits.
const knapsackCells = 1 << 28

// knapsack is the exact search of subset: reachable[i] holds, as bits, the sums
// that the first i sizes can make.
func knapsack(sizes []int64, target int64) []int {
	if total := sum(sizes); total < target || target+1 > knapsackCells/int64(len(sizes)+1) {
		return nil
	}
	words := int(target/64) + 1
	table := make([]uint64, words*(len(sizes)+1))
	row := func(i int) []uint64 { return table[i*words : (i+1)*words] }
	row(0)[0] = 1
	for i, size := range sizes {
		orShifted(row(i+1), row(i), size)
	}
	reachable := func(i int, sum int64) bool { return row(i)[sum/64]>>(sum%64)&1 == 1 }
	if !reachable(len(sizes), target) {
		return nil
	}
	var taken []int
	rest := target
	for i := len(sizes) - 1; i >= 0; i-- {
		if size := sizes[i]; size <= rest && reachable(i, rest-size) {
			taken = append(taken, i)
			rest -= size
		}
	}
	for i, j := 0, len(taken)-1; i < j; i, j = i+1, j-1 {
		taken[i], taken[j] = taken[j], taken[i]
	}
	return taken
}

// orShifted sets to from, with the bits of from shifted up by n added.
func orShifted(to, from []uint64, n int64) {
	copy(to, from)
	if n/64 >= int64(len(to)) {
		return
	}
	words, bits := int(n/64), uint(n%64)
	for i := len(to) - 1; i >= words; i-- {
		v := from[i-words] << bits
		if bits > 0 && i > words {
			v |= from[i-words-1] >> (64 - bits)
		}
		to[i] |= v
	}
}

func sum(sizes []int64) int64 {
	var n int64
	for _, s := range sizes {
		n += s
	}
	return n
}

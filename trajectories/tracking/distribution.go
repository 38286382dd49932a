package tracking

import (
	"math"
	"slices"
)

// distribution describes values without keeping each of them: counts of lengths, or
// sums of durations.
type distribution struct {
	n              int
	mean, m2       float64 // running mean and sum of squared distances from it
	least, largest float64
}

func (d *distribution) add(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if d.n == 0 || v < d.least {
		d.least = v
	}
	if d.n == 0 || v > d.largest {
		d.largest = v
	}
	d.n++
	delta := v - d.mean
	d.mean += delta / float64(d.n)
	d.m2 += delta * (v - d.mean)
}

// std is the standard deviation of the values as a population.
func (d *distribution) std() float64 {
	if d.n == 0 {
		return 0
	}
	return math.Sqrt(max(0, d.m2/float64(d.n)))
}

// metrics names the four figures that the original framework gave of its timings.
func (d *distribution) metrics(name string) []Metric {
	if d.n == 0 {
		return nil
	}
	return []Metric{{name + "_mean", d.mean}, {name + "_std", d.std()}, {name + "_max", d.largest}, {name + "_min", d.least}}
}

// lengths counts whole numbers by value, so that percentiles are exact and memory is
// bounded by how many values differ.
type lengths map[int]int

func (l lengths) total() int {
	n := 0
	for _, count := range l {
		n += count
	}
	return n
}

// percentile returns the smallest length that a share q of all is not above.
func (l lengths) percentile(q float64) float64 {
	values := make([]int, 0, len(l))
	for v := range l {
		values = append(values, v)
	}
	slices.Sort(values)
	rank := int(math.Ceil(q * float64(l.total())))
	for _, v := range values {
		if rank -= l[v]; rank <= 0 {
			return float64(v)
		}
	}
	return 0
}

// above returns the share of lengths greater than a limit.
func (l lengths) above(limit float64) float64 {
	n := 0
	for v, count := range l {
		if float64(v) > limit {
			n += count
		}
	}
	return float64(n) / float64(max(1, l.total()))
}

// ring keeps the latest values up to a number of them.
type ring struct {
	size   int
	values []float64
	next   int
}

func (r *ring) add(v float64) {
	if len(r.values) < r.size {
		r.values = append(r.values, v)
		return
	}
	r.values[r.next] = v
	r.next = (r.next + 1) % r.size
}

func (r *ring) distribution() distribution {
	var d distribution
	for _, v := range r.values {
		d.add(v)
	}
	return d
}

// percentile interpolates linearly between the two nearest values.
func (r *ring) percentile(q float64) float64 {
	sorted := slices.Sorted(slices.Values(r.values))
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

package stats

import (
	"math"
	"math/rand/v2"
	"sort"
)

// maxValues is how many values of a distribution are kept for its quantiles.
const maxValues = 1 << 16

// numbers collects the values of a distribution in bounded memory.
type numbers struct {
	n        int
	sum      float64
	min, max float64
	kept     []float64
	random   *rand.Rand
}

func (d *numbers) add(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if d.n == 0 || v < d.min {
		d.min = v
	}
	if d.n == 0 || v > d.max {
		d.max = v
	}
	d.n++
	d.sum += v
	if len(d.kept) < maxValues {
		d.kept = append(d.kept, v)
		return
	}
	// Reservoir sampling, from a fixed seed so that the same file gives the same figures.
	if d.random == nil {
		d.random = rand.New(rand.NewPCG(1, 2))
	}
	if i := d.random.IntN(d.n); i < maxValues {
		d.kept[i] = v
	}
}

// distribution describes the values, with at most bars bars.
func (d *numbers) distribution(bars int) Distribution {
	r := Distribution{N: d.n, Sum: d.sum, Min: d.min, Max: d.max, Sampled: d.n > len(d.kept)}
	if d.n == 0 {
		return r
	}
	r.Mean = d.sum / float64(d.n)
	sorted := append([]float64(nil), d.kept...)
	sort.Float64s(sorted)
	r.P10, r.P50, r.P90, r.P99 = quantile(sorted, 0.1), quantile(sorted, 0.5), quantile(sorted, 0.9), quantile(sorted, 0.99)
	r.Histogram = histogram(sorted, d.min, d.max, bars)
	if r.Sampled {
		scale := float64(d.n) / float64(len(sorted))
		for i := range r.Histogram {
			r.Histogram[i].Count = int(math.Round(float64(r.Histogram[i].Count) * scale))
		}
	}
	return r
}

// quantile interpolates between the two nearest of the sorted values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// histogram cuts the range into bars with round borders.
func histogram(sorted []float64, low, high float64, bars int) []Bar {
	width := roundStep((high - low) / float64(bars))
	if width == 0 {
		return []Bar{{From: low, To: high, Count: len(sorted)}}
	}
	start := math.Floor(low/width) * width
	count := max(1, int(math.Ceil((high-start)/width-1e-9)))
	list := make([]Bar, count)
	for i := range list {
		list[i] = Bar{From: clean(start+float64(i)*width, width), To: clean(start+float64(i+1)*width, width)}
	}
	for _, v := range sorted {
		// The tolerance keeps 0.3/0.1 in its own bar.
		i := int((v-start)/width + 1e-9)
		list[min(max(i, 0), count-1)].Count++
	}
	return list
}

// roundStep returns the next of 1, 2, 5, 10, … times a power of ten.
func roundStep(step float64) float64 {
	if step <= 0 || math.IsInf(step, 0) {
		return 0
	}
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, f := range []float64{1, 2, 5, 10} {
		if step <= f*power*(1+1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// clean rounds a border to what its width can show.
func clean(v, width float64) float64 {
	digits := math.Pow(10, math.Max(0, 2-math.Floor(math.Log10(width))))
	if r := math.Round(v*digits) / digits; !math.IsNaN(r) && !math.IsInf(r, 0) {
		return r
	}
	return v
}

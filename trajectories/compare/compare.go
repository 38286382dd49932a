package compare

import (
	"errors"
	"math"
	"sort"
)

// ErrNoPairs says that no item can be compared.
var ErrNoPairs = errors.New("the runs have no scored item in common")

// Result is a paired comparison of run B against run A: differences are B − A.
type Result struct {
	// Paired covers the items that have a score in both runs.
	Paired Difference `json:"paired"`
	// UnscoredAsZero covers the items attempted in both runs, each rollout without a
	// score counting as 0.
	UnscoredAsZero Difference `json:"unscored_as_zero"`
	Sign           SignTest   `json:"sign_test"`
	// McNemar is there when every item was passed or failed in a single attempt.
	McNemar *McNemar `json:"mcnemar"`

	Items     []Item   `json:"items"`      // paired ones, the largest losses first
	Gained    []string `json:"gained"`     // failed in A, passed in B
	Lost      []string `json:"lost"`       // passed in A, failed in B
	OnlyA     []string `json:"only_a"`     // B never attempted them
	OnlyB     []string `json:"only_b"`     // A never attempted them
	UnscoredA []string `json:"unscored_a"` // attempted in both, without a score in A
	UnscoredB []string `json:"unscored_b"` // attempted in both, without a score in B
	Changed   []string `json:"changed"`    // of different content in the two runs; not compared
	RolloutsA Counts   `json:"rollouts_a"` // of the whole run
	RolloutsB Counts   `json:"rollouts_b"` // of the whole run
}

// Counts are rollouts, cancelled ones apart.
type Counts struct {
	Attempted int `json:"attempted"`
	Scored    int `json:"scored"`
}

// Item is one paired item.
type Item struct {
	ID         string  `json:"item_id"`
	MeanA      float64 `json:"mean_a"`
	MeanB      float64 `json:"mean_b"`
	Difference float64 `json:"difference"`
	ScoredA    int     `json:"scored_a"`
	AttemptsA  int     `json:"attempts_a"`
	ScoredB    int     `json:"scored_b"`
	AttemptsB  int     `json:"attempts_b"`
}

// Difference is a mean of paired differences. With d_i the difference of the mean
// scores of item i and n items, the mean is d = Σ d_i / n, its standard error
// √(Σ (d_i − d)² / (n−1) / n) (the paired-difference standard error of Miller 2024,
// "Adding Error Bars to Evals", arXiv:2411.00640, with the item as the cluster), and
// the interval d ± t·SE with the 97.5 % quantile of Student's t for n−1 degrees of
// freedom.
type Difference struct {
	Items  int      `json:"items"`
	MeanA  float64  `json:"mean_a"`
	MeanB  float64  `json:"mean_b"`
	Mean   float64  `json:"difference"`
	StdErr *float64 `json:"stderr"` // nil with fewer than two items
	Low    *float64 `json:"low"`    // of the 95 % interval
	High   *float64 `json:"high"`
	P      *float64 `json:"p"` // two-sided, of the t test; nil where the standard error is 0
}

// SignTest asks whether B does better on more items than A, whatever the size of
// the differences: exact and two-sided, ties left out.
type SignTest struct {
	Better int     `json:"b_better"`
	Worse  int     `json:"b_worse"`
	Ties   int     `json:"ties"`
	P      float64 `json:"p"`
}

// McNemar is the exact test on the items that one run passes and the other fails.
type McNemar struct {
	BothPass int     `json:"both_pass"`
	OnlyA    int     `json:"only_a_passes"`
	OnlyB    int     `json:"only_b_passes"`
	BothFail int     `json:"both_fail"`
	P        float64 `json:"p"`
}

// Compare pairs the items of two runs by their id. The error is ErrNoPairs when
// nothing can be compared; the result then says why.
func Compare(a, b *Side) (*Result, error) {
	r := &Result{Items: []Item{}, Gained: []string{}, Lost: []string{}, OnlyA: []string{}, OnlyB: []string{}, UnscoredA: []string{}, UnscoredB: []string{}, Changed: []string{}}
	r.RolloutsA, r.RolloutsB = a.counts(), b.counts()
	var paired, zeros pairs
	single := true
	table := McNemar{}
	for _, id := range a.order {
		x, y := a.items[id], b.items[id]
		switch {
		case y == nil || y.attempts == 0:
			r.OnlyA = append(r.OnlyA, id)
			continue
		case x.attempts == 0:
			continue // counted with the other side
		case !x.same(y):
			r.Changed = append(r.Changed, id)
			continue
		}
		zeros.add(x.asZero(), y.asZero())
		if x.scored == 0 {
			r.UnscoredA = append(r.UnscoredA, id)
		}
		if y.scored == 0 {
			r.UnscoredB = append(r.UnscoredB, id)
		}
		if x.scored == 0 || y.scored == 0 {
			continue
		}
		paired.add(x.mean(), y.mean())
		r.Items = append(r.Items, Item{ID: id, MeanA: x.mean(), MeanB: y.mean(), Difference: y.mean() - x.mean(), ScoredA: x.scored, AttemptsA: x.attempts, ScoredB: y.scored, AttemptsB: y.attempts})
		if x.judged == 0 || y.judged == 0 {
			single = false
			continue
		}
		single = single && x.attempts == 1 && y.attempts == 1
		switch {
		case x.passes() && y.passes():
			table.BothPass++
		case x.passes():
			table.OnlyA++
			r.Lost = append(r.Lost, id)
		case y.passes():
			table.OnlyB++
			r.Gained = append(r.Gained, id)
		default:
			table.BothFail++
		}
	}
	for _, id := range b.order {
		if x := a.items[id]; (x == nil || x.attempts == 0) && b.items[id].attempts > 0 {
			r.OnlyB = append(r.OnlyB, id)
		}
	}
	if len(r.Items) == 0 {
		return r, ErrNoPairs
	}
	r.Paired, r.UnscoredAsZero = paired.difference(), zeros.difference()
	for _, it := range r.Items {
		switch {
		case it.Difference > 0:
			r.Sign.Better++
		case it.Difference < 0:
			r.Sign.Worse++
		default:
			r.Sign.Ties++
		}
	}
	r.Sign.P = SignP(r.Sign.Better, r.Sign.Worse)
	if single {
		table.P = SignP(table.OnlyA, table.OnlyB)
		r.McNemar = &table
	}
	sort.SliceStable(r.Items, func(i, j int) bool { return r.Items[i].Difference < r.Items[j].Difference })
	return r, nil
}

func (s *Side) counts() Counts {
	var c Counts
	for _, it := range s.items {
		c.Attempted += it.attempts
		c.Scored += it.scored
	}
	return c
}

// pairs are the mean scores of items in both runs.
type pairs struct{ a, b []float64 }

func (p *pairs) add(a, b float64) {
	p.a = append(p.a, a)
	p.b = append(p.b, b)
}

func (p *pairs) difference() Difference {
	n := float64(len(p.a))
	d := Difference{Items: len(p.a)}
	for i := range p.a {
		d.MeanA += p.a[i] / n
		d.MeanB += p.b[i] / n
		d.Mean += (p.b[i] - p.a[i]) / n
	}
	if len(p.a) < 2 {
		return d
	}
	squares := 0.0
	for i := range p.a {
		e := p.b[i] - p.a[i] - d.Mean
		squares += e * e
	}
	se := math.Sqrt(squares / (n - 1) / n)
	if se < 1e-15 {
		se = 0 // all differences are the same, up to rounding
	}
	t := studentQuantile(0.975, n-1)
	low, high := d.Mean-t*se, d.Mean+t*se
	d.StdErr, d.Low, d.High = &se, &low, &high
	if se > 0 {
		p := math.Min(1, 2*(1-studentCDF(math.Abs(d.Mean/se), n-1)))
		d.P = &p
	}
	return d
}

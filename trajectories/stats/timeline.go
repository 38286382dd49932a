package stats

import (
	"sort"
	"strings"
	"time"
)

// maxBins bounds the time line; its bins get wider as the run gets longer.
const maxBins = 96

// timeline counts rows by when they finished.
type timeline struct {
	width       int64 // seconds; 0 before the first row
	first, last int64 // seconds since 1970
	bins        map[int64]*TimeBucket
}

func (t *timeline) add(at time.Time, tokens int64) {
	if at.IsZero() {
		return
	}
	second := at.Unix()
	if t.width == 0 {
		t.width, t.first, t.last, t.bins = 1, second, second, make(map[int64]*TimeBucket)
	}
	t.first, t.last = min(t.first, second), max(t.last, second)
	for t.last/t.width-t.first/t.width >= maxBins {
		t.widen()
	}
	bin := t.bins[second/t.width]
	if bin == nil {
		bin = &TimeBucket{}
		t.bins[second/t.width] = bin
	}
	bin.Rows++
	bin.Tokens += tokens
}

// widen takes the next of the usual widths.
func (t *timeline) widen() {
	next := t.width * 2
	for _, w := range []int64{1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 24 * 3600} {
		if w > t.width && w%t.width == 0 {
			next = w
			break
		}
	}
	bins := make(map[int64]*TimeBucket, len(t.bins))
	for index, b := range t.bins {
		at := index * t.width / next
		if bins[at] == nil {
			bins[at] = &TimeBucket{}
		}
		bins[at].Rows += b.Rows
		bins[at].Tokens += b.Tokens
	}
	t.width, t.bins = next, bins
}

func (t *timeline) result() Throughput {
	if t.width == 0 {
		return Throughput{}
	}
	stamp := func(second int64) string { return time.Unix(second, 0).UTC().Format(time.RFC3339) }
	r := Throughput{Start: stamp(t.first), End: stamp(t.last), BinSeconds: t.width}
	for index := t.first / t.width; index <= t.last/t.width; index++ {
		b := TimeBucket{Start: stamp(index * t.width)}
		if known := t.bins[index]; known != nil {
			b.Rows, b.Tokens = known.Rows, known.Tokens
		}
		r.Bins = append(r.Bins, b)
	}
	return r
}

// counter counts names, at most maxNames different ones.
type counter map[string]int

const (
	maxNames  = 500
	otherName = "(other)"
)

func (c counter) add(name string) {
	if _, known := c[name]; !known && len(c) >= maxNames {
		name = otherName
	} else if !known {
		name = strings.Clone(name) // it shares the memory of a whole line
	}
	c[name]++
}

// list returns the counts, the most frequent first.
func (c counter) list() []Count {
	list := make([]Count, 0, len(c))
	for name, n := range c {
		list = append(list, Count{name, n})
	}
	sort.Slice(list, func(i, j int) bool {
		if list[i].Count != list[j].Count {
			return list[i].Count > list[j].Count
		}
		return list[i].Name < list[j].Name
	})
	return list
}

// leaders keeps the few rows with the largest values.
type leaders struct {
	limit int
	value func(Notable) float64
	list  []Notable
}

func (l *leaders) add(n Notable) {
	v := l.value(n)
	if v <= 0 || (len(l.list) == l.limit && v <= l.value(l.list[len(l.list)-1])) {
		return
	}
	at := sort.Search(len(l.list), func(i int) bool { return l.value(l.list[i]) < v })
	l.list = append(l.list, Notable{})
	copy(l.list[at+1:], l.list[at:])
	l.list[at] = n
	if len(l.list) > l.limit {
		l.list = l.list[:l.limit]
	}
}

package textfilter

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkNearIndex adds texts that are not similar, and reports the live memory of each.
func BenchmarkNearIndex(b *testing.B) {
	x, err := NewNearIndex(0.8)
	require.NoError(b, err)
	random := rand.New(rand.NewPCG(1, 1))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range b.N {
		var s Signature
		for k := range s {
			s[k] = byte(random.IntN(256))
		}
		x.FindOrAdd(i, &s)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "live-B/text")
	runtime.KeepAlive(x)
}

// BenchmarkTexts measures each filter on texts of 300 words.
func BenchmarkTexts(b *testing.B) {
	text := strings.Join(prose(rand.New(rand.NewPCG(1, 1)), 300), " ")
	w, signer, refusals := words(text), NewSigner(5), NewRefusals()
	languages, err := ParseLanguages([]string{"en"})
	require.NoError(b, err)
	o := NewOverlaps(OverlapConfig{})
	for range 1000 {
		o.Add([]string{strings.Join(prose(rand.New(rand.NewPCG(2, 2)), 60), " ")})
	}
	o.Finish()
	var reuse Words
	for name, work := range map[string]func(){
		"sign": func() { signer.Sign(&w) }, "overlap": func() { o.Find([]string{text}, &reuse) }, "repetition": func() { Repetition(text) },
		"language": func() { languages.Detect(text) }, "refusal": func() { refusals.Find(text) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for range b.N {
				work()
			}
		})
	}
}

package serve

import (
	"fmt"
	"testing"
	"time"

	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/trajectories"
)

// BenchmarkGroup takes groups into the spool and sends them to a server on loopback,
// both of which sync to disk.
func BenchmarkGroup(b *testing.B) {
	for _, size := range []struct{ sequences, tokens int }{{4, 256}, {16, 4096}} {
		b.Run(fmt.Sprintf("%dx%d", size.sequences, size.tokens), func(b *testing.B) {
			a := newAPI(b)
			a.config.NoSync = false
			a.up()
			a.trainer(func(r *atropos.Registration) { r.BatchSize, r.MaxTokenLen = 256, 1<<20 })
			w := newWorker(a, func(c *Config) { c.Throttle.GroupSize = size.sequences })
			w.ready()
			g := trajectories.Group{ItemID: "item"}
			for i := range size.sequences {
				s := trajectories.Sequence{Score: float64(i)}
				for at := range size.tokens {
					id := (at*7919 + i) % 150_000
					s.Tokens, s.Masks, s.Logprobs = append(s.Tokens, id), append(s.Masks, id), append(s.Logprobs, -float64(id%1000)/977)
				}
				g.Sequences = append(g.Sequences, s)
			}
			begun := time.Now()
			for b.Loop() {
				g.Key = fmt.Sprint(g.Step)
				if err := w.Write(g); err != nil {
					b.Fatal(err)
				}
				g.Step++
			}
			w.sent(int64(g.Step))
			b.ReportMetric(float64(g.Step)/time.Since(begun).Seconds(), "groups/s")
		})
	}
}

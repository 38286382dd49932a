package serve

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// model is a server, its trainer and its workers, without sockets, files or clocks.
// The server is the real state, and workers decide by the real Throttle.
type model struct {
	server    *atropos.State
	rules     atropos.Rules
	batchSize int64
	workers   []*modelWorker
	log       []string
}

type modelWorker struct {
	throttle Throttle
	id       int64
	running  int
}

var modelNow = time.Unix(1, 0)

// newModel registers a trainer and its workers.
func newModel(rules atropos.Rules, batchSize int64, throttles ...Throttle) *model {
	rules.WorkerTimeout = -1
	m := &model{server: atropos.NewState(rules, "g"), rules: rules, batchSize: batchSize}
	var steps int64
	for _, t := range throttles {
		steps = max(steps, t.LastStep)
	}
	if _, err := m.server.Register(atropos.Registration{BatchSize: batchSize, NumSteps: steps}); err != nil {
		panic(err)
	}
	m.server.Start()
	for _, t := range throttles {
		reply, _ := m.server.RegisterWorker(atropos.EnvRegistration{DesiredName: "w", Weight: 1, MaxTokenLength: 1, GroupSize: int64(t.GroupSize), MinBatchAllocation: t.MinAllocation}, modelNow)
		m.workers = append(m.workers, &modelWorker{throttle: t, id: reply.EnvID})
	}
	return m
}

func (m *model) note(format string, values ...any) {
	m.log = append(m.log, fmt.Sprintf(format, values...))
}

// decide is a worker's decision with the status of this moment.
func (m *model) decide(w *modelWorker) Decision {
	status, _, err := m.server.WorkerStatus(w.id, modelNow)
	if err != nil {
		panic(err)
	}
	if m.rules.StrictPacking {
		status.BatchStuck, status.TrainerWaiting = false, false // the original server has no such fields
	}
	return w.throttle.Decide(Situation{Registered: true, BatchSize: m.batchSize, Status: status, Running: w.running})
}

// start starts a group, if one may start.
func (m *model) start(w *modelWorker) bool {
	d := m.decide(w)
	if d.Done || d.Room == 0 {
		return false
	}
	w.running++
	return true
}

// finish posts a group of a worker.
func (m *model) finish(w *modelWorker, size int64) {
	w.running--
	m.server.Add([]*atropos.Entry{{Sequences: size, EnvID: &w.id}}, false, "", "", modelNow)
	m.note("worker %d posts %d", w.id, size)
}

// take asks for a batch, as the trainer does, and says whether there was one.
func (m *model) take() bool {
	m.server.Form(modelNow)
	b := m.server.Next(false)
	if b == nil {
		return false
	}
	var sizes []string
	for _, e := range b.Entries {
		sizes = append(sizes, fmt.Sprintf("%d:%d", *e.EnvID, e.Sequences))
	}
	m.note("trainer takes %s", strings.Join(sizes, " "))
	m.server.Done(b.ID)
	return true
}

// over says whether the trainer has all its steps.
func (m *model) over() bool {
	return m.server.Trainer.NumSteps > 0 && m.server.Step >= m.server.Trainer.NumSteps
}

// key tells states apart.
func (m *model) key() string {
	var b strings.Builder
	fmt.Fprint(&b, m.server.Step)
	for _, w := range m.workers {
		fmt.Fprint(&b, "|", w.running)
		for _, e := range m.server.Workers[w.id].Buffer {
			fmt.Fprint(&b, ",", e.Sequences)
		}
	}
	for _, e := range m.server.Queue {
		fmt.Fprint(&b, " ", *e.EnvID, ":", e.Sequences)
	}
	return b.String()
}

// describe says why nothing happens.
func (m *model) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "batches of %d, step %d of %d, stuck %q, queue and workers %s\n", m.batchSize, m.server.Step, m.server.Trainer.NumSteps, m.server.Overview(modelNow).Stuck, m.key())
	for _, w := range m.workers {
		minimum := 0.0
		if w.throttle.MinAllocation != nil {
			minimum = *w.throttle.MinAllocation
		}
		status, _, _ := m.server.WorkerStatus(w.id, modelNow)
		fmt.Fprintf(&b, "worker %d: groups of %d, at most %d, %d batches, minimum %v: %+v, status %+v\n", w.id, w.throttle.GroupSize, w.throttle.MaxGroups, w.throttle.MaxBatches, minimum, m.decide(w), status)
	}
	return b.String() + strings.Join(m.log[max(0, len(m.log)-40):], "\n")
}

// clone copies the model.
func (m *model) clone() *model {
	snapshot, err := m.server.Snapshot()
	if err != nil {
		panic(err)
	}
	c := &model{rules: m.rules, batchSize: m.batchSize, log: slices.Clone(m.log)}
	if c.server, err = atropos.RestoreState(m.rules, snapshot); err != nil {
		panic(err)
	}
	for _, w := range m.workers {
		copied := *w
		c.workers = append(c.workers, &copied)
	}
	return c
}

// advances runs the model fairly, with groups of the size that workers asked for, and
// says whether the trainer gets a batch.
func (m *model) advances() bool {
	const rounds = 300
	for range rounds {
		if m.over() || m.take() {
			return true
		}
		busy := false
		for _, w := range m.workers {
			for m.start(w) {
			}
			if w.running > 0 {
				busy = true
				m.finish(w, int64(w.throttle.GroupSize))
			}
		}
		if !busy {
			return m.take()
		}
	}
	return false
}

func TestThrottle_UnmetMinimumNeverStopsTheTrainer(t *testing.T) {
	for _, rules := range []atropos.Rules{{}, atropos.OriginalRules()} {
		throttle := Throttle{GroupSize: 4, MaxGroups: 8, MaxBatches: 3, MinAllocation: share(0.5), LastStep: 1}
		m := newModel(rules, 16, throttle, throttle)
		// The first worker queues enough for the last step before the second has anything.
		for range 8 {
			m.workers[0].running++
			m.finish(m.workers[0], 4)
		}
		require.False(t, m.take(), "the second worker's minimum is unmet")
		require.True(t, m.advances(), "%s", m.describe())
	}
}

// TestThrottle_EveryReachableStateAdvances visits every state of small set-ups.
func TestThrottle_EveryReachableStateAdvances(t *testing.T) {
	worker := func(group, most, batches int, minimum *float64) Throttle {
		return Throttle{GroupSize: group, MaxGroups: most, MaxBatches: batches, MinAllocation: minimum, LastStep: 2}
	}
	for name, c := range map[string]struct {
		rules   atropos.Rules
		batch   int64
		odd     []int64 // sizes that groups may have besides
		workers []Throttle
	}{
		"two minimums":            {batch: 4, workers: []Throttle{worker(1, 2, 1, share(0.5)), worker(1, 2, 1, share(0.5))}},
		"two small minimums":      {batch: 4, workers: []Throttle{worker(1, 2, 1, share(0.25)), worker(2, 2, 1, share(0.25))}},
		"minimums above a batch":  {batch: 4, workers: []Throttle{worker(1, 2, 1, share(0.75)), worker(2, 2, 1, share(0.75))}},
		"one minimum":             {batch: 4, workers: []Throttle{worker(1, 2, 2, share(0.5)), worker(2, 2, 2, nil)}},
		"sizes that don't divide": {batch: 6, workers: []Throttle{worker(2, 2, 1, nil), worker(3, 2, 1, nil)}},
		"branched groups":         {batch: 4, odd: []int64{3}, workers: []Throttle{worker(2, 2, 1, nil), worker(2, 2, 1, share(0.5))}},
		"the original server":     {rules: atropos.OriginalRules(), batch: 4, workers: []Throttle{worker(2, 2, 1, share(0.5)), worker(2, 2, 1, share(0.25))}},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 6000
			first := newModel(c.rules, c.batch, c.workers...)
			seen := map[string]bool{first.key(): true}
			next := []*model{first}
			for len(next) > 0 && len(seen) < most {
				m := next[0]
				next = next[1:]
				probe := m.clone()
				require.True(t, probe.advances(), "%s", probe.describe())
				visit := func(act func(*model) bool) {
					n := m.clone()
					if act(n) && !n.over() && !seen[n.key()] {
						seen[n.key()] = true
						next = append(next, n)
					}
				}
				visit((*model).take)
				for i, w := range m.workers {
					visit(func(n *model) bool { return n.start(n.workers[i]) })
					if w.running == 0 {
						continue
					}
					for _, size := range append([]int64{int64(w.throttle.GroupSize)}, c.odd...) {
						visit(func(n *model) bool { n.finish(n.workers[i], size); return true })
					}
				}
			}
			t.Logf("%d states", len(seen))
		})
	}
}

// TestThrottle_EveryWalkAdvances walks through states of large set-ups, in which groups
// may have any size for a while, and then runs them fairly.
func TestThrottle_EveryWalkAdvances(t *testing.T) {
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 12))
		batch := []int64{8, 12, 16, 24, 32}[r.IntN(5)]
		var divisors []int
		for n := 1; n <= int(batch); n++ {
			if int(batch)%n == 0 {
				divisors = append(divisors, n)
			}
		}
		original := r.IntN(4) == 0 // which needs groups of one size
		group := divisors[r.IntN(len(divisors))]
		last := r.Int64N(4)
		var throttles []Throttle
		for range 1 + r.IntN(4) {
			minimum := []*float64{nil, nil, share(0), share(0.05), share(0.25), share(0.5), share(0.9), share(1)}[r.IntN(8)]
			throttles = append(throttles, Throttle{GroupSize: group, MaxGroups: 1 + r.IntN(8), MaxBatches: 1 + r.IntN(3), MinAllocation: minimum, LastStep: last})
			if !original {
				group = divisors[r.IntN(len(divisors))]
			}
		}
		rules := atropos.Rules{}
		if original {
			rules = atropos.OriginalRules()
		}
		m := newModel(rules, batch, throttles...)
		odd := !original && r.IntN(2) == 0
		for range r.IntN(60) {
			w := m.workers[r.IntN(len(m.workers))]
			switch r.IntN(3) {
			case 0:
				m.start(w)
			case 1:
				if w.running > 0 {
					size := int64(w.throttle.GroupSize)
					if odd && r.IntN(2) == 0 {
						size = 1 + r.Int64N(batch)
					}
					m.finish(w, size)
				}
			case 2:
				m.take()
			}
		}
		require.True(t, m.advances(), "seed %d: %s", seed, m.describe())
	}
}

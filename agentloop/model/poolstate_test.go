package model

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestPoolStateKeepsItsPromises drives the state machine with random requests,
// ends, failures, cancellations and passing time, and checks after every step
// that limits hold, that nobody waits next to a usable free slot, and that
// requests without affinity are served in order of arrival.
func TestPoolStateKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := poolState{config: PoolConfig{MaxFailures: 3, Cooldown: 5 * time.Second, MaxCooldown: time.Minute}}
		for range rapid.IntRange(1, 4).Draw(t, "servers") {
			s.members = append(s.members, memberState{
				weight: float64(rapid.IntRange(1, 3).Draw(t, "weight")), limit: rapid.IntRange(0, 3).Draw(t, "limit"),
			})
			m := &s.members[len(s.members)-1]
			m.throttle = newThrottle(Rates{
				RequestsPerMinute: float64(rapid.SampledFrom([]int{0, 0, 1, 60}).Draw(t, "requests")),
				TokensPerMinute:   float64(rapid.SampledFrom([]int{0, 0, 10, 6000}).Draw(t, "tokens")),
			}, m.limit)
		}
		type running struct {
			w   *waiter
			got slot
		}
		var (
			now     = time.Unix(0, 0)
			flying  []running
			waiting []*waiter
		)
		collect := func() {
			waiting = slices.DeleteFunc(waiting, func(w *waiter) bool {
				select {
				case got := <-w.granted:
					flying = append(flying, running{w, got})
					return true
				default:
					return false
				}
			})
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				w := &waiter{affinity: rapid.SampledFrom([]string{"", "", "a", "b", "c"}).Draw(t, "affinity")}
				w.size = size{bytes: rapid.IntRange(0, 3000).Draw(t, "bytes")}
				if len(s.members) > 1 && rapid.IntRange(0, 4).Draw(t, "failover") == 0 {
					w.tried = make([]bool, len(s.members))
					w.tried[rapid.IntRange(0, len(s.members)-1).Draw(t, "tried")] = true
				}
				if got, ok := s.acquire(now, w); ok {
					flying = append(flying, running{w, got})
				} else {
					waiting = append(waiting, w)
				}
				collect() // time has passed for those that wait, too
			},
			"end": func(t *rapid.T) {
				if len(flying) == 0 {
					t.Skip("nothing to end")
				}
				i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
				r := flying[i]
				flying = slices.Delete(flying, i, i+1)
				v := rapid.SampledFrom([]verdict{alive, alive, failing, failing, unfit, unknown, limited}).Draw(t, "verdict")
				e := ended{verdict: v, reason: "reason", after: time.Duration(rapid.IntRange(0, 20).Draw(t, "after")) * time.Second}
				if v == alive {
					e.answered, e.prompt, e.completion = true, int64(rapid.IntRange(0, 500).Draw(t, "prompt")), int64(rapid.IntRange(0, 500).Draw(t, "completion"))
				}
				s.release(now, r.got, r.w, e)
				collect()
			},
			"leave": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip("nobody waits")
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
				w := waiting[i]
				waiting = slices.Delete(waiting, i, i+1)
				s.abandon(now, w)
				collect()
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
				s.dispatch(now)
				collect()
			},
			"": func(t *rapid.T) {
				perMember := make([]int, len(s.members))
				probes := make([]int, len(s.members))
				for _, r := range flying {
					perMember[r.got.member]++
					if r.got.probe {
						probes[r.got.member]++
					}
					if r.w.excludes(r.got.member) {
						t.Fatalf("a server that was tried is chosen again")
					}
				}
				for i := range s.members {
					m := &s.members[i]
					if m.inFlight != perMember[i] || m.limit > 0 && m.inFlight > m.limit {
						t.Fatalf("server %d: in flight %d, really %d, limit %d", i, m.inFlight, perMember[i], m.limit)
					}
					if probes[i] > 1 || m.probing != (probes[i] == 1) {
						t.Fatalf("server %d: probing %v with %d probes in flight", i, m.probing, probes[i])
					}
					if m.cooldown > s.config.MaxCooldown {
						t.Fatalf("server %d cools down for %s", i, m.cooldown)
					}
				}
				if s.waiting != len(waiting) {
					t.Fatalf("%d wait, counted %d", len(waiting), s.waiting)
				}
				queued := s.anywhere.len()
				for i := range s.members {
					queued += s.members[i].bound.len()
				}
				if queued != len(waiting) {
					t.Fatalf("%d wait, %d are queued", len(waiting), queued)
				}
				// The oldest of the common queue must not wait next to a free healthy server.
				if w := s.anywhere.peek(); w != nil {
					for i := range s.members {
						if m := &s.members[i]; !m.ejected && m.free(now, w) {
							if at, ok := s.sticky.get(w.affinity); !ok || at == i {
								t.Fatalf("a request waits while server %d is free: %s", i, fmt.Sprintf("%+v", s.members))
							}
						}
					}
				}
			},
		})
		// Once all requests end well, nobody is left behind: time passes only to the
		// moments at which the state machine asks to be woken.
		for range 10_000 {
			for len(flying) > 0 {
				r := flying[0]
				flying = flying[1:]
				s.release(now, r.got, r.w, ended{verdict: alive, answered: true})
				collect()
			}
			next, ok := s.nextReturn(now)
			if len(waiting) == 0 || !ok {
				break
			}
			now = next
			s.dispatch(now)
			collect()
		}
		if len(waiting) > 0 {
			t.Fatalf("%d requests wait for ever: %+v, at %v: %+v", len(waiting), waiting[0], now, s)
		}
	})
}

func TestCommonWaitersAreServedInOrderOfArrival(t *testing.T) {
	s := poolState{config: PoolConfig{MaxFailures: 3, Cooldown: time.Second, MaxCooldown: time.Minute}, members: []memberState{{weight: 1, limit: 1}, {weight: 1, limit: 1}}}
	now := time.Unix(0, 0)
	var slots []slot
	for range 2 {
		got, ok := s.acquire(now, &waiter{})
		require.True(t, ok)
		slots = append(slots, got)
	}
	var waiters []*waiter
	for range 200 {
		w := &waiter{}
		_, ok := s.acquire(now, w)
		require.False(t, ok)
		waiters = append(waiters, w)
	}
	for i, w := range waiters {
		if i%3 == 1 {
			s.abandon(now, w)
		}
	}
	for i, w := range waiters {
		if i%3 == 1 {
			continue
		}
		require.Empty(t, w.granted)
		s.release(now, slots[0], &waiter{}, ended{verdict: alive})
		slots = append(slots[1:], <-w.granted)
	}
	require.Zero(t, s.waiting)
}

func TestAffinities_NeedLittleMemoryInLongRuns(t *testing.T) {
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	var a affinities
	for i := range 70_000 {
		a.set(fmt.Sprintf("0b6f1f3e-7c1d-4d7a-9a51-%012d", i), 0)
	}
	require.Less(t, float64(held())-float64(before), float64(2<<20))
	_, ok := a.get(fmt.Sprintf("0b6f1f3e-7c1d-4d7a-9a51-%012d", 70_000-1<<14))
	require.True(t, ok, "as many rollouts as can run at once are remembered")
}

func TestAffinitiesStayBounded(t *testing.T) {
	a := affinities{half: 100}
	for i := range 300 {
		a.set(fmt.Sprint(i), i%3)
		a.set("busy", 2)
	}
	require.LessOrEqual(t, len(a.newer)+len(a.older), 200)
	i, ok := a.get("busy")
	require.True(t, ok)
	require.Equal(t, 2, i)
	_, ok = a.get("0")
	require.False(t, ok)
	a.forget("busy", 1)
	_, ok = a.get("busy")
	require.True(t, ok, "only the server that failed is forgotten")
	a.forget("busy", 2)
	_, ok = a.get("busy")
	require.False(t, ok)
}

package model

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sendAll grants n requests at one moment.
func sendAll(t *throttle, now time.Time, n int) {
	for range n {
		t.grant(now, 0)
	}
}

func TestAWindowOfRefusalsHalvesWhatIsInFlightOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newThrottle(Rates{OnRefusal: RefusalsPause}, 512)
	require.True(t, s.idle())
	sendAll(&s, now, 40)
	for range 30 { // all of them were sent before the first was refused
		s.refuse(now, 0, 2*time.Second)
	}
	require.Equal(t, 20, s.window)
	require.Equal(t, 40, s.before)
	require.EqualValues(t, 1, s.epoch)
	require.EqualValues(t, 30, s.refusals)
	require.Equal(t, 2*time.Second, s.wait(now, 0))
	require.True(t, s.paused(now))

	s.refuse(now.Add(time.Second), 1, 2*time.Second) // one that was sent after it
	require.Equal(t, 5, s.window, "half of the ten that were in flight")
}

func TestAWindowGrowsWithWindowsOfAnswersWithinWhatIsConfigured(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newThrottle(Rates{OnRefusal: RefusalsPause}, 12)
	sendAll(&s, now, 10)
	for range 10 {
		s.refuse(now, 0, time.Second)
	}
	require.Equal(t, 5, s.window)
	var widths []int
	for len(widths) < 6 {
		before := s.window
		for range s.window {
			require.Equal(t, before, s.window, "not before all of them are answered")
			sendAll(&s, now, 1)
			s.end()
			s.succeed()
		}
		widths = append(widths, s.window)
	}
	require.Equal(t, []int{6, 8, 12, 12, 12, 12}, widths)
}

func TestTheWindowStaysBetweenOneAndWhatIsConfigured(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1000, 0)
	s := newThrottle(Rates{OnRefusal: RefusalsPause}, 7)
	for range 20_000 {
		now = now.Add(time.Duration(random.IntN(400)) * time.Millisecond)
		if s.inFlight < 7 && s.wait(now, 0) == 0 {
			s.grant(now, 0)
		}
		if s.inFlight == 0 || random.IntN(3) == 0 {
			continue
		}
		if random.IntN(4) == 0 {
			s.refuse(now, s.epoch-uint64(random.IntN(2)), time.Duration(random.IntN(3))*time.Second)
		} else {
			s.end()
			s.succeed()
		}
		require.GreaterOrEqual(t, s.window, min(1, int(s.epoch)))
		require.LessOrEqual(t, s.window, 7)
		require.GreaterOrEqual(t, s.pace.perSecond, 0.0)
	}
}

func TestRefusalsThatNameNoTimeBackOffWhileNothingGetsThrough(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newThrottle(Rates{}, 0)
	var pauses []time.Duration
	for range 9 {
		require.Zero(t, s.wait(now, 0))
		s.grant(now, 0)
		s.refuse(now, s.epoch, 0)
		pauses = append(pauses, s.until.Sub(now))
		now = s.until
	}
	sec := time.Second
	require.Equal(t, []time.Duration{sec, 2 * sec, 4 * sec, 8 * sec, 16 * sec, 32 * sec, time.Minute, time.Minute, time.Minute}, pauses)
}

func TestALearnedPaceIsWhatTheServerTookAndGrowsAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newThrottle(Rates{OnRefusal: RefusalsPause}, 0)
	for range 50 { // five in a second, and a refusal after ten
		s.grant(now, 0)
		now = now.Add(200 * time.Millisecond)
		s.end()
		s.succeed()
	}
	s.grant(now, 0)
	s.refuse(now, s.epoch, time.Second)
	now = now.Add(time.Second)
	_ = s.wait(now, 0)
	require.InDelta(t, 50.0/11, s.pace.perSecond, 0.01)
	first := s
	first.refill(now.Add(10 * time.Second))
	require.InDelta(t, 2*50.0/11, first.pace.perSecond, 0.05, "the first one is less certain")
	s.measured = 2
	s.refill(now.Add(5 * time.Second))
	require.InDelta(t, 1.03*50/11, s.pace.perSecond, 0.05)
	s.refill(now.Add(25 * time.Second))
	require.InDelta(t, 2*50.0/11, s.pace.perSecond, 0.05)
	s.refill(now.Add(time.Hour))
	require.Zero(t, s.pace.perSecond, "beyond any limit there is none")
}

func TestABucketPaysBackWhatCostMoreThanWasThought(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBucket(600) // 10 a second, 50 at once
	b.refill(now)
	require.Zero(t, b.wait(50))
	require.Zero(t, b.wait(1000), "what is larger than the bucket goes when it is full")
	b.take(1000)
	require.Equal(t, 95100*time.Millisecond, b.wait(1), "first the debt")
	b.refill(now.Add(95 * time.Second))
	require.Equal(t, 100*time.Millisecond, b.wait(1))
	b.refill(now.Add(-time.Hour))
	require.Equal(t, 100*time.Millisecond, b.wait(1), "a clock that is set back gives nothing")
}

func TestTheTokensOfARequestArePredictedFromEarlierOnes(t *testing.T) {
	e := estimate{perByte: 0.3, completion: 256}
	require.InDelta(t, 556, e.tokens(size{bytes: 1000}), 0.01)
	require.InDelta(t, 400, e.tokens(size{bytes: 1000, maxTokens: 100}), 0.01)
	require.InDelta(t, 1256, e.tokens(size{tokens: 1000}), 0.01, "ids are counted, not guessed")
	e.learn(size{bytes: 1000}, 500, 50)
	require.InDelta(t, 550, e.tokens(size{bytes: 1000}), 0.01, "the first answer is worth more than a guess")
	e.learn(size{bytes: 1000}, 250, 150)
	require.InDelta(t, 475+60, e.tokens(size{bytes: 1000}), 0.01)
}

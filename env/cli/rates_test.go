package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env"
)

func TestWhatHoldsARunBackIsSaidInOneLine(t *testing.T) {
	for want, r := range map[string]model.RateStatus{
		"rate limited: 12 waiting, next in 8 s, 40 → 10 at once": {Waiting: 12, NextIn: 8 * time.Second, AtOnce: 10, Before: 40},
		"rate limited: 1 waiting, next in under 1 s":             {Waiting: 1, NextIn: 20 * time.Millisecond},
		"rate limited: 3 waiting, next in 1h0m0s":                {Waiting: 3, NextIn: time.Hour},
		"rate limited: 3 waiting, 8 → 4 at once":                 {Waiting: 3, AtOnce: 4, Before: 8},
	} {
		require.Equal(t, want, ratesText(r))
	}
}

func TestTheSummaryOfRatesSaysWhatTheyCost(t *testing.T) {
	require.Empty(t, ratesSummary(model.RateStatus{}, 0))
	require.Equal(t, "1 request refused by the server", ratesSummary(model.RateStatus{Refused: 1}, 0))
	require.Equal(t, "requests were held back for 2m30s of this session; the rollouts waited 1h0m0s in all, which no time limit counts; 1,234 requests refused by the server",
		ratesSummary(model.RateStatus{Held: 150 * time.Second, Refused: 1234}, 3600))
	require.Equal(t, "the rollouts waited 20s in all, which no time limit counts", ratesSummary(model.RateStatus{}, 20), "in an earlier session")
}

func TestLinesAboutRatesComeNowAndThenWhereThereIsNoBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		p := newPrinter(&out, &errs, false, nil)
		for range 65 {
			p.Rates(model.RateStatus{Waiting: 2, NextIn: time.Second})
			time.Sleep(time.Second)
		}
		p.Rates(model.RateStatus{})
		require.Equal(t, 3, strings.Count(errs.String(), "rate limited: 2 waiting"))
		p.ModelRetry(model.RetryEvent{Err: &model.Error{Kind: model.KindRateLimit}})
		require.Equal(t, 3, strings.Count(errs.String(), "\n"), "the same is not told twice")
		p.ModelRetry(model.RetryEvent{Err: &model.Error{Kind: model.KindServerError}})
		require.Contains(t, errs.String(), "the server failed")
	})
}

func TestEventsAboutRatesHaveTheirNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newPrinter(&out, nil, true, nil)
		for range 15 {
			p.Rates(model.RateStatus{Waiting: 2, NextIn: 1500 * time.Millisecond, AtOnce: 3, Before: 6, Refused: 4, Held: time.Minute, Waited: time.Hour})
			time.Sleep(time.Second)
		}
		p.Rates(model.RateStatus{Refused: 9})
		events := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, events, 2)
		e := gjson.Parse(events[0])
		require.Equal(t, "rate_limited", e.Get("event").String())
		require.InDelta(t, 1.5, e.Get("next_seconds").Num, 1e-9)
		require.EqualValues(t, []int64{2, 3, 6, 4, 60, 3600}, []int64{
			e.Get("waiting").Int(), e.Get("at_once").Int(), e.Get("at_once_before").Int(), e.Get("refused").Int(), e.Get("held_seconds").Int(), e.Get("waited_seconds").Int(),
		})
	})
}

// ratesSeen counts what a printer is told.
type ratesSeen struct {
	printer
	seen []model.RateStatus
}

func (p *ratesSeen) Rates(r model.RateStatus) { p.seen = append(p.seen, r) }

func TestRatesAreWatchedUntilTheClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, err := model.ForServers([]model.Server{{BaseURL: "http://127.0.0.1:1/v1", Model: "m"}}, model.PoolConfig{})
		require.NoError(t, err)
		out := &ratesSeen{}
		m := &modelClient{}
		m.watchRates(pool, out)
		time.Sleep(time.Minute)
		require.NoError(t, m.close())
		require.Empty(t, out.seen, "nothing was held back")
		require.Empty(t, m.rateMetrics(&env.Summary{}, out))

		earlier := &env.Summary{}
		earlier.Time.Held = 12
		require.Equal(t, []env.Metric{
			{Name: "server/rate_limited_seconds"}, {Name: "server/rate_limit_wait_seconds", Value: 12}, {Name: "server/refused_requests"},
		}, m.rateMetrics(earlier, out), "an earlier session was held back")
		require.Len(t, out.seen, 1)
		require.Empty(t, (&modelClient{}).rateMetrics(earlier, out), "an agent without a model has no servers")
	})
}

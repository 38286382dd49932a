package model

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHowLongAServerAsksToBeLeftAloneIsReadInEveryForm(t *testing.T) {
	now := time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		status  int
		headers map[string]string
		want    time.Duration
	}{
		"seconds":                           {429, map[string]string{"Retry-After": "12"}, 12 * time.Second},
		"a fraction":                        {503, map[string]string{"Retry-After": " 0.25 "}, 250 * time.Millisecond},
		"a date":                            {503, map[string]string{"Retry-After": "Mon, 30 Mar 2026 12:01:30 GMT"}, 90 * time.Second},
		"a date in the past":                {503, map[string]string{"Retry-After": "Mon, 30 Mar 2026 11:00:00 GMT"}, 0},
		"milliseconds are the more exact":   {429, map[string]string{"Retry-After": "1", "retry-after-ms": "320"}, 320 * time.Millisecond},
		"Azure's milliseconds":              {429, map[string]string{"x-ms-retry-after-ms": "1500"}, 1500 * time.Millisecond},
		"a day at most":                     {429, map[string]string{"Retry-After": "1e9"}, 24 * time.Hour},
		"nonsense":                          {429, map[string]string{"Retry-After": "soon"}, 0},
		"not a number":                      {429, map[string]string{"Retry-After": "NaN"}, 0},
		"nothing":                           {429, nil, 0},
		"what is used up counts":            {429, map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30.5s", "x-ratelimit-remaining-tokens": "900", "x-ratelimit-reset-tokens": "6m0s"}, 90500 * time.Millisecond},
		"the last of those used up":         {429, map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7s"}, 7 * time.Second},
		"the first where none is used up":   {429, map[string]string{"x-ratelimit-remaining-tokens": "900", "x-ratelimit-reset-tokens": "7s", "x-ratelimit-reset-requests": "120ms"}, 120 * time.Millisecond},
		"Retry-After wins":                  {429, map[string]string{"Retry-After": "2", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "60"}, 2 * time.Second},
		"seconds since 1970":                {429, map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1774872030"}, 30 * time.Second},
		"milliseconds since 1970":           {429, map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1774872000500"}, 500 * time.Millisecond},
		"a timestamp":                       {429, map[string]string{"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "2026-03-30T12:00:45Z"}, 45 * time.Second},
		"the draft's names":                 {429, map[string]string{"ratelimit-remaining": "0", "ratelimit-reset": "9"}, 9 * time.Second},
		"a busy server with limits left":    {503, map[string]string{"x-ratelimit-remaining": "5", "x-ratelimit-reset": "60"}, 0},
		"a busy server with none left":      {503, map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "60"}, time.Minute},
		"limits in an answer of other kind": {500, map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": "60"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			for k, v := range c.headers {
				h.Set(k, v)
			}
			require.Equal(t, c.want, retryAfter(h, c.status, now))
		})
	}
}

func FuzzResetIn(f *testing.F) {
	for _, seed := range []string{"", "1", "6m0s", "-3", "1774872030", "1774872000500", "2026-03-30T12:00:45Z", "Mon, 30 Mar 2026 12:01:30 GMT", "1e300", "Inf", "9223372036854775807"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v string) {
		d := resetIn(v, time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC))
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.LessOrEqual(t, d, 24*time.Hour)
	})
}

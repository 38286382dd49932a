package model

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter reads how long the server asks to wait; 0 means it does not say. The
// headers that tell when a limit is renewed count only for answers that say that one is
// reached: many servers send them with every answer.
func retryAfter(h http.Header, status int, now time.Time) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get(name)), 64); err == nil {
			return seconds(ms / 1000)
		}
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return seconds(s)
	}
	if at, err := http.ParseTime(v); err == nil {
		return between(at.Sub(now))
	}
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, 529:
		exhausted, soonest := renewal(h, now)
		if exhausted == 0 && status == http.StatusTooManyRequests {
			return soonest
		}
		return exhausted
	}
	return 0
}

// renewals are the pairs of headers by which servers tell what is left of a limit and
// when it is whole again: OpenAI and those like it, Anthropic, Cerebras, gateways.
func renewals() [][2]string {
	return [][2]string{
		{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
		{"X-Ratelimit-Remaining-Requests-Day", "X-Ratelimit-Reset-Requests-Day"},
		{"X-Ratelimit-Remaining-Tokens-Minute", "X-Ratelimit-Reset-Tokens-Minute"},
		{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
		{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
		{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
		{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
		{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
		{"Ratelimit-Remaining", "Ratelimit-Reset"},
	}
}

// renewal returns when all limits that are used up are renewed, 0 when none says that
// it is, and when the first of all limits is renewed.
func renewal(h http.Header, now time.Time) (exhausted, soonest time.Duration) {
	for _, names := range renewals() {
		wait := resetIn(h.Get(names[1]), now)
		if wait == 0 {
			continue
		}
		if left, err := strconv.ParseFloat(strings.TrimSpace(h.Get(names[0])), 64); err == nil && left <= 0 {
			exhausted = max(exhausted, wait)
		}
		if soonest == 0 || wait < soonest {
			soonest = wait
		}
	}
	return exhausted, soonest
}

// resetIn reads a moment in the forms in use: "6m0s", seconds from now, seconds or
// milliseconds since 1970, RFC 3339, an HTTP date; 0 for anything else or the past.
func resetIn(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		switch {
		case n > 1e11:
			return between(time.UnixMilli(int64(min(n, 1e15))).Sub(now))
		case n > 1e9:
			return between(time.Unix(int64(n), 0).Sub(now))
		}
		return seconds(n)
	}
	if d, err := time.ParseDuration(v); err == nil {
		return between(d)
	}
	if at, err := time.Parse(time.RFC3339, v); err == nil {
		return between(at.Sub(now))
	}
	if at, err := http.ParseTime(v); err == nil {
		return between(at.Sub(now))
	}
	return 0
}

// seconds converts a server's number into a duration between 0 and a day.
func seconds(s float64) time.Duration {
	switch {
	case !(s > 0): // also NaN
		return 0
	case s > 86400:
		return 24 * time.Hour
	}
	return time.Duration(s * float64(time.Second))
}

func between(d time.Duration) time.Duration { return min(max(0, d), 24*time.Hour) }

package hub

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// longestWait bounds what a server may ask for: who is told to come back later than
// that gets an error now.
const longestWait = 10 * time.Minute

// pause waits before the next attempt: as long as the server asks for, or twice as long each
// time, from half a second to 16 seconds.
func (c *Client) pause(ctx context.Context, attempt int, resp *http.Response) error {
	d := 500 * time.Millisecond << min(attempt, 5)
	if resp != nil {
		if asked, ok := askedWait(resp.Header, time.Now()); ok {
			if asked > longestWait {
				return fmt.Errorf("the hub asks to wait %s", asked.Round(time.Second))
			}
			d = asked
		}
	}
	return c.options.Wait(ctx, d)
}

// rateLimit matches the header `RateLimit: "api";r=0;t=55`: requests left, seconds
// until there are more.
var rateLimit = regexp.MustCompile(`;\s*r=0\s*;\s*t=(\d+)`)

// askedWait returns how long a server asks a client to wait.
func askedWait(h http.Header, now time.Time) (time.Duration, bool) {
	seconds := strings.TrimSpace(h.Get("Retry-After"))
	if m := rateLimit.FindStringSubmatch(h.Get("RateLimit")); m != nil && seconds == "" {
		seconds = m[1]
	}
	if seconds == "" {
		return 0, false
	}
	if n, err := strconv.ParseUint(seconds, 10, 31); err == nil {
		return time.Duration(n) * time.Second, true
	}
	if at, err := http.ParseTime(seconds); err == nil {
		return max(at.Sub(now), 0), true
	}
	return 0, false
}

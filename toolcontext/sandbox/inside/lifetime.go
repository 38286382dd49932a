package inside

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// errForsaken is why a server ends that has not heard from its client for as long as
// it was told to wait.
var errForsaken = errors.New("nothing was heard from the harness")

// ExitForsaken is Main's exit code where the server has ended by itself and for good,
// because the harness was silent for longer than Options.Idle: starting it again would be
// wrong.
const ExitForsaken = 3

// exitCode returns Main's exit code for the end of Serve.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errForsaken):
		return ExitForsaken
	}
	return 1
}

// hearing notes when the other side was last heard.
type hearing struct {
	since time.Time
	last  atomic.Int64 // since since
}

func newHearing() *hearing { return &hearing{since: time.Now()} }

func (h *hearing) heard() { h.last.Store(int64(time.Since(h.since))) }

// quiet returns how long nothing was heard.
func (h *hearing) quiet() time.Duration { return time.Since(h.since) - time.Duration(h.last.Load()) }

// secondLook is how long a server waits before it believes that its client is gone: a
// machine that was suspended finds all timers expired and all messages unread.
const secondLook = 10 * time.Second

// watchClient ends the stream when the client is not heard for idle: it has died
// without its machine saying so, hangs, or can't be reached any more.
func (s *server) watchClient(ctx context.Context, idle time.Duration) {
	pause := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for wait := idle; pause(wait); {
		wait = idle - s.m.hearing.quiet()
		if wait > 0 {
			continue
		}
		if !pause(min(idle/4, secondLook)) {
			return
		}
		if quiet := s.m.hearing.quiet(); quiet >= idle {
			_ = s.m.fail(fmt.Errorf("%w for %v, so the sandbox ends", errForsaken, quiet.Round(time.Second)))
			return
		}
		wait = idle
	}
}

package inside_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestACommandHasNothingOfTheStream(t *testing.T) {
	each(t, func(t *testing.T, c *child) {
		pid := c.Server().PID
		// The shell opens descriptors of its own; a program run directly has only its three.
		r, err := c.Exec(t.Context(), sandbox.Command{Args: []string{"ls", "/proc/self/fd"}})
		require.NoError(t, err)
		require.Equal(t, "0\n1\n2\n3\n", r.Stdout.String(), "3 is ls's own")
		for _, attempt := range []string{
			"readlink /proc/%d/fd/10", "readlink /proc/%d/fd/11", "cat /proc/%d/environ", "cat /proc/%d/maps", "head -c 1 /proc/%d/mem",
			"echo evil > /proc/%[1]d/fd/10", "echo evil > /proc/%[1]d/fd/11", "echo evil > /proc/%[1]d/fd/0",
			"echo evil > /proc/%[1]d/fd/1", "cat /proc/%d/fd/10", "cat /proc/%d/stack", "cat /proc/%d/syscall", "readlink /proc/%d/exe",
		} {
			r, err := c.Exec(t.Context(), sandbox.Command{Script: fmt.Sprintf(attempt, pid), Timeout: 5 * time.Second})
			require.NoError(t, err)
			require.NotZero(t, r.ExitCode, "%s: %v", attempt, r)
			require.False(t, r.TimedOut, attempt)
			require.Zero(t, r.Stdout.Total, "%s: %v", attempt, r)
		}
		require.NoError(t, c.Ping(t.Context()))
	})
}

func TestTheFirstProcessOutlivesEverySignalFromInside(t *testing.T) {
	if !canIsolate() {
		return // only there signals from inside are not the kernel's to deliver
	}
	c := create(t, kind{first: true})
	require.Equal(t, 1, c.Server().PID)
	for n := 1; n <= 64; n++ {
		if n != 32 && n != 33 { // the C library's own
			c.script(t, "kill -%d 1; true", n)
		}
		require.NoError(t, c.Ping(t.Context()), "after signal %d", n)
	}
	require.Equal(t, "defaults\n", c.script(t, "sh -c 'kill -TERM $$; echo lives' ; [ $? = 143 ] && echo defaults"))
}

func TestOrphansLeaveNoZombies(t *testing.T) {
	each(t, func(t *testing.T, c *child) {
		c.script(t, "for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'sleep 0.05' >/dev/null 2>&1 &); done")
		zombies := fmt.Sprintf(`n=0; for f in /proc/[0-9]*/stat; do read line < $f || continue; set -- ${line##*) }; [ "$1" = Z ] && [ "$2" = %d ] && n=$((n+1)); done 2>/dev/null; echo $n`, c.Server().PID)
		require.Eventually(t, func() bool { return c.script(t, "sleep 0.1; "+"%s", zombies) == "0\n" }, time.Minute, 100*time.Millisecond)
	})
}

// TestAForkBombIsEnded uses a user of its own with a limit on processes, which is
// what a container's limit looks like from inside.
func TestAForkBombIsEnded(t *testing.T) {
	if os.Getuid() != 0 {
		return // only root can be somebody else
	}
	uid := 100_000 + 2*(os.Getpid()%400_000) // another run's bomb must not count as this one's
	for name, k := range map[string]kind{"a child": {uid: uid, processes: 96}, "the first process": {uid: uid + 1, processes: 96, first: true}} {
		t.Run(name, func(t *testing.T) {
			if k.first && !canIsolate() {
				return
			}
			t.Parallel()
			c := create(t, k)
			require.Equal(t, k.uid, c.Server().UID)
			bombed, stop := context.WithCancel(t.Context())
			defer stop()
			var wg sync.WaitGroup
			wg.Go(func() {
				// A bomb that goes on whatever fails.
				r, err := c.Exec(bombed, sandbox.Command{Script: `bomb() { while :; do bomb & sleep 0.01; done; }; bomb 2>/dev/null`})
				if err != nil || !r.Cancelled {
					t.Errorf("the bomb ended with %v, %v", r, err)
				}
			})
			refused := func() bool {
				require.NoError(t, c.Ping(t.Context()))
				r, err := c.Exec(t.Context(), sandbox.Command{Args: []string{"true"}, Timeout: 10 * time.Second})
				require.NoError(t, err)
				return r.ExitCode == 126 && strings.Contains(r.String(), "limit on processes")
			}
			require.Eventually(t, refused, time.Minute, 20*time.Millisecond, "the limit was never reached")
			_, err := c.Stat(t.Context(), ".")
			require.NoError(t, err)
			stop()
			wg.Wait()
			require.Equal(t, "well\n", c.script(t, "echo well"))

			// Once more, ended by KillAll, with daemons that have left every group.
			_, err = c.Exec(t.Context(), sandbox.Command{Script: `(for i in 1 2 3; do (setsid env -i sh -c 'b() { while :; do b & sleep 0.02; done; }; b' >/dev/null 2>&1 </dev/null &); done) ; sleep 0.3`, Timeout: time.Minute})
			require.NoError(t, err)
			require.NoError(t, c.KillAll(t.Context()))
			require.Equal(t, "well\n", c.script(t, "echo well"))
		})
	}
}

func TestFloodsDoNotStarveOthers(t *testing.T) {
	slowtest.Require(t)
	each(t, func(t *testing.T, c *child) {
		flooding, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i, script := range []string{"yes", "cat /dev/urandom", "cat /dev/zero >&2", "while :; do printf '\\033[2J\\000\\377'; done"} {
			wg.Go(func() {
				r, err := c.Exec(flooding, sandbox.Command{Script: fmt.Sprintf(": > flood%d; %s", i, script), MaxOutput: 10_000})
				if err != nil || !r.Cancelled || len(r.Stdout.Bytes()) > 10_000 || len(r.Stderr.Bytes()) > 10_000 || r.Stdout.Total+r.Stderr.Total == 0 {
					t.Errorf("flood %d: %v %+v", i, err, r.ExitCode)
				}
			})
			c.script(t, "while [ ! -e flood%d ]; do sleep 0.01; done", i)
		}
		for range 20 {
			require.NoError(t, c.Ping(t.Context()))
			require.Equal(t, "answer\n", c.script(t, "echo answer"))
		}
		stop()
		wg.Wait()
	})
}

func TestAnUnreadDownloadHoldsNothingElseUp(t *testing.T) {
	each(t, func(t *testing.T, c *child) {
		c.script(t, "head -c 20000000 /dev/zero > big")
		for range 8 {
			r, err := c.Download(t.Context(), "big")
			require.NoError(t, err)
			defer r.Close()
		}
		for range 20 {
			require.Equal(t, "answer\n", c.script(t, "echo answer"))
		}
	})
}

package inside

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestASilentClientEndsTheServerAndOneThatSpeaksKeepsIt(t *testing.T) {
	for name, c := range map[string]struct {
		speaks time.Duration // for how long, once a minute
		least  time.Duration
		most   time.Duration
	}{
		"never":    {0, 5 * time.Minute, 6 * time.Minute},
		"for long": {24 * time.Hour, 24*time.Hour + 5*time.Minute, 24*time.Hour + 7*time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{m: newMux(nil, nil, func() {})}
				begun := time.Now()
				go func() {
					for time.Since(begun) < c.speaks {
						time.Sleep(time.Minute)
						s.m.hearing.heard()
					}
				}()
				s.watchClient(t.Context(), 5*time.Minute)
				require.ErrorIs(t, s.m.cause(), errForsaken)
				require.GreaterOrEqual(t, time.Since(begun), c.least)
				require.LessOrEqual(t, time.Since(begun), c.most)
				require.Equal(t, ExitForsaken, exitCode(s.m.cause()))
			})
		})
	}
}

func TestAServerWhoseTimersExpireBeforeItReadsIsNotForsaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{m: newMux(nil, nil, func() {})}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // as after a pause of the whole machine: what was sent is read late
			time.Sleep(5*time.Minute + time.Second)
			s.m.hearing.heard()
			time.Sleep(4 * time.Minute)
			cancel()
		}()
		s.watchClient(ctx, 5*time.Minute)
		require.NoError(t, s.m.cause())
	})
}

// streams returns both ends of a stream with room for what is written first.
func streams(t *testing.T) (mine, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	mine, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	theirs, err = l.Accept()
	require.NoError(t, err)
	return mine, theirs
}

// serveOver starts a server of this process's machine.
func serveOver(t *testing.T, at net.Conn) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	dir := t.TempDir()
	go func() {
		ended <- Serve(context.Background(), at, at, Config{Home: dir, Dir: dir, TempDir: dir, noSubreaper: true})
	}()
	return ended
}

func TestAHarnessThatHangsIsTakenForDeadAndOneThatOnlyWaitsIsNot(t *testing.T) {
	mine, theirs := streams(t)
	ended := serveOver(t, theirs)
	m := newMux(mine, mine, func() { _ = mine.Close() })
	m.client = true
	require.NoError(t, m.greet())
	require.NoError(t, m.hello(settings{idle: 100 * time.Millisecond}.encode()))
	_, err := m.greeted()
	require.NoError(t, err)
	err = <-ended // nobody says anything more, nor hangs up
	require.ErrorIs(t, err, errForsaken)
	require.NoError(t, mine.Close())

	mine, theirs = streams(t)
	ended = serveOver(t, theirs)
	c, err := Dial(mine, Options{Idle: 200 * time.Millisecond})
	require.NoError(t, err)
	r, err := c.Exec(t.Context(), sandbox.Command{Script: "sleep 1; echo there"})
	require.NoError(t, err)
	require.Equal(t, "there\n", r.Stdout.String())
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, <-ended)
}

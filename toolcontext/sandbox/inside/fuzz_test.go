package inside

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// FuzzServerFrames gives a server's side any frames: it takes no more than a
// channel's window and says what is wrong, and commands decode to what they encode to.
func FuzzServerFrames(f *testing.F) {
	c := sandbox.Command{Args: []string{"a", "\xff"}, Env: map[string]string{"A": "b"}, Dir: "d", Timeout: time.Second, MaxOutput: 5, Merge: true}
	e := newRequest(requestExec)
	encodeCommand(e, c)
	request := string(e.message())
	f.Add([]byte(frameOf(frameOpen, 1, request) + frameOf(frameEnd, 1, "")))
	f.Add([]byte(frameOf(frameOpen, 1, request) + frameOf(frameOpen, 2, request[:9]) + frameOf(frameData, 2, request[9:]) + frameOf(frameCancel, 1, "")))
	f.Add([]byte(frameOf(frameOpen, 3, "") + frameOf(frameStop, 3, "") + frameOf(frameWindow, 3, "\x00\x00\x00\x01")))
	f.Add([]byte(frameOf(frameOpen, 3, "\x00\x00\x00\x03\x02") + frameOf(frameFail, 3, "x")))
	f.Add([]byte("\xff\xff\xff\xff\x01\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var accepted []*channel
		m := newMux(bytes.NewReader(data), io.Discard, func() {})
		err := m.receive(func(ch *channel) { accepted = append(accepted, ch) })
		require.Error(t, err)
		require.LessOrEqual(t, len(accepted), maxChannels)
		for _, ch := range accepted {
			require.LessOrEqual(t, ch.in.size, firstWindow)
			b, err := ch.message(1 << 20)
			if err != nil {
				continue
			}
			d := &decoder{b: b}
			_ = d.uint()
			c, stdin := decodeCommand(d)
			if d.end() != nil {
				continue
			}
			if stdin {
				c.Stdin = strings.NewReader("")
			}
			var again encoder
			encodeCommand(&again, c)
			c2, stdin2 := decodeCommand(&decoder{b: again.b})
			c.Stdin = nil
			require.Equal(t, c, c2)
			require.Equal(t, stdin, stdin2)
		}
	})
}

// FuzzClientFrames lets a server send anything: every call ends, and what it
// returns is within what was asked for.
func FuzzClientFrames(f *testing.F) {
	f.Add([]byte(frameOf(frameEnd, 1, result(0, 2, "ab", ""))))
	f.Add([]byte(frameOf(frameData, 1, result(124, 50, "ab", "c")[:7]) + frameOf(frameEnd, 1, result(124, 50, "ab", "c")[7:])))
	f.Add([]byte(frameOf(frameFail, 1, string(encodeFailure(sandbox.ErrInvalidCommand))) + frameOf(frameEnd, 2, "\x00\x00\x00\x00archive")))
	f.Add([]byte(frameOf(frameWindow, 1, "\x00\x00\x00\xff") + frameOf(frameStop, 1, "")))
	f.Fuzz(func(t *testing.T, data []byte) {
		stream := input{io.MultiReader(strings.NewReader(goodGreeting()), bytes.NewReader(data))}
		c, err := Dial(stream, Options{EndWait: time.Second})
		require.NoError(t, err)
		ctx := context.Background()
		r, err := c.Exec(ctx, sandbox.Command{Args: []string{"true"}, MaxOutput: 100})
		if err == nil {
			require.LessOrEqual(t, len(r.Stdout.Bytes()), 100+noticeRoom)
			require.GreaterOrEqual(t, r.Stdout.Omitted(), int64(0))
			require.LessOrEqual(t, r.ExitCode, 255)
		}
		if d, err := c.Download(ctx, "x"); err == nil {
			_, _ = io.Copy(io.Discard, d)
			require.NoError(t, d.Close())
		}
		_ = c.Upload(ctx, strings.NewReader("x"), "d")
		_, _ = c.Stat(ctx, "x")
		if p, err := c.Start(ctx, sandbox.Command{Args: []string{"true"}}); err == nil {
			_, _, _ = p.Poll(ctx)
			_, _ = p.Write(ctx, []byte("x"))
			_, _ = p.Wait(ctx)
		}
		_ = c.Close(ctx)
	})
}

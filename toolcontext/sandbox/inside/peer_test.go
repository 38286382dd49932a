package inside

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// frameOf returns the bytes of a frame.
func frameOf(kind frameType, channel uint32, payload string) string {
	return string(appendHeader(nil, kind, channel, len(payload))) + payload
}

// hostile is a server made of bytes: greeting says what it greets with, answer what
// it sends once the first request has begun. Then it hangs up.
func hostile(t *testing.T, greeting, answer string) io.ReadWriteCloser {
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		requested := make(chan struct{})
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			in := newFrameReader(theirs, &blocks{})
			if in.preamble() != nil {
				close(requested)
				_, _ = io.Copy(io.Discard, theirs)
				return
			}
			once := false
			for {
				f, err := in.next()
				if (err != nil || f.kind == frameOpen) && !once {
					once = true
					close(requested)
				}
				if err != nil {
					return
				}
			}
		}()
		_, _ = io.WriteString(theirs, greeting)
		if answer != "" {
			<-requested
			_, _ = io.WriteString(theirs, answer)
		}
		_ = theirs.Close()
		<-drained
	}()
	t.Cleanup(func() { _ = ours.Close(); <-done })
	return ours
}

func goodGreeting() string {
	return preamble + frameOf(frameHello, 0, string(Server{Home: "/", Dir: "/", Tmp: "/tmp"}.encode()))
}

func TestAGreetingThatIsNoneIsSaid(t *testing.T) {
	for name, c := range map[string]struct{ greeting, want string }{
		"nothing":              {"", "hung up|EOF"},
		"an error message":     {"exec /hermes-env: no such file or directory\n", "exec /her"},
		"a short message":      {"oops", "oops"},
		"another version":      {"HermEnv\x01" + goodGreeting()[8:], "version 1"},
		"no greeting":          {preamble, "EOF"},
		"another frame first":  {preamble + frameOf(frameData, 1, "x"), "before the greeting"},
		"a malformed greeting": {preamble + frameOf(frameHello, 0, "\xff\xff"), "malformed"},
		"a greeting too long":  {preamble + strings.Repeat(frameOf(frameHello, 0, strings.Repeat("x", maxPayload)), maxHello/maxPayload+1), "more than"},
		"a frame too long":     {preamble + "\xff\xff\xff\xff\x01\x00\x00\x00\x00", "more than"},
		"a refusal":            {preamble + frameOf(frameFail, 0, string(encodeFailure(errors.New("make its working directory: no")))), "working directory: no"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Dial(hostile(t, c.greeting, ""), Options{Why: func() string { return "the reason" }})
			require.Error(t, err)
			found := false
			for want := range strings.SplitSeq(c.want, "|") {
				found = found || strings.Contains(err.Error(), want)
			}
			require.True(t, found, "%v", err)
			require.Contains(t, err.Error(), "the reason")
		})
	}
}

func TestAServerThatSaysNothingIsGivenUp(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	_, err := Dial(ours, Options{HandshakeWait: 20 * time.Millisecond})
	require.ErrorContains(t, err, "no answer within")
}

// result is the answer to Exec with the given outputs.
func result(exit int64, total uint64, head, tail string) string {
	e := newMessage()
	e.int(exit)
	e.bool(false)
	e.bool(false)
	e.uint(0)
	for range 2 {
		e.uint(total)
		e.string(head)
		e.string(tail)
	}
	return string(e.message())
}

func TestAServerThatLiesIsLost(t *testing.T) {
	good := result(0, 2, "ab", "")
	tooMuch := result(0, 1<<40, strings.Repeat("x", noticeRoom+2000), "y")
	for name, answer := range map[string]string{
		"nothing":                 " ",
		"a frame of no type":      frameOf(99, 1, ""),
		"a frame too long":        "\x00\x02\x00\x01\x03\x00\x00\x00\x01",
		"a channel of its own":    frameOf(frameOpen, 7, "x"),
		"a second greeting":       frameOf(frameHello, 0, ""),
		"an answer that ends":     frameOf(frameEnd, 1, good[:8]),
		"an empty answer":         frameOf(frameEnd, 1, ""),
		"an answer too long":      frameOf(frameEnd, 1, "\x7f\xff\xff\xff"),
		"an answer with a rest":   frameOf(frameEnd, 1, string(append(func() []byte { e := encoder{b: []byte(good + "x")}; return e.message() }(), ""...))),
		"no exit code":            frameOf(frameEnd, 1, result(999, 0, "", "")),
		"a negative exit code":    frameOf(frameEnd, 1, result(-1, 0, "", "")),
		"more kept than written":  frameOf(frameEnd, 1, result(0, 1, "ab", "")),
		"more kept than asked":    frameOf(frameData, 1, tooMuch[:9000]) + frameOf(frameEnd, 1, tooMuch[9000:]),
		"a total below zero":      frameOf(frameEnd, 1, result(0, 1<<63, "", "")),
		"more than the window":    strings.Repeat(frameOf(frameData, 1, strings.Repeat("\x00", maxPayload)), firstWindow/maxPayload+1),
		"a window of three bytes": frameOf(frameWindow, 1, "abc"),
		"a window without end":    frameOf(frameWindow, 1, "\xff\xff\xff\xff"),
		"a malformed failure":     frameOf(frameFail, 1, "\xff"),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Dial(hostile(t, goodGreeting(), answer), Options{Why: func() string { return "out of memory" }})
			require.NoError(t, err)
			_, err = c.Exec(t.Context(), sandbox.Command{Args: []string{"true"}, MaxOutput: 100})
			require.ErrorIs(t, err, sandbox.ErrLost)
			require.ErrorContains(t, err, "out of memory")
			require.ErrorIs(t, c.Ping(t.Context()), sandbox.ErrLost, "a later call")
			require.ErrorIs(t, c.Upload(t.Context(), strings.NewReader(""), "."), sandbox.ErrLost)
			_, err = c.Download(t.Context(), ".")
			require.ErrorIs(t, err, sandbox.ErrLost)
			_, err = c.Start(t.Context(), sandbox.Command{Args: []string{"true"}})
			require.ErrorIs(t, err, sandbox.ErrLost)
			require.NoError(t, c.Close(t.Context()))
			require.ErrorIs(t, c.Ping(t.Context()), sandbox.ErrClosed)
		})
	}
}

func TestWhatComesForNoRequestIsDropped(t *testing.T) {
	answer := frameOf(frameData, 77, "x") + frameOf(frameFail, 5, "\xff") + frameOf(frameWindow, 9, "") + frameOf(frameEnd, 1, result(3, 2, "ab", ""))
	c, err := Dial(hostile(t, goodGreeting(), answer), Options{})
	require.NoError(t, err)
	r, err := c.Exec(t.Context(), sandbox.Command{Args: []string{"true"}})
	require.NoError(t, err)
	require.Equal(t, 3, r.ExitCode)
	require.Equal(t, "ab", r.Stdout.String())
	require.NoError(t, c.Close(t.Context()))
}

func TestADownloadThatBreaksOffIsNoWholeOne(t *testing.T) {
	answer := frameOf(frameData, 1, "\x00\x00\x00\x00half of an archive")
	c, err := Dial(hostile(t, goodGreeting(), answer), Options{})
	require.NoError(t, err)
	r, err := c.Download(t.Context(), "x")
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.ErrorIs(t, err, sandbox.ErrLost)
	require.Equal(t, "half of an archive", string(data))
	require.NoError(t, r.Close())
	require.NoError(t, c.Close(t.Context()))
}

func TestACancelThatIsNotAnsweredLosesTheSandbox(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	go func() { _, _ = io.WriteString(theirs, goodGreeting()) }()
	c, err := Dial(ours, Options{EndWait: 20 * time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = c.Exec(ctx, sandbox.Command{Args: []string{"sleep", "600"}})
	require.ErrorIs(t, err, sandbox.ErrLost)
	require.ErrorContains(t, err, "no answer")
	require.ErrorContains(t, c.Close(t.Context()), "close the sandbox")
}

func TestAServerThatFallsSilentIsLost(t *testing.T) {
	for name, script := range map[string]string{"an answer": "", "a request": strings.Repeat("x", 100_000)} {
		t.Run("waiting for it to take "+name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			go func() { _, _ = io.WriteString(theirs, goodGreeting()) }()
			go func() { _, _ = io.CopyN(io.Discard, theirs, 100) }() // and then not even that
			c, err := Dial(ours, Options{Silence: 40 * time.Millisecond})
			require.NoError(t, err)
			_, err = c.Exec(t.Context(), sandbox.Command{Script: script})
			require.ErrorIs(t, err, sandbox.ErrLost)
			require.ErrorContains(t, err, "has not answered for 40ms")
			require.NoError(t, c.Close(t.Context()))
		})
	}
}

// input is a stream of given bytes whose other direction goes nowhere.
type input struct{ io.Reader }

func (input) Write(p []byte) (int, error) { return len(p), nil }
func (input) Close() error                { return nil }

func TestAClientThatBreaksTheRulesIsRefused(t *testing.T) {
	greeting := preamble + frameOf(frameHello, 0, string(settings{}.encode()))
	for name, c := range map[string]struct{ sent, want string }{
		"no preamble":         {"GET / HTTP/1.1\r\n\r\n", "no server or client"},
		"no greeting":         {preamble + frameOf(frameOpen, 1, ""), "before the greeting"},
		"a bad variable":      {preamble + frameOf(frameHello, 0, string(settings{env: map[string]string{"A=B": ""}}.encode())), "can't be the name"},
		"a bad directory":     {preamble + frameOf(frameHello, 0, string(settings{dir: "/dev/null/x"}.encode())), "working directory"},
		"an id twice":         {greeting + strings.Repeat(frameOf(frameOpen, 1, ""), 2), "opened after"},
		"a frame that ends":   {greeting + "\x00\x00\x00\x05\x02\x00\x00\x00\x01abc", "unexpected EOF"},
		"a frame of no type":  {greeting + frameOf(0, 1, ""), "unknown type"},
		"hangs up in a frame": {greeting + "\x00\x00", "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Serve(t.Context(), input{strings.NewReader(c.sent)}, io.Discard, Config{Dir: t.TempDir(), TempDir: t.TempDir(), noSubreaper: true})
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("one that hangs up is not", func(t *testing.T) {
		require.NoError(t, Serve(t.Context(), input{strings.NewReader(greeting)}, io.Discard, Config{Dir: t.TempDir(), TempDir: t.TempDir(), noSubreaper: true}))
	})
}

func TestMoreThanTheWindowOrTooManyChannelsEndTheStream(t *testing.T) {
	flood := frameOf(frameOpen, 1, "") + strings.Repeat(frameOf(frameData, 1, strings.Repeat("x", maxPayload)), firstWindow/maxPayload)
	many := ""
	for i := range maxChannels {
		many += frameOf(frameOpen, uint32(i+1), "")
	}
	for name, c := range map[string]struct{ fits, more, want string }{
		"bytes":    {flood, frameOf(frameData, 1, "x"), "are allowed"},
		"channels": {many, frameOf(frameOpen, maxChannels+1, ""), "requests at once"},
	} {
		t.Run(name, func(t *testing.T) {
			receive := func(sent string) error {
				return newMux(strings.NewReader(sent), io.Discard, func() {}).receive(func(*channel) {})
			}
			require.ErrorIs(t, receive(c.fits), errHungUp)
			require.ErrorContains(t, receive(c.fits+c.more), c.want)
		})
	}
}

func TestRequestsThatMakeNoSenseAreAnswered(t *testing.T) {
	request := func(kind requestKind, rest string) string {
		e := newRequest(kind)
		e.b = append(e.b, rest...)
		return string(e.message())
	}
	sent := preamble + frameOf(frameHello, 0, string(settings{}.encode()))
	requests := []string{
		request(99, ""), request(0, ""), request(requestExec, "\xff"), request(requestExec, ""), request(requestPing, "x"),
		request(requestPoll, "\x07"), request(requestWrite, "\x01\xff"), request(requestStart, "\x01\x00"), "\xff\xff\xff\xff", "", "\x00",
	}
	for i, r := range requests {
		sent += frameOf(frameOpen, uint32(i+1), r)
		sent += frameOf(frameEnd, uint32(i+1), "")
	}
	var out answers
	in, feed := io.Pipe()
	out.want, out.done = len(requests), func() { _ = feed.Close() }
	go func() { _, _ = io.WriteString(feed, sent) }()
	require.NoError(t, Serve(t.Context(), in, &out, Config{Dir: t.TempDir(), TempDir: t.TempDir(), noSubreaper: true}))
	require.Equal(t, len(requests), out.failed())
}

// answers collects what a server says, until it has said enough.
type answers struct {
	bytes.Buffer
	want int
	done func()
}

func (a *answers) Write(p []byte) (int, error) {
	n, err := a.Buffer.Write(p)
	if a.failed() >= a.want {
		a.done()
	}
	return n, err
}

// failed counts the failures.
func (a *answers) failed() int {
	in := newFrameReader(bytes.NewReader(a.Bytes()), &blocks{})
	if in.preamble() != nil {
		return 0
	}
	n := 0
	for {
		f, err := in.next()
		if err != nil {
			return n
		}
		if f.kind == frameFail {
			n++
		}
	}
}

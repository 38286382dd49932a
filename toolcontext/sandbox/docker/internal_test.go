package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// frame returns one frame of an engine's stream.
func frame(stream byte, content string) string {
	h := []byte{stream, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(h[4:], uint32(len(content)))
	return string(h) + content
}

func TestTheEnginesStreamIsTakenApart(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	text := frame(1, "one") + frame(2, "problem ") + frame(1, "") + frame(2, long) + frame(1, " two")
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
		said := sandbox.NewCapture(20)
		out, err := io.ReadAll(newDemux(r, said))
		require.NoError(t, err, name)
		require.Equal(t, "one two", string(out), name)
		require.EqualValues(t, len("problem ")+len(long), said.Total(), name)
		require.Len(t, said.Output().Bytes(), 20, name)
	}
	for name, broken := range map[string]string{"no frames": "hello, world", "unknown stream": frame(7, "x"), "cut header": "\x01\x00\x00"} {
		_, err := io.ReadAll(newDemux(strings.NewReader(broken), sandbox.NewCapture(20)))
		require.Error(t, err, name)
	}
}

func FuzzDemuxTakesAnyBytes(f *testing.F) {
	f.Add([]byte(frame(1, "out") + frame(2, "err")))
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'})
	f.Add([]byte{2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		said := sandbox.NewCapture(100)
		out, _ := io.ReadAll(newDemux(bytes.NewReader(data), said))
		if int64(len(out))+said.Total() > int64(len(data)) {
			t.Fatalf("%d bytes and %d of errors out of %d", len(out), said.Total(), len(data))
		}
	})
}

func TestLastWordsEndAnOutput(t *testing.T) {
	const last = "LASTWORDS "
	for name, c := range map[string]struct {
		text, want string
		code       int
	}{
		"at once":            {last + "0\n", "", 0},
		"after output":       {"out\n" + last + "3\n", "out\n", 3},
		"with output after":  {"out" + last + "124\nlater", "out", 124},
		"none":               {"out LASTWORD", "out LASTWORD", -1},
		"without a code":     {"out" + last + "x\n", "out" + last + "x\n", -1},
		"a code too high":    {last + "256\n", last + "256\n", -1},
		"twice, first wrong": {last + "no\n" + last + "7\n", last + "no\n", 7},
	} {
		for _, size := range []int{1, 2, 7, 100} {
			o := newOutput(0, last)
			for text := []byte(c.text); len(text) > 0; {
				n := min(size, len(text))
				o.write(text[:n])
				text = text[n:]
			}
			out, code := o.close()
			require.Equal(t, c.code, code, "%s by %d", name, size)
			require.Equal(t, c.want, string(out.Bytes()), "%s by %d", name, size)
		}
	}
}

func FuzzOutputsKeepEverythingBeforeTheLastWords(f *testing.F) {
	f.Add([]byte("text"), []byte("LAST LAST 1"), uint8(3))
	f.Fuzz(func(t *testing.T, before, between []byte, size uint8) {
		const last = "LASTWORDS "
		if bytes.Contains(append(append([]byte{}, before...), between...), []byte("LAST")) {
			return
		}
		o := newOutput(1<<20, last)
		text := append(append(append([]byte{}, before...), between...), []byte(last+"9\n")...)
		for len(text) > 0 {
			n := min(int(size)+1, len(text))
			o.write(text[:n])
			text = text[n:]
		}
		out, code := o.close()
		if code != 9 || int(out.Total) != len(before)+len(between) {
			t.Fatalf("code %d, %d bytes", code, out.Total)
		}
	})
}

func TestStartsRampUpAndBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStarts(4)
		ctx, cancel := context.WithCancelCause(t.Context())
		begun := make(chan struct{}, 100)
		results := make(chan error, 100)
		wait := func(n int) {
			t.Helper()
			synctest.Wait()
			require.Len(t, begun, n)
		}
		for range 10 {
			go func() {
				err := s.acquire(ctx)
				if err == nil {
					begun <- struct{}{}
				}
				results <- err
			}()
		}
		wait(2) // cold
		s.release(true)
		wait(4) // one in its place, and one more
		s.release(true)
		wait(6)
		s.release(true)
		wait(7) // four at once is the most
		s.release(false)
		wait(7) // the limit is two now, and three run
		s.release(true)
		wait(8)
		cause := errors.New("enough")
		cancel(cause)
		synctest.Wait()
		s.release(true)
		s.release(true)
		s.release(true)
		failed := 0
		for range 10 {
			if errors.Is(<-results, cause) {
				failed++
			}
		}
		require.Equal(t, 2, failed)
		require.Zero(t, s.running)
		require.Empty(t, s.queue)
		require.NoError(t, s.acquire(t.Context()), "the place of the one that left is free")
	})
}

package sandbox_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestCaptureKeepsTheHeadAndTheTailWhateverTheWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 200).Draw(t, "limit")
		writes := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 150), 0, 12).Draw(t, "writes")
		c := sandbox.NewCapture(limit)
		var all []byte
		for _, w := range writes {
			n, err := c.Write(w)
			require.NoError(t, err)
			require.Equal(t, len(w), n)
			all = append(all, w...)
			out := c.Output()
			require.EqualValues(t, len(all), out.Total)
			require.EqualValues(t, len(all), c.Total())
			head, tail := limit*40/100, limit-limit*40/100
			if len(all) <= limit {
				require.Zero(t, out.Omitted())
				require.True(t, bytes.Equal(all, out.Bytes()))
				continue
			}
			require.EqualValues(t, len(all)-limit, out.Omitted())
			require.True(t, bytes.Equal(all[:head], out.Head))
			require.True(t, bytes.Equal(all[len(all)-tail:], out.Tail))
		}
		require.Equal(t, c.Output(), c.Close())
		_, err := c.Write([]byte("late"))
		require.NoError(t, err)
		require.EqualValues(t, len(all), c.Total())
	})
}

func TestCaptureNeedsMemoryForItsLimitOnly(t *testing.T) {
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	c := sandbox.NewCapture(1000)
	require.Zero(t, testing.AllocsPerRun(50, func() {
		_, _ = c.Write(chunk)
	}), "a full capture allocates")
	require.EqualValues(t, 51<<20, c.Total())
	require.Equal(t, sandbox.DefaultMaxOutput, func() int {
		d := sandbox.NewCapture(0)
		for range 3 {
			_, _ = d.Write(chunk)
		}
		return len(d.Output().Bytes())
	}())
}

func TestCaptureTakesWritesFromManyGoroutines(t *testing.T) {
	c := sandbox.NewCapture(100)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				_, _ = c.Write([]byte("abc"))
				c.Total()
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 24000, c.Output().Total)
}

func TestOutputAsTextSaysWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		out  sandbox.Output
		want string
	}{
		"nothing":           {sandbox.Output{}, ""},
		"whole":             {sandbox.Output{Head: []byte("he"), Tail: []byte("llo"), Total: 5}, "hello"},
		"whole, not text":   {sandbox.Output{Head: []byte("\xff"), Tail: []byte("\x80x"), Total: 3}, "\xff\x80x"},
		"whole, split rune": {sandbox.Output{Head: []byte("\xc3"), Tail: []byte("\xa9"), Total: 2}, "é"},
		"cut":               {sandbox.Output{Head: []byte("ab"), Tail: []byte("yz"), Total: 26}, "ab" + notice(22, 26) + "yz"},
		"only a tail":       {sandbox.Output{Tail: []byte("z"), Total: 26}, notice(25, 26) + "z"},
		"cut in runes":      {sandbox.Output{Head: []byte("a\xf0\x9f\x98"), Tail: []byte("\x82z"), Total: 100}, "a" + notice(98, 100) + "z"},
		"cut after a rune":  {sandbox.Output{Head: []byte("é"), Tail: []byte("é"), Total: 100}, "é" + notice(96, 100) + "é"},
		"cut, not text":     {sandbox.Output{Head: []byte("\xff\xff"), Tail: []byte("\x80\x80\x80\x80\x80"), Total: 100}, "\xff\xff" + notice(93, 100) + "\x80\x80\x80\x80\x80"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.out.String()) })
	}
	require.Equal(t, "a\nb", sandbox.Result{Stdout: sandbox.Output{Head: []byte("a"), Total: 1}, Stderr: sandbox.Output{Head: []byte("b"), Total: 1}}.String())
}

func notice(omitted, total int) string {
	return fmt.Sprintf("\n\n... [OUTPUT TRUNCATED - %d bytes omitted out of %d total] ...\n\n", omitted, total)
}

func TestTextThatWasCutIsStillText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 100, -1).Draw(t, "text")
		c := sandbox.NewCapture(rapid.IntRange(1, 60).Draw(t, "limit"))
		_, _ = c.Write([]byte(text))
		got := c.Output().String()
		require.True(t, utf8.ValidString(got), "%q", got)
		if before, after, cut := strings.Cut(got, "\n\n... [OUTPUT TRUNCATED - "); cut && !strings.Contains(text, "TRUNCATED") {
			_, end, _ := strings.Cut(after, "] ...\n\n")
			require.True(t, strings.HasPrefix(text, before))
			require.True(t, strings.HasSuffix(text, end))
		}
	})
}

func ExampleCapture() {
	c := sandbox.NewCapture(10)
	fmt.Fprint(c, "begin, a long middle, the end")
	fmt.Println(c.Output())
	// Output:
	// begi
	//
	// ... [OUTPUT TRUNCATED - 19 bytes omitted out of 29 total] ...
	//
	// he end
}

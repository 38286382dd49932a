package inside

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAQueueGivesWhatItGotInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var (
		q         queue
		free      blocks
		want, got []byte
	)
	next := byte(0)
	for range 400 {
		n := []int{0, 1, 7, 600, 5000, copied, maxPayload}[random.IntN(7)]
		p := bytes.Repeat([]byte{next}, n)
		next++
		want = append(want, p...)
		if n > copied {
			whole := free.get()
			q.push(whole[headerSize:headerSize+copy(whole[headerSize:], p)], whole)
		} else {
			q.push(p, nil)
			clear(p) // a reader's buffer is used again
		}
		for random.IntN(3) > 0 && q.size > 0 {
			buf := make([]byte, 1+random.IntN(2*maxPayload))
			got = append(got, buf[:q.read(buf, &free)]...)
		}
	}
	for q.size > 0 {
		buf := make([]byte, 1<<20)
		got = append(got, buf[:q.read(buf, &free)]...)
	}
	require.True(t, bytes.Equal(want, got))
	require.Zero(t, q.read(make([]byte, 1), &free))
}

func TestAQueueOfTinyFramesTakesLittleMoreThanTheirBytes(t *testing.T) {
	for _, n := range []int{1, 100, 600, copied/2 + 1, copied} {
		var q queue
		for q.size < firstWindow {
			q.push(make([]byte, n), nil)
		}
		held := 0
		for _, p := range q.pieces {
			held += cap(p.bytes)
		}
		require.LessOrEqual(t, held, 2*q.size+copied, "frames of %d bytes", n)
		require.Less(t, len(q.pieces), 2000, "frames of %d bytes", n)
	}
}

package inside

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pour lets a window's other side send all it may, again and again, and this side
// read it, with a pause after each piece. It returns the window's size in the end.
func pour(t *testing.T, growth *atomic.Int64, total int, pause time.Duration) *window {
	w := newWindow()
	for left := total; left > 0; {
		n := min(64<<10, w.allowed, left)
		require.Positive(t, n, "a reader that keeps up never stops its sender")
		require.True(t, w.take(n))
		time.Sleep(pause)
		w.read(n, growth)
		left -= n
	}
	return &w
}

func budget(bytes int64) *atomic.Int64 {
	var growth atomic.Int64
	growth.Store(bytes)
	return &growth
}

func TestWindowsGrowWhereTheStreamIsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		growth := budget(maxGrowth)
		w := pour(t, growth, 32<<20, 10*time.Microsecond)
		require.Equal(t, maxWindow, w.size)
		w.giveBack(growth)
		w.giveBack(growth)
		require.EqualValues(t, maxGrowth, growth.Load())
	})
}

func TestWindowsStaySmallWhereTheStreamIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, firstWindow, pour(t, budget(maxGrowth), 4<<20, 20*time.Millisecond).size)
	})
}

func TestWindowsGrowToWhatIsUnderWayOnALongWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 100 * time.Millisecond
		growth, w := budget(maxGrowth), newWindow()
		leave := []int{w.allowed} // what arrives in each round trip
		for range 30 {
			arrived := leave[0]
			leave = leave[1:]
			time.Sleep(trip)
			var granted int
			for arrived > 0 {
				n := min(arrived, 64<<10)
				require.True(t, w.take(n))
				granted += w.read(n, growth)
				arrived -= n
			}
			leave = append(leave, granted)
		}
		require.Equal(t, maxWindow, w.size)
	})
}

func TestWindowsOfOneStreamShareWhatTheyGrowBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		growth := budget(firstWindow)
		first := pour(t, growth, 8<<20, 0)
		require.Equal(t, 2*firstWindow, first.size)
		require.Equal(t, firstWindow, pour(t, growth, 8<<20, 0).size)
		first.giveBack(growth)
		require.Equal(t, 2*firstWindow, pour(t, growth, 8<<20, 0).size)
	})
}

func TestMoreThanTheWindowIsNotTaken(t *testing.T) {
	w := newWindow()
	require.True(t, w.take(firstWindow))
	require.False(t, w.take(1))
	require.Positive(t, w.read(firstWindow/2, budget(0)))
	require.True(t, w.take(firstWindow/2))
	require.False(t, w.take(1))
}

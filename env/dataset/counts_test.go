package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func numberedDigest(n int) [16]byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return [16]byte(sum[:16])
}

func TestCounts_CountsEveryDigest(t *testing.T) {
	var c Counts
	require.False(t, c.Has(numberedDigest(0)))
	for i := range 1000 {
		require.Equal(t, 1, c.Add(numberedDigest(i)))
	}
	for i := range 1000 {
		require.True(t, c.Has(numberedDigest(i)))
		require.Equal(t, 2, c.Add(numberedDigest(i)))
		require.False(t, c.Has(numberedDigest(1000+i)))
	}
	require.Equal(t, 3, c.Add(numberedDigest(7)))
}

func TestCounts_TakesDigestsOfZerosAndOnesAtTheEndOfTheTable(t *testing.T) {
	var c Counts
	require.Equal(t, 1, c.Add([16]byte{}))
	require.Equal(t, 2, c.Add([16]byte{}))
	for i := range byte(100) { // all begin their search at the last place
		digest := [16]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, i}
		require.Equal(t, 1, c.Add(digest))
		require.Equal(t, 2, c.Add(digest))
	}
}

func TestCounts_NeedsFewBytesPerDigest(t *testing.T) {
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const digests = 100_000
	before := held()
	var c Counts
	for i := range digests {
		c.Add(numberedDigest(i))
	}
	require.Less(t, float64(held()-before)/digests, 40.0, "bytes per digest")
	runtime.KeepAlive(&c)
}

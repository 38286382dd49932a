package gcpace

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPercentFor_BoundsGarbage(t *testing.T) {
	require.Equal(t, maxPercent, percentFor(0))
	require.Equal(t, maxPercent, percentFor(1<<20))
	for live := uint64(1 << 20); live < 4<<30; live += live / 7 {
		percent := percentFor(live)
		if live > Large {
			require.Equal(t, largePercent, percent)
			continue
		}
		require.GreaterOrEqual(t, percent, defaultPercent)
		garbage := live * uint64(percent) / 100
		require.LessOrEqual(t, garbage, max(uint64(Garbage), live)*101/100, "with %d bytes live", live)
		if live*maxPercent/100 > Garbage && live < Garbage {
			require.GreaterOrEqual(t, garbage, uint64(Garbage)*8/10, "with %d bytes live", live)
		}
	}
}

func TestRelax_EndsWithTheSettingBefore(t *testing.T) {
	t.Setenv("GOGC", "") // so that its value is restored
	require.NoError(t, os.Unsetenv("GOGC"))
	t.Setenv("GOMEMLIMIT", "")
	require.NoError(t, os.Unsetenv("GOMEMLIMIT"))
	before := current()
	end := Relax()
	require.Greater(t, current(), before)
	end()
	end()
	require.Equal(t, before, current())
}

func TestRelax_LeavesTheSettingOfTheUser(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "150")
			before := current()
			defer Relax()()
			require.Equal(t, before, current())
		})
	}
}

func current() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}

package prompts

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/dataset"
)

func TestNamed_NeedsFewBytesPerRow(t *testing.T) {
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const count = 50_000
	for name, form := range map[string]string{"rows with names": `{"id":"question-%d"}`, "rows without names": `{"prompt":"question %d"}`} {
		t.Run(name, func(t *testing.T) {
			rows := func(yield func(dataset.KeyedRow, error) bool) {
				for i := range count {
					row := dataset.Row{Data: fmt.Appendf(nil, form, i)}
					if !yield(dataset.KeyedRow{Row: row, Key: row.Digest()}, nil) {
						return
					}
				}
			}
			before, seen := held(), 0
			for _, err := range named(rows, defaultIDField) {
				require.NoError(t, err)
				if seen++; seen == count {
					require.Less(t, (float64(held())-float64(before))/count, 40.0, "bytes per row")
				}
			}
			require.Equal(t, count, seen)
		})
	}
}

//go:build !race

package agentloop_test

import (
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The stack of a rollout is 8 KB or less while its model thinks. A frame that got larger
// makes it 16 KB, for as many goroutines as rollouts run. The race detector has larger ones.
func TestRunner_NeedsLittleStackWhileModelsThink(t *testing.T) {
	const rollouts = 500
	url := startMock(t, 50*time.Millisecond)
	before := stackBytes()
	done, counted := make(chan struct{}), make(chan []uint64)
	go func() {
		var samples []uint64
		for {
			select {
			case <-done:
				counted <- samples
				return
			default:
				if all := stackBytes(); runtime.NumGoroutine() > rollouts {
					samples = append(samples, all)
				}
			}
		}
	}()
	recordedRollouts(t, url, rollouts, rollouts)
	close(done)
	samples := <-counted
	require.NotEmpty(t, samples)
	slices.Sort(samples)
	perRollout := (samples[len(samples)/2] - before) / rollouts
	t.Logf("%d bytes of stack per rollout, %d samples", perRollout, len(samples))
	require.Less(t, perRollout, uint64(13<<10))
}

// stackBytes returns how much memory stacks take, without those that are free.
func stackBytes() uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

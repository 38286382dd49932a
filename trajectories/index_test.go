package trajectories

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// TestWhatIsKeptOfAFinishedRolloutIsSmall fills an index as a run of 200,000 rollouts
// does: conversations must not stay, and nothing may grow faster than their number.
func TestWhatIsKeptOfAFinishedRolloutIsSmall(t *testing.T) {
	const most = 64 // bytes per rollout, the slack of growing tables included
	template := simple("item", 0, 0)
	template.Messages = append(template.Messages, chat.User(strings.Repeat("long ", 2000)))
	held := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := held()
	x := newIndex()
	for i := range 200_000 {
		r := *template
		r.ID = fmt.Sprintf("r%016x", i)
		r.Step, r.Attempt = i/4, i%4
		r.ItemID = fmt.Sprintf("sha256:%064x", i/4)
		r.ItemDigest = r.ItemID
		require.NoError(t, x.reserve(r.Key(), r.ID))
		x.add(entryOf(&r, 10_000))
		if i == 20_000 || i == 199_999 {
			require.Less(t, (held()-before)/float64(i+1), float64(most), "bytes per rollout at %d", i+1)
		}
	}
	t.Logf("%.0f bytes per rollout", (held()-before)/200_000)
	require.Equal(t, 200_000, x.n)
	require.Empty(t, x.pending)
}

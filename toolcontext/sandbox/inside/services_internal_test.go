package inside

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// FuzzAnswersAboutServices reads what a server might say of services and of watched
// paths: what can be read is what was written, and is bounded.
func FuzzAnswersAboutServices(f *testing.F) {
	services := []sandbox.Service{{PID: 7, Command: "httpd -p 80", Listens: []string{"tcp [::]:80"}}, {PID: 8, Command: "sh", Because: "parent"}}
	events := []sandbox.WatchEvents{{Path: "/logs/verifier/reward.txt", Created: 1, Written: 2, Elsewhere: 3}, {Path: "/tests", Left: 1, Arrived: 1}}
	var a, b encoder
	encodeServices(&a, services)
	encodeWatchEvents(&b, events, true)
	f.Add(a.b)
	f.Add(b.b)
	f.Add([]byte{200, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &decoder{b: data}
		list := decodeServices(d)
		if d.end() == nil {
			require.LessOrEqual(t, len(list), maxServices)
		}
		d = &decoder{b: data}
		events, _ := decodeWatchEvents(d)
		if d.end() == nil {
			require.LessOrEqual(t, len(events), maxWatchedPaths)
		}
	})
	d := &decoder{b: a.b}
	require.Equal(f, services, decodeServices(d))
	require.NoError(f, d.end())
	d = &decoder{b: b.b}
	got, lost := decodeWatchEvents(d)
	require.NoError(f, d.end())
	require.True(f, lost)
	require.Equal(f, events, got)
}

package inside

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// job is a background process that only knows whether it runs.
type job struct {
	sandbox.Process
	running bool
}

func (j *job) Poll(context.Context) (sandbox.Result, bool, error) {
	return sandbox.Result{}, j.running, nil
}

func TestEndedProcessesMakeWayAndRunningOnesStay(t *testing.T) {
	var table processTable
	jobs := make([]*job, maxProcesses)
	for i := range jobs {
		jobs[i] = &job{running: true}
		id, err := table.add(t.Context(), jobs[i], 10+i)
		require.NoError(t, err)
		require.EqualValues(t, i+1, id)
	}
	_, err := table.add(t.Context(), &job{}, 0)
	require.ErrorContains(t, err, "256 background processes are running")

	jobs[7].running, jobs[9].running = false, false
	id, err := table.add(t.Context(), &job{}, 0)
	require.NoError(t, err)
	require.EqualValues(t, maxProcesses+1, id)
	_, _, err = table.find(8)
	require.ErrorIs(t, err, sandbox.ErrEnded)
	for _, kept := range []uint64{7, 9, 10} {
		p, limit, err := table.find(kept)
		require.NoError(t, err)
		require.Same(t, jobs[kept-1], p)
		require.EqualValues(t, 10+kept-1, limit)
	}
}

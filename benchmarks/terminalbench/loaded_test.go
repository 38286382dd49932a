package terminalbench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNotes_CountTasksWhoseServicesWereEnded(t *testing.T) {
	e := &Environment{}
	require.Empty(t, e.Notes())
	e.stopped.add("b", "/app/y.py")
	e.stopped.add("a", "/app/x.py")
	e.stopped.add("a", "/app/x.py")
	require.Equal(t, []string{"in 2 tasks, 3 rollouts of this session got no reward after processes of the agent that listened had been ended, as verify_in, keep_processes or secrets of the tests want it: a (/app/x.py), b (/app/y.py)"}, e.Notes())
	for _, name := range []string{"c", "d", "e", "f"} {
		e.stopped.add(name, "/app/x.py")
	}
	require.Contains(t, e.Notes()[0], ", 1 more")
}

package terminalbench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNotes_CountTasksWhoseTestsLoadTheAgentsCode(t *testing.T) {
	e := &Environment{}
	require.Empty(t, e.Notes())
	e.loaded.add("b", "/app/y.py")
	e.loaded.add("a", "/app/x.py")
	e.loaded.add("a", "/app/x.py")
	require.Equal(t, []string{"the tests of 2 tasks (3 rollouts of this session) load the agent's code into their own process, where no harness can detect a forged reward: a (/app/x.py), b (/app/y.py)"}, e.Notes())
	for _, name := range []string{"c", "d", "e", "f"} {
		e.loaded.add(name, "/app/x.py")
	}
	require.Contains(t, e.Notes()[0], ", 1 more")
}

package docker

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

func TestLastState_TellsTheRolloutsDoingFromTheMachines(t *testing.T) {
	finished := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	killed := state{Status: "exited", ExitCode: exitKilled, Finished: finished}
	memory := killed
	memory.OOMKilled = true
	for name, c := range map[string]struct {
		last          lastState
		inside, again bool
		words         string
	}{
		"killed from outside":               {lastState{state: killed}, false, true, "killed from outside"},
		"out of memory":                     {lastState{state: memory, heard: true, memory: finished.Add(-time.Second)}, true, true, "ran out of memory"},
		"out of memory, noted late":         {lastState{state: memory, heard: true, memory: finished.Add(time.Second)}, true, true, "ran out of memory"},
		"a command out of memory long ago":  {lastState{state: memory, heard: true, memory: finished.Add(-time.Minute)}, false, true, "killed from outside"},
		"out of memory, nobody knows when":  {lastState{state: memory}, true, true, "ran out of memory"},
		"no threads left":                   {lastState{state: state{Status: "exited", ExitCode: 2}, said: "runtime: failed to create new OS thread (have 29 already; errno=11)"}, true, true, "limit on processes"},
		"a fault of the server":             {lastState{state: state{Status: "exited", ExitCode: 2}, said: "panic: oops"}, false, true, "its server said: panic: oops"},
		"a harness that was silent":         {lastState{state: state{Status: "exited", ExitCode: inside.ExitForsaken}}, false, false, "exit code 3"},
		"removed":                           {lastState{err: errNoContainer}, false, false, "its container is gone"},
		"an engine that does not answer":    {lastState{err: errors.New("connection refused")}, false, false, "connection refused"},
		"a broken stream":                   {lastState{state: state{Running: true, Status: "running"}}, false, false, "still runs"},
		"paused":                            {lastState{state: state{Running: true, Status: "paused"}}, false, false, "still runs"},
		"a server beside, killed":           {lastState{state: state{Running: true, Status: "running"}, beside: true, code: exitKilled}, true, true, "exit code 137"},
		"a server beside, its stream broke": {lastState{state: state{Running: true, Status: "running"}, beside: true}, false, false, "still runs"},
		"ended by the harness":              {lastState{state: killed, stopped: "its server did not answer"}, true, true, "its server did not answer"},
		"starved":                           {lastState{state: state{Running: true}, used: "what ran in it had used up its processors"}, true, false, "did not answer"},
	} {
		got := c.last.explain()
		require.Equal(t, c.inside, got.inside, name)
		require.Equal(t, c.again, got.again, name)
		require.Contains(t, got.words, c.words, name)
	}
}

func TestUse_SaysWhatIsUsedUp(t *testing.T) {
	for name, c := range map[string]struct {
		use  use
		want string
	}{
		"room":            {use{Memory: 100 << 20, MemoryLimit: 200 << 20, Processes: 5, PIDsLimit: 100}, ""},
		"no limits":       {use{Memory: 100 << 20, Processes: 5000}, ""},
		"memory":          {use{Memory: 199 << 20, MemoryLimit: 200 << 20, PIDsLimit: 100}, "memory (199 of 200 MiB)"},
		"processes":       {use{Processes: 95, PIDsLimit: 100}, "processes (95 of 100)"},
		"processors":      {use{Processes: 200, PIDsLimit: 2048, Periods: 300, Throttled: 290}, "processors (200 processes"},
		"a busy build":    {use{Processes: 20, PIDsLimit: 2048, Periods: 300, Throttled: 290}, ""},
		"almost too much": {use{Memory: 190 << 20, MemoryLimit: 200 << 20, Processes: 89, PIDsLimit: 100}, ""},
	} {
		got := c.use.exhausted()
		if c.want == "" {
			require.Empty(t, got, name)
			continue
		}
		require.Contains(t, got, c.want, name)
	}
}

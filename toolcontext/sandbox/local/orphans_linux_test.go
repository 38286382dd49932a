package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
)

// subreaperBase names the variable that makes this test binary adopt orphans: it
// would for all tests of its process.
const subreaperBase = "LOCAL_TEST_SUBREAPER_BASE"

func TestAdoptedOrphansAreEndedAndReaped(t *testing.T) {
	base := os.Getenv(subreaperBase)
	if base == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestAdoptedOrphansAreEndedAndReaped$")
		c.Env = append(os.Environ(), subreaperBase+"="+t.TempDir())
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	p := newProvider(t, local.Config{BaseDir: base, Subreaper: true, NoCgroups: true})
	s, other := open(t, p, sandbox.Spec{}), open(t, p, sandbox.Spec{})

	// It sheds its group, parent, environment, pipes and directory.
	bare := `(env -i "$(command -v setsid)" sh -c 'cd /; echo $$ > "$1"; exec 2>&-; while :; do sleep 600; done' sh "$PWD/pid" </dev/null >/dev/null 2>&1 &)
		while [ ! -s pid ]; do sleep 0.01; done; cat pid`
	alive := func(pid string) bool {
		_, err := os.Stat("/proc/" + pid)
		return err == nil
	}
	pid := strings.TrimSpace(run(t, s, sandbox.Command{Script: bare}).Stdout.String())
	require.True(t, alive(pid))
	require.NoError(t, other.KillAll(t.Context()))
	require.NoError(t, s.KillAll(t.Context()))
	require.True(t, alive(pid), "with two sandboxes open it could be the other's")

	// A child of the harness is no orphan.
	mine := exec.Command("sleep", "600")
	require.NoError(t, mine.Start())
	require.NoError(t, other.Close(t.Context()))
	require.NoError(t, s.KillAll(t.Context()))
	require.False(t, alive(pid), "with one sandbox open it can only be its own")
	require.True(t, alive(strconv.Itoa(mine.Process.Pid)))

	// Orphans that end by themselves leave no zombie once somebody looks.
	run(t, s, sandbox.Command{Script: `i=0; while [ $i -lt 5 ]; do (setsid true &); i=$((i+1)); done; sleep 0.05`})
	require.NoError(t, s.KillAll(t.Context()))
	pid = strings.TrimSpace(run(t, s, sandbox.Command{Script: "rm pid; " + bare}).Stdout.String())
	require.NoError(t, p.Close(t.Context()))
	require.False(t, alive(pid))
	require.Equal(t, []string{strconv.Itoa(mine.Process.Pid)}, children(t))
	require.NoError(t, mine.Process.Kill())
	_ = mine.Wait() // killed
}

// children returns the processes whose parent this one is, zombies too.
func children(t *testing.T) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	var found []string
	for _, stat := range stats {
		line, err := os.ReadFile(stat)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(line), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			found = append(found, filepath.Base(filepath.Dir(stat)))
		}
	}
	return found
}

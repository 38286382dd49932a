package local_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
)

// doomedBase names the variable that makes this test binary a harness that is killed.
const doomedBase = "LOCAL_TEST_DOOMED_BASE"

// TestDoomedHarness is no test of its own: TestReap runs it in a process that it
// kills, as a power cut would.
func TestDoomedHarness(t *testing.T) {
	base := os.Getenv(doomedBase)
	if base == "" {
		return
	}
	p, err := local.New(local.Config{BaseDir: base, Run: "doomed"})
	require.NoError(t, err)
	for i := range 3 {
		s, err := p.Create(t.Context(), sandbox.Spec{Rollout: fmt.Sprint(i)})
		require.NoError(t, err)
		run(t, s, sandbox.Command{Script: "sleep 600 & (setsid sh -c 'sleep 600 & echo up > up; wait' &) ; while [ ! -e up ]; do sleep 0.01; done; chmod 500 ."})
	}
	fmt.Println("\nready")
	time.Sleep(time.Hour)
}

// leaveBehind runs a harness with three sandboxes and kills it.
func leaveBehind(t *testing.T, base string) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestDoomedHarness$")
	c.Env = append(os.Environ(), doomedBase+"="+base)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	for sc := bufio.NewScanner(out); sc.Scan() && sc.Text() != "ready"; {
	}
	require.NoError(t, c.Process.Kill())
	var exit *exec.ExitError
	require.True(t, errors.As(c.Wait(), &exit))
}

func TestReapRemovesWhatADeadHarnessLeftAndNothingElse(t *testing.T) {
	base := t.TempDir()
	leaveBehind(t, base)
	require.Len(t, runningIn(base), 3*3)

	p := newProvider(t, local.Config{BaseDir: base})
	mine := open(t, p, sandbox.Spec{Rollout: "mine"})
	run(t, mine, sandbox.Command{Script: "sleep 600 & echo kept > file"})
	stranger := filepath.Join(base, "somebody's folder")
	require.NoError(t, os.Mkdir(stranger, 0o700))
	file := filepath.Join(base, "1.2.3.4.5")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Cleanup(func() { _ = os.Remove(stranger); _ = os.Remove(file) })

	n, err := p.Reap(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Len(t, runningIn(base), 1, "mine, and nothing of the dead")
	require.Equal(t, "kept\n", run(t, mine, sandbox.Command{Script: "cat file"}).Stdout.String())
	require.DirExists(t, stranger)
	require.FileExists(t, file)
	n, err = p.Reap(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, os.Remove(stranger))
	require.NoError(t, os.Remove(file))
}

func TestHarnessesThatReapAtOnceShareTheWork(t *testing.T) {
	base := t.TempDir()
	leaveBehind(t, base)
	leaveBehind(t, base)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total int
	)
	for range 4 {
		p := newProvider(t, local.Config{BaseDir: base})
		wg.Go(func() {
			n, err := p.Reap(context.Background())
			mu.Lock()
			defer mu.Unlock()
			total += n
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 6, total)
}

func TestTheOwnerFileSaysWhoseTheSandboxIs(t *testing.T) {
	p := newProvider(t, local.Config{Run: "run-1"})
	s := open(t, p, sandbox.Spec{Rollout: "rollout-7"})
	data, err := os.ReadFile(filepath.Join(filepath.Dir(s.Info().Home), "owner.json"))
	require.NoError(t, err)
	var owner map[string]any
	require.NoError(t, json.Unmarshal(data, &owner))
	require.EqualValues(t, os.Getpid(), owner["pid"])
	require.Equal(t, "run-1", owner["run"])
	require.Equal(t, "rollout-7", owner["rollout"])
	require.NotZero(t, owner["start_time"])
	require.NotEmpty(t, owner["boot_id"])
}

package docker_test

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// BenchmarkKilledPrograms kills the program, with eight rollouts at once, 50 times at random
// instants and counts the containers of dead harnesses: what a kill leaves, what is
// still there after the next start, and after the last start of all.
func BenchmarkKilledPrograms(b *testing.B) {
	const kills = 50
	binary := shared.server(b)
	dir := b.TempDir()
	program := func(attempts, name string) *exec.Cmd {
		c := exec.Command(binary, "evaluate", "--run-dir", filepath.Join(dir, name), "--environment", "terminal-test", "--env.eval_items=all", "--env.attempts="+attempts,
			"--env.max_eval_workers=8", "--openai.base_url=replay:", "--openai.model_name=replay", "--env.terminal_backend=docker", "--env.docker_image="+dockertest.Image)
		c.Dir = dir
		return c
	}
	for range b.N {
		killed := map[string]bool{} // process ids
		left := func() (n int) {
			for _, pid := range strings.Fields(dockertest.Command(b, "ps", "-a", "--filter", "label=hermes-env.owner-pid", "--format", `{{.Label "hermes-env.owner-pid"}}`)) {
				if killed[pid] {
					n++
				}
			}
			return n
		}
		byKills, survivors, most := 0, 0, 0
		for i := range kills {
			c := program("1000", "killed"+strconv.Itoa(i))
			require.NoError(b, c.Start())
			time.Sleep(time.Duration(100+rand.IntN(2900)) * time.Millisecond)
			require.NoError(b, c.Process.Kill())
			require.Error(b, c.Wait())
			survivors += left() // of those killed before this one started
			killed[strconv.Itoa(c.Process.Pid)] = true
			n := left()
			byKills += n // may count what is being removed twice
			most = max(most, n)
		}
		// The engine finishes what it was asked for at the instant of the last kill.
		time.Sleep(3 * time.Second)
		out, err := program("1", "last").CombinedOutput()
		require.NoError(b, err, "%s", out)
		b.ReportMetric(kills, "kills")
		b.ReportMetric(float64(byKills), "left-by-kills")
		b.ReportMetric(float64(most), "most-left-at-once")
		b.ReportMetric(float64(survivors), "left-of-earlier-kills")
		b.ReportMetric(float64(left()), "left-after-the-last-start")
	}
	b.ReportMetric(0, "ns/op")
}

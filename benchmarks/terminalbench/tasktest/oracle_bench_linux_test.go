package tasktest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/benchmarks/terminalbench/tasktest"
	"github.com/hermes-env/hermes-env/env/dataset/harbor"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// benchAttempts is how often each task is done.
const benchAttempts = 4

// left out of both: the docker command has no steps, and no health checks as tasks have them.
var notByCommand = []string{"two-steps", "unprivileged-keeper"}

// BenchmarkOracle lets the reference solutions do the demonstration tasks in
// containers, a number of them at once, with images that are there already. It reports
//
//	wall-s      wall clock
//	work-s      seconds in containers' own work: making them, solutions, tests, removing
//	harness-%   what the harness itself took, of the time of all rollouts together
//	idle-%      share of the places that nothing ran in: 1 − rollouts' time / (wall × at once)
//	peak-MB     largest memory of the process
//	left        containers left behind, and images made although they were there
//
// The same by=docker-command does the same work with docker run, cp, exec and rm.
func BenchmarkOracle(b *testing.B) {
	tasktest.MakeImages(b)
	binary := dockertest.BuildServer(b, b.TempDir())
	evaluate := func(dir string, atOnce, attempts int) *exec.Cmd {
		c := exec.Command(binary, "evaluate", "--environment", "tasks", "--env.tasks", tasktest.Folder(b), "--agent", "oracle", "--env.skip_tasks", strings.Join(notByCommand, ","),
			"--env.max_eval_workers", strconv.Itoa(atOnce), "--env.attempts", strconv.Itoa(attempts), "--run-dir", filepath.Join(dir, "out"))
		out, err := c.CombinedOutput()
		require.NoError(b, err, "%s", out)
		return c
	}
	evaluate(b.TempDir(), 4, 1) // builds the images
	byCommand := buildByCommand(b)
	for _, atOnce := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("at-once=%d/by=hermes-env", atOnce), func(b *testing.B) {
			for range b.N {
				dir := b.TempDir()
				started := time.Now()
				c := evaluate(dir, atOnce, benchAttempts)
				wall := time.Since(started).Seconds()
				raw, err := os.ReadFile(filepath.Join(dir, "out", "rollouts.jsonl"))
				require.NoError(b, err)
				var total, work, harness float64
				rollouts := 0
				for line := range strings.Lines(string(raw)) {
					timings := gjson.Get(line, "timings")
					total += timings.Get("total_seconds").Float()
					harness += timings.Get("harness_seconds").Float()
					work += timings.Get("tool_seconds").Float() + timings.Get("sandbox_seconds").Float() + timings.Get("verify_seconds").Float()
					require.Equal(b, 1.0, gjson.Get(line, "score").Float(), line)
					rollouts++
				}
				require.Equal(b, benchAttempts*len(byCommand), rollouts)
				b.ReportMetric(wall, "wall-s")
				b.ReportMetric(work, "work-s")
				b.ReportMetric(100*harness/total, "harness-%")
				b.ReportMetric(100*(1-total/(wall*float64(atOnce))), "idle-%")
				b.ReportMetric(float64(c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024, "peak-MB")
				pid := strconv.Itoa(c.Process.Pid)
				left := append(dockertest.Containers(b, "hermes-env.owner-pid="+pid), strings.Fields(dockertest.Command(b, "images", "-q", "--filter", "label=hermes-env.build.owner-pid="+pid))...)
				b.ReportMetric(float64(len(left)), "left")
			}
		})
		b.Run(fmt.Sprintf("at-once=%d/by=docker-command", atOnce), func(b *testing.B) {
			for range b.N {
				started := time.Now()
				group, ctx := errgroup.WithContext(b.Context())
				group.SetLimit(atOnce)
				for range benchAttempts {
					for _, t := range byCommand {
						group.Go(func() error { return t.solve(ctx) })
					}
				}
				require.NoError(b, group.Wait())
				b.ReportMetric(time.Since(started).Seconds(), "wall-s")
			}
		})
	}
}

// commandTask is a task that is done with the docker command.
type commandTask struct{ name, dir, image, network string }

func buildByCommand(b *testing.B) []commandTask {
	list, err := harbor.List(b.Context(), tasktest.Folder(b))
	require.NoError(b, err)
	var tasks []commandTask
	for _, t := range list.Tasks {
		if strings.Contains(strings.Join(notByCommand, " "), t.Name) {
			continue
		}
		c := commandTask{name: t.Name, dir: t.Dir, image: "hermes-env-demo-bench:" + t.Name, network: "bridge"}
		if t.Config.Environment.NetworkMode == harbor.NoNetwork {
			c.network = "none"
		}
		dockertest.Command(b, "build", "-q", "-t", c.image, t.EnvironmentDir())
		b.Cleanup(func() { dockertest.Command(b, "rmi", c.image) })
		tasks = append(tasks, c)
	}
	return tasks
}

// solve does what a rollout of the oracle does, one command after the other.
func (t commandTask) solve(ctx context.Context) (err error) {
	container := ""
	docker := func(args ...string) string {
		if err != nil {
			return ""
		}
		var out []byte
		if out, err = exec.CommandContext(ctx, "docker", args...).CombinedOutput(); err != nil {
			err = fmt.Errorf("%s: docker %s: %w: %s", t.name, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	container = docker("run", "-d", "--init", "--memory", "512m", "--cpus", "1", "--pids-limit", "2048", "--network", t.network, t.image, "sleep", "600")
	defer func() {
		if out, failed := exec.Command("docker", "rm", "-f", container).CombinedOutput(); failed != nil && err == nil {
			err = fmt.Errorf("%s: remove the container: %w: %s", t.name, failed, out)
		}
	}()
	docker("exec", "-u", "0", container, "mkdir", "-p", "-m", "777", "/logs/verifier", "/logs/agent")
	docker("cp", filepath.Join(t.dir, "solution"), container+":/solution")
	docker("exec", container, "sh", "-c", "/solution/solve.sh >/logs/agent/oracle.txt 2>&1")
	docker("cp", filepath.Join(t.dir, "tests"), container+":/tests")
	docker("exec", container, "sh", "-c", "/tests/test.sh >/logs/verifier/test-stdout.txt 2>&1")
	reward := docker("exec", container, "sh", "-c", "cat /logs/verifier/reward.*")
	if err == nil && reward != "1" && gjson.Get(reward, "reward").Float() != 1 {
		err = fmt.Errorf("%s: the reward is %q", t.name, reward)
	}
	return err
}

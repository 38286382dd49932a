package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// smallDisk is a file system that is full except for as many bytes as a test leaves it.
// Without the right to mount one, the size of files is limited instead, which the
// program can't tell from a full disk but by the words of the error.
type smallDisk struct {
	dir     string
	mounted bool
	files   int64 // limit of the size of a file when nothing is mounted, KiB; 0: none
}

func newSmallDisk(t *testing.T) *smallDisk {
	t.Helper()
	d := &smallDisk{dir: t.TempDir()}
	if err := syscall.Mount("tmpfs", d.dir, "tmpfs", 0, "size=64m"); err == nil {
		d.mounted = true
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(d.dir, 0)) })
	}
	return d
}

func (d *smallDisk) path(name string) string { return filepath.Join(d.dir, name) }

// leave makes the disk full but for so many KiB; 0 gives all of it back.
func (d *smallDisk) leave(t *testing.T, kib int64) {
	t.Helper()
	if !d.mounted {
		d.files = min(kib, 300) // of each file
		return
	}
	require.NoError(t, os.RemoveAll(d.path("ballast")))
	if kib == 0 {
		return
	}
	var s syscall.Statfs_t
	require.NoError(t, syscall.Statfs(d.dir, &s))
	ballast := int64(s.Bavail)*s.Bsize - kib<<10
	require.NoError(t, os.WriteFile(d.path("ballast"), make([]byte, ballast), 0o644))
}

// run is the program on that disk.
func (d *smallDisk) run(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	name := binary
	if d.files > 0 && !d.mounted {
		name, args = "/bin/sh", append([]string{"-c", fmt.Sprintf(`ulimit -f %d; exec "$0" "$@"`, max(1, d.files*2)), binary}, args...)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+t.TempDir())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err, out.String())
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// prompts writes a data set and a script of long answers, and returns the arguments of a
// run over it.
func (d *smallDisk) prompts(t *testing.T, rows int) []string {
	t.Helper()
	var data strings.Builder
	for i := range rows {
		fmt.Fprintf(&data, "{\"question\":\"Question %d\",\"answer\":\"7\"}\n", i)
	}
	require.NoError(t, os.WriteFile(d.path("rows.jsonl"), []byte(data.String()), 0o644))
	script := "conversations:\n- match: {contains: Question}\n  turns:\n  - reasoning: I have to count.\n    content: " + strings.Repeat("thinking aloud ", 300) + "7\n"
	require.NoError(t, os.WriteFile(d.path("script.yaml"), []byte(script), 0o644))
	return []string{"process", "--environment", "prompts", "--env.dataset_name", "rows.jsonl", "--env.prompt_field", "question", "--env.reward.type", "numeric",
		"--env.reward.reference_field", "answer", "--env.group_size", "3", "--env.max_num_workers", "4", "--env.enabled_toolsets", "[]", "--openai.base_url", "replay:script.yaml",
		"--openai.model_name", "replay", "--env.data_path_to_save_groups", "groups.jsonl", "--run-dir", "run"}
}

// finished returns the rollouts and groups on the disk; no line is torn or there twice.
func (d *smallDisk) finished(t *testing.T) (rollouts map[string]string, groups int) {
	t.Helper()
	rollouts = map[string]string{}
	keys := map[string]bool{}
	for _, line := range textLines(t, d.path("run/rollouts.jsonl")) {
		require.True(t, gjson.Valid(line))
		v := gjson.Parse(line)
		key := fmt.Sprint(v.Get("item_id"), v.Get("step"), v.Get("attempt"))
		require.False(t, keys[key], "done twice: %s", key)
		keys[key] = true
		if v.Get("outcome").Str != "cancelled" {
			rollouts[v.Get("rollout_id").Str] = line
		}
	}
	return rollouts, len(textLines(t, d.path("groups.jsonl")))
}

// textLines returns the lines of a file, none when it is missing.
func textLines(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || len(content) == 0 {
		return nil
	}
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

func TestADiskThatFillsUpDuringProcessLosesNothing(t *testing.T) {
	slowtest.Require(t)
	const rows = 40
	// The first limit stops at rollouts, trajectories or groups, whichever comes first;
	// the last leaves room for all of these and not for the figures of the run.
	for _, kib := range []int64{200, 700, 1500, 2300, 0} {
		t.Run(fmt.Sprintf("%d KiB", kib), func(t *testing.T) {
			d := newSmallDisk(t)
			args := d.prompts(t, rows)
			if kib == 0 {
				whole := newSmallDisk(t)
				code, output := whole.run(t, whole.prompts(t, rows)...)
				require.Zero(t, code, output)
				kib = 100 + onDisk(t, whole.dir) - onDisk(t, whole.path("run/samples.jsonl"))
			}
			d.leave(t, kib)
			code, output := d.run(t, args...)
			require.Equal(t, cli.ExitStore, code, output)
			require.Contains(t, output, "with --resume")
			if d.mounted {
				require.Contains(t, output, "no space left on device")
				require.Contains(t, output, "free space and run again")
			}
			before, _ := d.finished(t)
			d.leave(t, 0)
			code, output = d.run(t, append(args, "--resume")...)
			require.Zero(t, code, output)
			after, groups := d.finished(t)
			require.Len(t, after, 3*rows)
			require.Equal(t, rows, groups)
			for id, line := range before {
				require.Equal(t, line, after[id], "what was finished is never run again")
			}
			require.Len(t, textLines(t, d.path("run/trajectories.jsonl")), 3*rows)
			require.Len(t, textLines(t, d.path("run/samples.jsonl")), 3*rows)
			require.FileExists(t, d.path("run/metrics.json"))
		})
	}
}

// onDisk is what a file or folder takes, in KiB.
func onDisk(t *testing.T, path string) (kib int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(path, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		kib += (info.Size() + 4095) >> 12 << 2
		return err
	}))
	return kib
}

func TestAFullDiskLeavesNothingOfAConversion(t *testing.T) {
	slowtest.Require(t)
	d := newSmallDisk(t)
	code, output := d.run(t, d.prompts(t, 60)...)
	require.Zero(t, code, output)
	limit := int64(100)
	if !d.mounted {
		limit = 4 // less than one document
	}
	for _, to := range []string{"messages", "sharegpt", "atif", "rollouts"} {
		d.leave(t, limit)
		code, output = d.run(t, "convert", "run", "--to", to, "--out", "converted")
		require.Equal(t, cli.ExitStore, code, output)
		require.Contains(t, output, "and convert again")
		require.NoDirExists(t, d.path("converted"))
		left, err := filepath.Glob(d.path(".converted*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
	// Parquet is small: leave it nothing.
	d.leave(t, 4)
	code, output = d.run(t, "convert", "run", "--to", "parquet", "--out", "converted")
	require.Equal(t, cli.ExitStore, code, output)
	require.NoDirExists(t, d.path("converted"))
	d.leave(t, 0)
	code, output = d.run(t, "convert", "run", "--to", "parquet", "--out", "converted")
	require.Zero(t, code, output)
}

func TestARunDirectoryThatIsTakenAwayEndsTheRun(t *testing.T) {
	slowtest.Require(t)
	d := &smallDisk{dir: t.TempDir()}
	const rows = 1000
	args := d.prompts(t, rows)
	args = append(args[:len(args)-4], args[len(args)-2:]...) // without a group file, which would notice by itself
	taken := make(chan error, 1)
	go func() {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if info, err := os.Stat(d.path("run/rollouts.jsonl")); err == nil && info.Size() > 100_000 {
				taken <- os.Rename(d.path("run"), d.path("elsewhere"))
				return
			}
		}
		taken <- errors.New("nothing was recorded")
	}()
	code, output := d.run(t, args...)
	require.NoError(t, <-taken)
	require.Equal(t, cli.ExitStore, code, output)
	require.Contains(t, output, "was removed, moved or replaced by someone else")
	require.NoError(t, os.RemoveAll(d.path("run")))
	require.NoError(t, os.Rename(d.path("elsewhere"), d.path("run")))
	before, _ := d.finished(t)
	require.NotEmpty(t, before)
	code, output = d.run(t, append(args, "--resume")...)
	require.Zero(t, code, output)
	after, _ := d.finished(t)
	require.Len(t, after, 3*rows)
	for id, line := range before {
		require.Equal(t, line, after[id])
	}
}

func TestAReadOnlyDiskIsSaidBeforeAnythingIsPaidFor(t *testing.T) {
	d := newSmallDisk(t)
	args := d.prompts(t, 3)
	if !d.mounted {
		args[len(args)-1] = "/dev/null/run"
		code, output := d.run(t, args...)
		require.Equal(t, cli.ExitStore, code, output)
		return
	}
	code, output := d.run(t, args...)
	require.Zero(t, code, output)
	require.NoError(t, syscall.Mount("tmpfs", d.dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	code, output = d.run(t, append(args, "--resume")...)
	require.Equal(t, cli.ExitStore, code, output)
	require.Contains(t, output, "the run directory must be writable")
	args[len(args)-1] = "other"
	code, output = d.run(t, args...)
	require.Equal(t, cli.ExitStore, code, output)
	require.Contains(t, output, "choose a place you may write to with --run-dir")
}

func TestCompressAndBatchGoOnWhenThereIsRoomAgain(t *testing.T) {
	slowtest.Require(t)
	t.Setenv("OPENROUTER_API_KEY", "unused: no row is long enough")
	d := newSmallDisk(t)
	code, output := d.run(t, d.prompts(t, 40)...)
	require.Zero(t, code, output)
	compress := []string{"compress", "--input", "run/trajectories.jsonl", "--output", "compressed.jsonl"}
	d.leave(t, 100)
	code, output = d.run(t, compress...)
	require.Equal(t, cli.ExitStore, code, output)
	require.Contains(t, output, "run the same command again to go on")
	require.NoFileExists(t, d.path("compressed.jsonl"))
	d.leave(t, 0)
	code, output = d.run(t, compress...)
	require.Zero(t, code, output)
	require.Len(t, textLines(t, d.path("compressed.jsonl")), 120)

	var data strings.Builder
	for i := range 100 {
		fmt.Fprintf(&data, "{\"prompt\":\"Question %d\"}\n", i)
	}
	require.NoError(t, os.WriteFile(d.path("batch.jsonl"), []byte(data.String()), 0o644))
	batch := []string{"batch", "--dataset_file=batch.jsonl", "--batch_size=10", "--run_name=small", "--model=replay", "--base_url=replay:script.yaml", "--num_workers=4"}
	d.leave(t, 400)
	code, output = d.run(t, batch...)
	require.Equal(t, cli.ExitStore, code, output)
	require.Contains(t, output, "--resume")
	before := wholeLines(d.path("data/small/run/rollouts.jsonl"))
	d.leave(t, 0)
	code, output = d.run(t, append(batch, "--resume")...)
	require.Zero(t, code, output)
	after := wholeLines(d.path("data/small/run/rollouts.jsonl"))
	require.Len(t, after, 100)
	for id, line := range before {
		if gjson.Get(line, "outcome").Str != "cancelled" {
			require.Equal(t, line, after[id])
		}
	}
	prompts := map[int64]bool{}
	for _, line := range textLines(t, d.path("data/small/trajectories.jsonl")) {
		prompts[gjson.Get(line, "prompt_index").Int()] = true
	}
	require.Len(t, prompts, 100)
}

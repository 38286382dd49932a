package trajectories

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// tenTurns is a rollout of ten turns, about 13 KB as a line.
func tenTurns(step int) *Rollout {
	r := simple("item", step, 0)
	r.Messages = r.Messages[:1]
	for i := range 10 {
		id := fmt.Sprint("call_", i)
		r.Messages = append(r.Messages,
			chat.Assistant("", strings.Repeat("think ", 20), chat.ToolCall{ID: id, Name: "terminal", Arguments: `{"command":"ls -la"}`}),
			chat.Tool(id, strings.Repeat("a line of output\n", 60)))
		r.Timings.Turns = append(r.Timings.Turns, TurnTiming{Model: 1, Tools: 0.5, Total: 1.5})
	}
	return r
}

func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			run, err := create(b.TempDir(), testInfo(b), testSettings())
			require.NoError(b, err)
			template := tenTurns(0)
			next := make(chan int)
			var wg sync.WaitGroup
			b.ResetTimer()
			for range writers {
				wg.Go(func() {
					for step := range next {
						r := *template
						r.Step, r.ID = step, fmt.Sprint(step)
						if err := run.Append(context.Background(), &r); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for step := range b.N {
				next <- step
			}
			close(next)
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rollouts/s")
			b.StopTimer()
			require.NoError(b, run.Close(StatusDone))
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	r := tenTurns(0)
	converter := NewShareGPT(ShareGPTConfig{Tools: testTools(b)})
	var buf []byte
	b.Run("rollout", func(b *testing.B) {
		for range b.N {
			var err error
			if buf, err = AppendRollout(buf[:0], r); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(buf)))
	})
	b.Run("sharegpt", func(b *testing.B) {
		for range b.N {
			buf = converter.Append(buf[:0], r)
		}
		b.SetBytes(int64(len(buf)))
	})
}

// BenchmarkResume opens a run of 50,000 rollouts of five turns each, with the index of
// an earlier session and without one.
func BenchmarkResume(b *testing.B) {
	dir := largeRun(b)
	info, err := os.Stat(filepath.Join(dir, rolloutsFile))
	require.NoError(b, err)
	size := info.Size()
	for _, indexed := range []bool{false, true} {
		b.Run(fmt.Sprintf("index=%t", indexed), func(b *testing.B) {
			b.SetBytes(size)
			var before, after runtime.MemStats
			var busy, held float64
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				if !indexed {
					require.NoError(b, ignoreMissing(os.Remove(filepath.Join(dir, indexFile))))
				}
				runtime.GC()
				runtime.ReadMemStats(&before)
				used := processorTime(b)
				b.StartTimer()
				run, err := resume(dir, testInfo(b), testSettings())
				require.NoError(b, err)
				b.StopTimer()
				busy += processorTime(b) - used
				require.Equal(b, 50_000, run.Len())
				require.Empty(b, run.Repairs())
				runtime.GC()
				runtime.ReadMemStats(&after)
				held += float64(after.HeapAlloc) - float64(before.HeapAlloc)
				require.NoError(b, run.Close(StatusInterrupted))
				b.StartTimer()
			}
			b.ReportMetric(busy/float64(b.N), "cpu-s/op")
			b.ReportMetric(held/float64(b.N)/50_000, "B-held/rollout")
		})
	}
}

// BenchmarkResumeInterrupted resumes the same run when its last 16 rollouts were
// cancelled, and makes place for them.
func BenchmarkResumeInterrupted(b *testing.B) {
	dir := largeRun(b)
	run, err := resume(dir, testInfo(b), testSettings())
	require.NoError(b, err)
	for range b.N {
		b.StopTimer()
		for i := range 16 {
			r := simple("cancelled", i, 0)
			r.Outcome, r.Score, r.Passed = OutcomeCancelled, nil, nil
			require.NoError(b, run.Append(context.Background(), r))
		}
		require.NoError(b, run.Close(StatusInterrupted))
		b.StartTimer()
		run, err = resume(dir, testInfo(b), testSettings())
		require.NoError(b, err)
		n, err := run.Supersede(func(e Entry) bool { return e.Outcome.Retryable() })
		require.NoError(b, err)
		require.Equal(b, 16, n)
	}
	b.StopTimer()
	require.NoError(b, run.Close(StatusInterrupted))
}

// largeRun is a closed run of 50,000 rollouts of five turns each.
func largeRun(b *testing.B) (dir string) {
	dir = filepath.Join(b.TempDir(), "run")
	run, err := create(dir, testInfo(b), testSettings())
	require.NoError(b, err)
	require.NoError(b, run.Close(StatusInterrupted))
	converter := NewShareGPT(ShareGPTConfig{Tools: testTools(b)})
	template := tenTurns(0)
	template.Messages = template.Messages[:11]
	writeLines(b, filepath.Join(dir, rolloutsFile), func(i int) []byte {
		r := *template
		r.Step, r.ID = i, fmt.Sprint(i)
		line, err := AppendRollout(nil, &r)
		require.NoError(b, err)
		return line
	})
	writeLines(b, filepath.Join(dir, trajectoriesFile), func(i int) []byte {
		r := *template
		r.Step, r.ID = i, fmt.Sprint(i)
		return converter.Append(nil, &r)
	})
	return dir
}

// processorTime is what this process has used so far, in seconds.
func processorTime(b *testing.B) float64 {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func writeLines(b *testing.B, path string, line func(i int) []byte) {
	f, err := os.Create(path)
	require.NoError(b, err)
	out := bufio.NewWriterSize(f, 1<<20)
	for i := range 50_000 {
		_, err := out.Write(append(line(i), '\n'))
		require.NoError(b, err)
	}
	require.NoError(b, out.Flush())
	require.NoError(b, f.Sync()) // so that resuming does not pay for writing
	require.NoError(b, f.Close())
}

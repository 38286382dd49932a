package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

const (
	checkpointFile = "checkpoint.json"
	statisticsFile = "statistics.json"
	mergedFile     = "trajectories.jsonl"

	// pythonTime is how the original writes moments; ours are UTC.
	pythonTime = "2006-01-02T15:04:05.000000"
)

// batchStats is what checkpoint.json says of a batch.
type batchStats struct {
	Processed int `json:"processed"`
	Skipped   int `json:"skipped"`
	Discarded int `json:"discarded_no_reasoning"`
}

// checkpoint is the content of checkpoint.json.
type checkpoint struct {
	RunName   string
	Completed []int // sorted
	Batches   map[int]batchStats
	Updated   time.Time
}

// write replaces the file, laid out as Python's json.dump with indent 2 does.
func (c *checkpoint) write(dir string) error {
	completed := slices.Clone(c.Completed)
	if completed == nil {
		completed = []int{}
	}
	var stats chat.Object
	numbers := make([]int, 0, len(c.Batches))
	for n := range c.Batches {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		encoded, err := chat.Marshal(c.Batches[n])
		if err != nil {
			return err
		}
		stats.Set(strconv.Itoa(n), encoded)
	}
	list, err := chat.Marshal(completed)
	if err != nil {
		return err
	}
	content := chat.Object{
		{Key: "run_name", Value: chat.AppendString(nil, c.RunName)},
		{Key: "completed_prompts", Value: list},
		{Key: "batch_stats", Value: stats.Append(nil)},
		{Key: "last_updated", Value: chat.AppendString(nil, c.Updated.UTC().Format(pythonTime))},
	}
	return writeIndented(filepath.Join(dir, checkpointFile), content)
}

func writeIndented(path string, content chat.Object) error {
	var out bytes.Buffer
	if err := json.Indent(&out, content.Append(nil), "", "  "); err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	err := trajectories.ReplaceFile(path, func(w io.Writer) error {
		_, err := w.Write(out.Bytes())
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// readCompleted returns the indices that checkpoint.json calls done; a missing file has
// none, one of another run or an unreadable one is told to warn and has none.
func readCompleted(dir, runName string, warn func(string)) ([]int, error) {
	path := filepath.Join(dir, checkpointFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	var c struct {
		RunName   string `json:"run_name"`
		Completed []int  `json:"completed_prompts"`
	}
	switch err := json.Unmarshal(raw, &c); {
	case err != nil:
		warn(fmt.Sprintf("%s can't be read and is made anew from the batch files: %v", path, err))
		return nil, nil
	case c.RunName != runName:
		warn(fmt.Sprintf("%s belongs to the run %q and is made anew from the batch files", path, c.RunName))
		return nil, nil
	}
	return c.Completed, nil
}

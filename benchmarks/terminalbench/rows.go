package terminalbench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/dataset/harbor"
)

// loadRows reads tasks from the rows of a dataset, and makes a folder of each.
func (e *Environment) loadRows(ctx context.Context, name string) ([]*task, error) {
	files, commit, err := e.rowFiles(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", name, err)
	}
	cache, err := e.cacheDir()
	if err != nil {
		return nil, err
	}
	var tasks []*task
	sum := sha256.New()
	seen := map[string]bool{}
	for row, err := range allRows(ctx, files) {
		if err != nil {
			return nil, fmt.Errorf("dataset %s: %w", name, err)
		}
		taskName := harbor.RowName(row)
		switch {
		case taskName == "":
			return nil, fmt.Errorf("dataset %s: row %d has no task_name: is it a dataset of tasks?", name, len(tasks)+1)
		case seen[taskName]:
			return nil, fmt.Errorf("dataset %s: the task %s is there twice", name, taskName)
		}
		seen[taskName] = true
		h, err := unpackRow(ctx, row, cache)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			tasks = append(tasks, &task{name: taskName, category: gjson.GetBytes(row, "category").String(), difficulty: gjson.GetBytes(row, "difficulty").String(), broken: fmt.Errorf("task %s: %w", taskName, err)})
			continue
		}
		fmt.Fprintf(sum, "%s %q\n", h.Digest, h.Name)
		tasks = append(tasks, e.taskOrReason(taskName, h))
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("dataset %s: it has no rows", name)
	}
	described, err := chat.Marshal(files)
	if err != nil {
		return nil, fmt.Errorf("describe dataset %s: %w", name, err)
	}
	e.dataset = datasetInfo{
		Name: name, Split: e.own.DatasetSplit, Revision: commit, Files: described, Tasks: len(tasks),
		Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)),
	}
	return tasks, nil
}

// allRows yields the rows of all files in order, as JSON objects.
func allRows(ctx context.Context, files []rowFile) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, f := range files {
			for row, err := range f.rows(ctx) {
				if err != nil {
					err = fmt.Errorf("%s: %w", f.Path, err)
				}
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// cacheDir is where tasks from rows are unpacked, each once.
func (e *Environment) cacheDir() (string, error) {
	base, ok := e.lookup()("XDG_CACHE_HOME")
	if !ok || !filepath.IsAbs(base) {
		home, ok := e.lookup()("HOME")
		if !ok || home == "" {
			return "", errors.New("find a place to unpack tasks: neither XDG_CACHE_HOME nor HOME is set")
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "hermes-env", "tasks"), nil
}

// unpackRow makes the task folder of a row, or takes the one made before. A file
// beside the folder has the digest of its content: one that was changed since is
// made again.
func unpackRow(ctx context.Context, row []byte, cache string) (*harbor.Task, error) {
	name := harbor.RowName(row)
	sum := sha256.Sum256(row)
	dir := filepath.Join(cache, hex.EncodeToString(sum[:16]))
	note := dir + ".digest"
	if known, err := os.ReadFile(note); err == nil {
		if t, err := harbor.Load(ctx, dir); err == nil && string(bytes.TrimSpace(known)) == t.Digest {
			t.Name = name
			return t, nil
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("make way for the unpacked task %s: %w", name, err)
	}
	t, err := harbor.FromRow(ctx, row, dir, harbor.Limits{})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(note, []byte(strings.TrimSpace(t.Digest)+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("note the digest of the unpacked task %s: %w", name, err)
	}
	return t, nil
}

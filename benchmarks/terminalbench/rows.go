package terminalbench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/dataset"
	"github.com/hermes-env/hermes-env/env/dataset/harbor"
	"github.com/hermes-env/hermes-env/env/dataset/hub"
)

// loadRows reads tasks from the rows of a dataset, and makes a folder of each.
func (e *Environment) loadRows(ctx context.Context, name string) ([]*task, error) {
	data, err := e.openRows(ctx, name)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	cache, err := e.cacheDir()
	if err != nil {
		return nil, err
	}
	var tasks []*task
	sum := sha256.New()
	seen := map[string]bool{}
	for row, err := range data.Rows(ctx) {
		if err != nil {
			return nil, fmt.Errorf("dataset %s: %w", name, err)
		}
		taskName := harbor.RowName(row.Data)
		switch {
		case taskName == "":
			return nil, fmt.Errorf("dataset %s: row %d has no task_name: is it a dataset of tasks?", name, row.Position+1)
		case seen[taskName]:
			return nil, fmt.Errorf("dataset %s: the task %s is there twice", name, taskName)
		}
		seen[taskName] = true
		h, err := unpackRow(ctx, row.Data, cache)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			tasks = append(tasks, &task{name: taskName, category: row.Get("category").String(), difficulty: row.Get("difficulty").String(), broken: fmt.Errorf("task %s: %w", taskName, err)})
			continue
		}
		fmt.Fprintf(sum, "%s %q\n", h.Digest, h.Name)
		tasks = append(tasks, e.taskOrReason(taskName, h))
	}
	if _, err := data.Digest(ctx); err != nil { // so that every file's is recorded
		return nil, err
	}
	info := data.Info()
	files := make([]rowFile, len(info.Files))
	for i, f := range info.Files {
		files[i] = rowFile{Path: f.Name, SHA256: f.SHA256}
	}
	described, err := chat.Marshal(files)
	if err != nil {
		return nil, fmt.Errorf("describe dataset %s: %w", name, err)
	}
	e.dataset = datasetInfo{
		Name: name, Split: e.own.DatasetSplit, Revision: info.Revision, Files: described, Tasks: len(tasks),
		Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)),
	}
	return tasks, nil
}

// rowFile is a file with rows that are tasks, as results name it.
type rowFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
}

// openRows opens a dataset of this machine or of the hub.
func (e *Environment) openRows(ctx context.Context, name string) (*dataset.Dataset, error) {
	options := dataset.Options{Name: name, Split: e.own.DatasetSplit, Revision: e.own.DatasetRevision}
	if _, err := os.Stat(name); err != nil {
		lookup := e.lookup()
		if options.Hub, err = hub.FromEnvironment(func(key string) string { v, _ := lookup(key); return v }); err != nil {
			return nil, fmt.Errorf("dataset %s: %w", name, err)
		}
	} else {
		options.Revision = "" // of the hub alone
	}
	return dataset.Open(ctx, options)
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

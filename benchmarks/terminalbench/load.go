package terminalbench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/env/dataset/harbor"
)

// datasetInfo is what run.json says of where the tasks come from.
type datasetInfo struct {
	Name     string          `json:"name"`
	Split    string          `json:"split,omitempty"`
	Revision string          `json:"revision,omitempty"` // commit of the dataset or of the git checkout
	Files    json.RawMessage `json:"files,omitempty"`    // of a dataset of rows
	Tasks    int             `json:"tasks"`
	Digest   string          `json:"digest"` // over the names and contents of all tasks
}

// load reads all tasks of the dataset. Tasks that can't be run are among them, with
// the reason, as long as they have a name: they may not be wanted.
func (e *Environment) load(ctx context.Context) ([]*task, error) {
	name := e.own.Tasks
	if name == "" {
		name = e.own.DatasetName
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			return e.loadRows(ctx, name)
		}
	}
	return e.loadFolder(ctx, name)
}

// loadFolder reads a folder of Harbor tasks, or one of data files where it has no tasks.
func (e *Environment) loadFolder(ctx context.Context, dir string) ([]*task, error) {
	collection, err := harbor.List(ctx, dir)
	if err != nil {
		if rows, other := e.loadRows(ctx, dir); other == nil && e.own.Tasks == "" {
			return rows, nil
		}
		return nil, err
	}
	e.dataset = datasetInfo{Name: dir, Digest: collection.Digest, Tasks: len(collection.Tasks)}
	if c := collection.Checkout; c != nil {
		e.dataset.Revision = c.Commit
	}
	var tasks []*task
	for _, h := range collection.Tasks {
		tasks = append(tasks, e.taskOrReason(h.Name, h))
	}
	for _, b := range collection.Broken {
		tasks = append(tasks, &task{name: b.Name, broken: fmt.Errorf("task %s: %w", b.Name, b.Err)})
	}
	slices.SortStableFunc(tasks, func(a, b *task) int { return strings.Compare(a.name, b.name) })
	return tasks, nil
}

func (e *Environment) taskOrReason(name string, h *harbor.Task) *task {
	t, err := e.newTask(h)
	if err != nil {
		return &task{name: name, category: h.Config.Metadata.Category, difficulty: h.Config.Metadata.Difficulty, broken: err}
	}
	return t
}

package dataset

import (
	"context"
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/env/dataset/harbor"
)

// taskFolder is a folder of Harbor tasks, each of which is a row.
type taskFolder struct {
	found *harbor.Collection
	files []FileInfo
}

// openTasks reads the tasks of a folder. With a subset the folder's registry says which tasks belong to it.
func (d *Dataset) openTasks(ctx context.Context, root string) error {
	if s := d.options.Split; s != "" && s != "train" && s != "test" {
		return fmt.Errorf("%w: a folder of tasks has no split %q", ErrSplit, s)
	}
	var found *harbor.Collection
	var err error
	if d.options.Subset != "" {
		found, err = harbor.ListDataset(ctx, root, d.options.Subset)
	} else {
		found, err = harbor.List(ctx, root)
	}
	if err != nil {
		return err
	}
	d.format = FormatHarbor
	d.split = d.options.Split
	if found.Checkout != nil {
		d.revision = found.Checkout.Commit
	}
	d.tasks = &taskFolder{found: found}
	for _, t := range found.Tasks {
		d.tasks.files = append(d.tasks.files, FileInfo{Path: t.Dir, Name: t.Name, Size: -1, SHA256: strings.TrimPrefix(t.Digest, "sha256:"), Rows: 1})
	}
	for _, b := range found.Broken {
		d.tasks.files = append(d.tasks.files, FileInfo{Path: b.Dir, Name: b.Name, Size: -1, Rows: 1, BadRows: 1})
	}
	for _, note := range found.Notes {
		if d.options.Warn != nil {
			d.options.Warn(Problem{File: root, Offset: -1, Err: fmt.Errorf("%s", note), Kept: true})
		}
	}
	return nil
}

// tasks gives the rows of a folder of tasks; a broken task is a bad row after the good ones.
func (p *pass) tasks(folder *taskFolder) error {
	json := jsonText{keep: keepSet(p.d.options.Columns)}
	for _, t := range folder.found.Tasks {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		row, err := harbor.Row(t)
		if err == nil {
			row, err = json.object(row)
		}
		if err != nil {
			return &Problem{File: t.Dir, Offset: -1, Err: err}
		}
		if err := p.deliver(row); err != nil {
			return err
		}
	}
	for _, b := range folder.found.Broken {
		if err := p.skip(&Problem{File: b.Dir, Offset: -1, Err: fmt.Errorf("the task %s can't be used: %w", b.Name, b.Err)}); err != nil {
			return err
		}
	}
	return nil
}

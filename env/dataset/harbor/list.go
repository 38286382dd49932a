package harbor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxDepth is how many folders below the root tasks are looked for.
const maxDepth = 6

// Collection is the tasks below a folder.
type Collection struct {
	// Root is the folder's absolute path.
	Root string
	// Tasks are those in order, sorted by name.
	Tasks []*Task
	// Broken are those that are not, sorted by name.
	Broken []Broken
	// Checkout is the git checkout the folder belongs to; nil when it belongs to none.
	Checkout *Checkout
	// Digest covers the names and digests of Tasks.
	Digest string
	// Notes are on the folder as a whole.
	Notes []Problem
}

// Broken is a task that can't be used.
type Broken struct {
	Name, Dir string
	// Err is an *Error with every problem, or why the folder could not be read.
	Err error
}

// Task returns the task of a name, nil when there is none.
func (c *Collection) Task(name string) *Task {
	for _, t := range c.Tasks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// List reads the tasks in and below a folder, which may itself be a task. Hidden folders, links and
// what is inside tasks are not looked into. Broken tasks are in the result; it is an error
// when there is no task at all.
func List(ctx context.Context, root string) (*Collection, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	info, err := os.Stat(root)
	switch {
	case err != nil:
		return nil, fmt.Errorf("list tasks: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("list tasks: %s is no folder", root)
	}
	c := &Collection{Root: root, Checkout: FindCheckout(root)}
	dirs, err := c.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tasks in %s: %w", root, err)
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("list tasks: no task is in or below %s: a task is a folder with task.toml, instruction.md, environment/ and tests/", root)
	}
	names := taskNames(root, dirs)
	for i, dir := range dirs {
		t, err := Load(ctx, dir)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			c.Broken = append(c.Broken, Broken{Name: names[i], Dir: dir, Err: err})
			continue
		}
		t.Name = names[i]
		c.Tasks = append(c.Tasks, t)
	}
	c.finish()
	return c, nil
}

// finish sorts what was found and computes the digest.
func (c *Collection) finish() {
	slices.SortFunc(c.Tasks, func(a, b *Task) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Broken, func(a, b Broken) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, t := range c.Tasks {
		fmt.Fprintf(h, "%s %q\n", t.Digest, t.Name)
	}
	c.Digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// find returns the task folders in the order they are walked through.
func (c *Collection) find(ctx context.Context) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(c.Root, func(name string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			if name == c.Root || !errors.Is(err, fs.ErrPermission) {
				return err
			}
			c.Notes = append(c.Notes, Problem{File: name, Text: "may not be read and is left out"})
			return fs.SkipDir
		}
		if !e.IsDir() {
			return nil
		}
		if name != c.Root && (strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules") {
			return fs.SkipDir
		}
		if looksLikeTask(name) {
			dirs = append(dirs, name)
			return fs.SkipDir
		}
		if rel, err := filepath.Rel(c.Root, name); err == nil && rel != "." && strings.Count(filepath.ToSlash(rel), "/")+1 >= maxDepth {
			return fs.SkipDir
		}
		return nil
	})
	return dirs, err
}

// looksLikeTask reports whether a folder is meant to be a task, in order or not.
func looksLikeTask(dir string) bool {
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
		return err == nil
	}
	return has("task.toml") || has("instruction.md") && (has("environment") || has("tests")) ||
		has("task.yaml") && (has("docker-compose.yaml") || has("run-tests.sh"))
}

// taskNames returns the folders' names; those that several have become paths below root.
func taskNames(root string, dirs []string) []string {
	count := map[string]int{}
	for _, dir := range dirs {
		count[filepath.Base(dir)]++
	}
	names := make([]string, len(dirs))
	for i, dir := range dirs {
		names[i] = filepath.Base(dir)
		if count[names[i]] > 1 {
			if rel, err := filepath.Rel(root, dir); err == nil {
				names[i] = path.Clean(filepath.ToSlash(rel))
			}
		}
	}
	return names
}

package harbor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// RegistryFile is the name of the file that lists data sets in a repository of tasks.
const RegistryFile = "registry.json"

// RegistryDataset is one data set of a registry.json.
type RegistryDataset struct {
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	Description string         `json:"description"`
	Tasks       []RegistryTask `json:"tasks"`
}

// RegistryTask is where one task of a data set is: a path in a repository at a commit
// ("HEAD": whatever is there).
type RegistryTask struct {
	Name        string `json:"name"`
	GitURL      string `json:"git_url"`
	GitCommitID string `json:"git_commit_id"`
	Path        string `json:"path"`
}

// ReadRegistry reads a registry.json: a list of data sets, or a single one.
func ReadRegistry(name string) ([]RegistryDataset, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the registry: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxGitFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the registry %s: %w", name, err)
	}
	if len(data) > maxGitFile {
		return nil, fmt.Errorf("read the registry %s: it has more than %d bytes", name, maxGitFile)
	}
	var list []RegistryDataset
	if strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
		list = make([]RegistryDataset, 1)
		err = json.Unmarshal(data, &list[0])
	} else {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read the registry %s: %w", name, err)
	}
	for i, d := range list {
		if d.Name == "" {
			return nil, fmt.Errorf("read the registry %s: data set %d has no name", name, i+1)
		}
	}
	return list, nil
}

// ListDataset reads the tasks that the registry.json of a folder lists for a data set,
// "name" (the last one of that name) or "name@version". Nothing is fetched: tasks that are not below
// the folder are among the broken ones, with the repository they are in.
func ListDataset(ctx context.Context, root, dataset string) (*Collection, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("list the data set %s: %w", dataset, err)
	}
	registry, err := ReadRegistry(filepath.Join(root, RegistryFile))
	if err != nil {
		return nil, fmt.Errorf("list the data set %s: %w", dataset, err)
	}
	chosen, err := choose(registry, dataset)
	if err != nil {
		return nil, err
	}
	c := &Collection{Root: root, Checkout: FindCheckout(root)}
	for _, entry := range chosen.Tasks {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c.addEntry(ctx, entry)
	}
	c.finish()
	return c, nil
}

func choose(registry []RegistryDataset, dataset string) (RegistryDataset, error) {
	var known []string
	for _, d := range slices.Backward(registry) {
		full := d.Name
		if d.Version != "" {
			full += "@" + d.Version
		}
		if dataset == d.Name || dataset == full {
			return d, nil
		}
		known = append(known, full)
	}
	slices.Sort(known)
	return RegistryDataset{}, fmt.Errorf("the registry has no data set %q: it has %s", dataset, strings.Join(slices.Compact(known), ", "))
}

// addEntry loads the task of an entry from below the folder.
func (c *Collection) addEntry(ctx context.Context, entry RegistryTask) {
	name := entry.Name
	if name == "" {
		name = filepath.Base(filepath.FromSlash(entry.Path))
	}
	local := filepath.FromSlash(entry.Path)
	if !filepath.IsLocal(local) {
		c.Broken = append(c.Broken, Broken{Name: name, Err: fmt.Errorf("the registry gives it the path %q, which leads out of the repository", entry.Path)})
		return
	}
	dir := filepath.Join(c.Root, local)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		c.Broken = append(c.Broken, Broken{Name: name, Dir: dir, Err: fmt.Errorf("it is not below %s: clone %s (commit %s), where it is %s", c.Root, entry.GitURL, entry.GitCommitID, entry.Path)})
		return
	}
	if id := entry.GitCommitID; objectID.MatchString(id) && c.Checkout != nil && c.Checkout.Commit != "" && c.Checkout.Commit != id {
		c.Notes = append(c.Notes, Problem{File: filepath.Join(c.Root, RegistryFile), Key: name, Text: fmt.Sprintf("is listed at commit %s, and %s is checked out", id, c.Checkout.Commit)})
	}
	t, err := Load(ctx, dir)
	if err != nil {
		c.Broken = append(c.Broken, Broken{Name: name, Dir: dir, Err: err})
		return
	}
	t.Name = name
	c.Tasks = append(c.Tasks, t)
}

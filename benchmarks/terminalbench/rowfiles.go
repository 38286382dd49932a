package terminalbench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/dataset/hub"
)

// rowFile is a file with rows that are tasks.
type rowFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"` // as the hub knows it
	local  string
}

// taskRow has the columns of the Terminal-Bench datasets; others are not read.
type taskRow struct {
	TaskName       string   `parquet:"task_name,optional" json:"task_name,omitempty"`
	Instruction    string   `parquet:"instruction,optional" json:"instruction,omitempty"`
	DockerImage    string   `parquet:"docker_image,optional" json:"docker_image,omitempty"`
	Category       string   `parquet:"category,optional" json:"category,omitempty"`
	Difficulty     string   `parquet:"difficulty,optional" json:"difficulty,omitempty"`
	Tags           string   `parquet:"tags,optional" json:"tags,omitempty"`
	AgentTimeout   *float64 `parquet:"agent_timeout_sec,optional" json:"agent_timeout_sec,omitempty"`
	TestTimeout    *float64 `parquet:"test_timeout_sec,optional" json:"test_timeout_sec,omitempty"`
	EnvironmentTar string   `parquet:"environment_tar,optional" json:"environment_tar,omitempty"`
	TestsTar       string   `parquet:"tests_tar,optional" json:"tests_tar,omitempty"`
	TestSh         string   `parquet:"test_sh,optional" json:"test_sh,omitempty"`
}

// maxRowBytes bounds a line of a JSONL file of tasks.
const maxRowBytes = 256 << 20

// rowFiles finds the files of a dataset's split: a file of this machine, a folder
// of files, or a repository of the hub.
func (e *Environment) rowFiles(ctx context.Context, name string) (files []rowFile, commit string, err error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.IsDir():
		return []rowFile{{Path: filepath.Base(name), local: name}}, "", nil
	case err == nil:
		files, err = localFiles(name, e.own.DatasetSplit)
		return files, "", err
	case strings.HasPrefix(name, "/"), strings.HasPrefix(name, "."), strings.Count(name, "/") > 1:
		return nil, "", fmt.Errorf("there is no such file or folder: %w", err)
	}
	lookup := e.lookup()
	options, err := hub.FromEnvironment(func(key string) string { v, _ := lookup(key); return v })
	if err != nil {
		return nil, "", err
	}
	client, err := hub.New(options)
	if err != nil {
		return nil, "", err
	}
	repo := hub.Repo{Type: hub.Dataset, ID: name}
	list, err := client.List(ctx, repo, e.own.DatasetRevision)
	if err != nil {
		return nil, "", err
	}
	var names []string
	for _, f := range list.Files {
		names = append(names, f.Path)
	}
	chosen, err := splitFiles(names, e.own.DatasetSplit)
	if err != nil {
		return nil, "", err
	}
	wanted := slices.DeleteFunc(slices.Clone(list.Files), func(f hub.File) bool { return !slices.Contains(chosen, f.Path) })
	paths, err := client.Fetch(ctx, repo, list.Commit, wanted)
	if err != nil {
		return nil, "", err
	}
	for i, f := range wanted {
		files = append(files, rowFile{Path: f.Path, SHA256: f.SHA256, local: paths[i]})
	}
	return files, list.Commit, nil
}

func localFiles(dir, split string) ([]rowFile, error) {
	root := os.DirFS(dir)
	var names []string
	for _, pattern := range []string{"*", "*/*"} {
		found, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	chosen, err := splitFiles(names, split)
	if err != nil {
		return nil, err
	}
	var files []rowFile
	for _, n := range chosen {
		files = append(files, rowFile{Path: n, local: filepath.Join(dir, filepath.FromSlash(n))})
	}
	return files, nil
}

// splitFiles chooses the data files of a split by their names, as the hub's own
// datasets are named: data/train-00000-of-00001.parquet, train.jsonl, train/0.parquet.
// Where there is but one data file it is taken whatever its name.
func splitFiles(names []string, split string) ([]string, error) {
	for _, extension := range []string{".parquet", ".jsonl"} {
		var all, of []string
		for _, n := range names {
			if path.Ext(n) != extension {
				continue
			}
			all = append(all, n)
			base := strings.TrimSuffix(path.Base(n), extension)
			if base == split || strings.HasPrefix(base, split+"-") || strings.HasPrefix(base, split+"_") || path.Base(path.Dir(n)) == split {
				of = append(of, n)
			}
		}
		switch {
		case len(of) > 0:
			slices.Sort(of)
			return of, nil
		case len(all) == 1:
			return all, nil
		case len(all) > 1:
			return nil, fmt.Errorf("no file is of the split %q (env.dataset_split); there are %s", split, strings.Join(all[:min(len(all), 5)], ", "))
		}
	}
	return nil, errors.New("it has neither Parquet nor JSONL files")
}

// rows yields the file's rows as JSON objects.
func (f rowFile) rows(ctx context.Context) iter.Seq2[[]byte, error] {
	if filepath.Ext(f.Path) == ".parquet" {
		return f.parquetRows(ctx)
	}
	return f.lines(ctx)
}

func (f rowFile) lines(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		file, err := os.Open(f.local)
		if err != nil {
			yield(nil, err)
			return
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, maxRowBytes)
		for n := 1; lines.Scan(); n++ {
			line := bytes.TrimSpace(lines.Bytes())
			switch {
			case ctx.Err() != nil:
				yield(nil, context.Cause(ctx))
				return
			case len(line) == 0:
				continue
			case !gjson.ValidBytes(line) || line[0] != '{':
				yield(nil, fmt.Errorf("line %d is no JSON object", n))
				return
			}
			if !yield(bytes.Clone(line), nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
		}
	}
}

func (f rowFile) parquetRows(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		file, err := os.Open(f.local)
		if err != nil {
			yield(nil, err)
			return
		}
		defer file.Close()
		reader, err := openParquet(file)
		if err != nil {
			yield(nil, err)
			return
		}
		defer reader.Close()
		for {
			rows := make([]taskRow, 1)
			n, err := readParquet(reader, rows)
			switch {
			case ctx.Err() != nil:
				yield(nil, context.Cause(ctx))
				return
			case n == 0 && errors.Is(err, io.EOF):
				return
			case n == 0 && err == nil:
				yield(nil, io.ErrNoProgress)
				return
			case n == 0:
				yield(nil, err)
				return
			}
			row, bad := chat.Marshal(rows[0])
			if !yield(row, bad) || bad != nil {
				return
			}
		}
	}
}

// openParquet and readParquet turn what the library panics with on damaged files
// into errors.
func openParquet(file *os.File) (reader *parquet.GenericReader[taskRow], err error) {
	defer damaged(&err)
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	opened, err := parquet.OpenFile(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("read it as Parquet: %w", err)
	}
	return parquet.NewGenericReader[taskRow](opened), nil
}

func readParquet(reader *parquet.GenericReader[taskRow], rows []taskRow) (n int, err error) {
	defer damaged(&err)
	return reader.Read(rows)
}

func damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the Parquet file is damaged or has other types than datasets of tasks: %v", p)
	}
}

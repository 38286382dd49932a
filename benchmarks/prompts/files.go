package prompts

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/reward/rowtext"
)

// setupFile is a file for a sandbox.
type setupFile struct {
	path    string // there: absolute, below ~/, or relative to the working directory
	mode    int64
	content []byte
}

// maxSetupBytes bounds the files of one sandbox together.
const maxSetupBytes = 256 << 20

// readLocalFiles reads the files and folders that the configuration names.
func readLocalFiles(named map[string]string) ([]setupFile, error) {
	var files []setupFile
	total := int64(0)
	for _, target := range slices.Sorted(maps.Keys(named)) {
		if err := checkTarget(target); err != nil {
			return nil, err
		}
		local := named[target]
		err := filepath.WalkDir(local, func(at string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Stat(at)
			if err != nil || info.IsDir() {
				return err
			}
			if !info.Mode().IsRegular() {
				return fmt.Errorf("%s is not a regular file", at)
			}
			if total += info.Size(); total > maxSetupBytes {
				return fmt.Errorf("together more than %d MiB, which every rollout would have to upload", maxSetupBytes>>20)
			}
			content, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			below, err := filepath.Rel(local, at)
			if err != nil {
				return err
			}
			files = append(files, setupFile{path.Join(target, filepath.ToSlash(below)), int64(info.Mode().Perm()), content})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func checkTarget(target string) error {
	clean := strings.TrimPrefix(strings.TrimPrefix(target, "~/"), "/")
	if clean == "" || strings.HasSuffix(target, "/") || strings.ContainsRune(target, 0) || !filepath.IsLocal(filepath.FromSlash(clean)) {
		return fmt.Errorf("%q can't be the path of a file in the sandbox", target)
	}
	return nil
}

// rowFiles reads the files that a row brings. Rows are foreign data: they name no file of this machine but below root.
func rowFiles(row []byte, field, root string) ([]setupFile, error) {
	v, ok := rowtext.Lookup(row, field)
	if !ok || v.Type == gjson.Null {
		return nil, nil
	}
	if !v.IsObject() {
		return nil, fmt.Errorf("files_field: %w", &rowtext.TypeError{Path: field, Want: "an object of paths and contents", Got: rowtext.Describe(v)})
	}
	var files []setupFile
	var wrong error
	total := 0
	v.ForEach(func(key, value gjson.Result) bool {
		var f setupFile
		if f, wrong = rowFile(key.String(), value, root); wrong != nil {
			wrong = fmt.Errorf("files_field: %q: %w", key.String(), wrong)
			return false
		}
		if total += len(f.content); total > maxSetupBytes {
			wrong = fmt.Errorf("files_field: together more than %d MiB", maxSetupBytes>>20)
			return false
		}
		files = append(files, f)
		return true
	})
	return files, wrong
}

func rowFile(target string, value gjson.Result, root string) (setupFile, error) {
	f := setupFile{path: target, mode: 0o644}
	if err := checkTarget(target); err != nil {
		return f, err
	}
	if value.Type == gjson.String {
		f.content = []byte(value.String())
		return f, nil
	}
	if !value.IsObject() {
		return f, fmt.Errorf("want text or an object, got %s", rowtext.Describe(value))
	}
	if value.Get("executable").Bool() {
		f.mode = 0o755
	}
	content, encoded, local := value.Get("content"), value.Get("base64"), value.Get("path")
	switch {
	case content.Type == gjson.String:
		f.content = []byte(content.String())
		return f, nil
	case encoded.Type == gjson.String:
		decoded, err := base64.StdEncoding.DecodeString(encoded.String())
		if err != nil {
			return f, fmt.Errorf("its base64: %w", err)
		}
		f.content = decoded
		return f, nil
	case local.Type == gjson.String && root == "":
		return f, errors.New("it names a file of this machine, which needs files_root")
	case local.Type == gjson.String:
		return readBelow(f, root, local.String())
	}
	return f, errors.New("want content, base64 or path with text in it")
}

// readBelow reads a file below root, which links in root can't lead out of.
func readBelow(f setupFile, root, name string) (setupFile, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return f, fmt.Errorf("files_root: %w", err)
	}
	defer dir.Close()
	info, err := dir.Stat(filepath.FromSlash(name))
	switch {
	case err != nil:
		return f, err
	case !info.Mode().IsRegular() || info.Size() > maxSetupBytes:
		return f, fmt.Errorf("%s is no regular file of at most %d MiB", name, maxSetupBytes>>20)
	}
	f.content, err = dir.ReadFile(filepath.FromSlash(name))
	f.mode |= int64(info.Mode().Perm() & 0o111)
	return f, err
}

// archives packs files into one tar for each place they are relative to: the working directory "", the home "~" and the
// root "/".
func archives(files []setupFile) (map[string]*bytes.Buffer, error) {
	groups := map[string][]setupFile{}
	for _, f := range files {
		base, rest := "", f.path
		switch {
		case strings.HasPrefix(f.path, "~/"):
			base, rest = "~", f.path[2:]
		case strings.HasPrefix(f.path, "/"):
			base, rest = "/", f.path[1:]
		}
		// Each directory is a base of its own: directories that are there keep their modes.
		dir, name := path.Split(path.Clean(rest))
		f.path = name
		groups[path.Join(base, dir)] = append(groups[path.Join(base, dir)], f)
	}
	packed := map[string]*bytes.Buffer{}
	for base, list := range groups {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, f := range list {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
				return nil, fmt.Errorf("pack %s: %w", f.path, err)
			}
			if _, err := w.Write(f.content); err != nil {
				return nil, fmt.Errorf("pack %s: %w", f.path, err)
			}
		}
		if err := w.Close(); err != nil {
			return nil, fmt.Errorf("pack the files: %w", err)
		}
		packed[base] = &out
	}
	return packed, nil
}

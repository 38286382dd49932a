package hub

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
	"strings"

	"github.com/hermes-env/hermes-env/internal/atomicfile"
)

// cacheTag marks the cache for programs that make backups (bford.info/cachedir).
const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder holds files of the Hugging Face hub that can be fetched again.\n"

func (c *Client) repoDir(repo Repo) string {
	return filepath.Join(c.options.CacheDir, repo.Folder())
}

func (c *Client) refPath(repo Repo, revision string) string {
	return filepath.Join(c.repoDir(repo), "refs", filepath.FromSlash(revision))
}

func (c *Client) blobPath(repo Repo, etag string) string {
	return filepath.Join(c.repoDir(repo), "blobs", etag)
}

func (c *Client) snapshotDir(repo Repo, commit string) string {
	return filepath.Join(c.repoDir(repo), "snapshots", commit)
}

func (c *Client) pointerPath(repo Repo, commit, path string) string {
	return filepath.Join(c.snapshotDir(repo, commit), filepath.FromSlash(path))
}

func (c *Client) treePath(repo Repo, commit string) string {
	return filepath.Join(c.repoDir(repo), "trees", commit+".json")
}

func (c *Client) absentPath(repo Repo, commit, path string) string {
	return filepath.Join(c.repoDir(repo), ".no_exist", commit, filepath.FromSlash(path))
}

// cacheError explains a failure of the cache's disk.
func (c *Client) cacheError(err error) error {
	switch {
	case err == nil:
		return nil
	case diskFull(err):
		return fmt.Errorf("%w for the Hugging Face cache in %s: make room, or set HF_HUB_CACHE to a folder on a larger disk: %w", ErrNoSpace, c.options.CacheDir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the Hugging Face cache can't be written (set HF_HUB_CACHE to a folder of your own): %w", err)
	}
	return fmt.Errorf("write the Hugging Face cache: %w", err)
}

// makeDirs makes the folders that a file of the cache goes into.
func (c *Client) makeDirs(files ...string) error {
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f), 0o777); err != nil {
			return c.cacheError(err)
		}
	}
	tag := filepath.Join(c.options.CacheDir, "CACHEDIR.TAG")
	if _, err := os.Lstat(tag); errors.Is(err, fs.ErrNotExist) {
		// Only a hint for others: what prevents it shows when a file is written.
		_ = atomicfile.Write(tag, []byte(cacheTag))
	}
	return nil
}

// storeRef notes which commit a revision stands for. A cache that can't be written, but
// says the same already, is no trouble.
func (c *Client) storeRef(repo Repo, revision, commit string) error {
	name := c.refPath(repo, revision)
	if old, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(old)) == commit {
		return nil
	}
	if err := c.makeDirs(name); err != nil {
		return err
	}
	return c.cacheError(atomicfile.Write(name, []byte(commit)))
}

// storedTree is the cache's form of a complete listing, shared with the hub's Python
// client.
type storedTree struct {
	Version int                   `json:"format_version"`
	Files   map[string]storedFile `json:"files"`
}

type storedFile struct {
	Size      int64  `json:"size"`
	BlobID    string `json:"blob_id"`
	LFSSHA256 string `json:"lfs_sha256,omitempty"`
	LFSSize   *int64 `json:"lfs_size,omitempty"`
	XetHash   string `json:"xet_hash,omitempty"`
}

// storeTree keeps a complete listing. It only saves requests, so trouble is ignored.
func (c *Client) storeTree(repo Repo, commit string, files []File) {
	t := storedTree{Version: 1, Files: make(map[string]storedFile, len(files))}
	for _, f := range files {
		s := storedFile{Size: f.Size, BlobID: f.OID, LFSSHA256: f.SHA256, XetHash: f.xet}
		if f.SHA256 != "" {
			s.LFSSize = &f.Size
		}
		t.Files[f.Path] = s
	}
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if e.Encode(t) != nil {
		return
	}
	if name := c.treePath(repo, commit); c.makeDirs(name) == nil {
		_ = atomicfile.Write(name, bytes.TrimSuffix(data.Bytes(), []byte("\n")))
	}
}

// cachedTree returns a complete listing that was kept. One that can't be read, or is not
// in order, is as good as none.
func (c *Client) cachedTree(repo Repo, commit string) ([]File, bool) {
	f, err := os.Open(c.treePath(repo, commit))
	if err != nil {
		return nil, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 16*maxAnswer))
	if err != nil {
		return nil, false
	}
	return parseTree(data)
}

func parseTree(data []byte) ([]File, bool) {
	var t storedTree
	if json.Unmarshal(data, &t) != nil || t.Version != 1 || t.Files == nil {
		return nil, false
	}
	files := make([]File, 0, len(t.Files))
	for path, s := range t.Files {
		f := File{Path: path, Size: s.Size, OID: s.BlobID, SHA256: s.LFSSHA256, xet: s.XetHash}
		if s.LFSSize != nil {
			f.Size = *s.LFSSize
		}
		if checkPath(path) != nil || f.Size < 0 || !etagName.MatchString(f.etag()) {
			return nil, false
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, true
}

// cachedFiles lists the files of a commit that were fetched before.
func (c *Client) cachedFiles(repo Repo, commit string) (Listing, error) {
	root := c.snapshotDir(repo, commit)
	l := Listing{Commit: commit, Partial: true}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(name) // of the blob, not of the link to it
		if err != nil || !info.Mode().IsRegular() {
			return nil // fetched in part only, or not the hub's
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f := File{Path: filepath.ToSlash(rel), Size: info.Size()}
		if target, err := os.Readlink(name); err == nil {
			switch etag := filepath.Base(target); {
			case len(etag) == 64 && etagName.MatchString(etag):
				f.SHA256 = etag
			case etagName.MatchString(etag):
				f.OID = etag
			}
		}
		l.Files = append(l.Files, f)
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) || (err == nil && len(l.Files) == 0):
		return Listing{}, fmt.Errorf("%s: none of its files is in the cache (%s): %w", target{repo: repo, revision: commit}, c.options.CacheDir, ErrNotCached)
	case err != nil:
		return Listing{}, fmt.Errorf("list what the cache has of %s: %w", repo, err)
	}
	slices.SortFunc(l.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return l, nil
}

// point makes the snapshot's entry for a blob: a relative link; where the file system
// has none, a second name of the same file; where it has none either, a new blob itself or
// a copy of an older one.
func (c *Client) point(repo Repo, commit, path, etag string, fresh bool) error {
	pointer, blob := c.pointerPath(repo, commit, path), c.blobPath(repo, etag)
	if err := c.makeDirs(pointer); err != nil {
		return err
	}
	relative, err := filepath.Rel(filepath.Dir(pointer), blob)
	if err != nil {
		relative = blob
	}
	for _, try := range []func() error{
		func() error { return c.symlink(relative, pointer) },
		func() error { return c.link(blob, pointer) },
	} {
		if err = try(); errors.Is(err, fs.ErrExist) {
			if err = os.Remove(pointer); err == nil {
				err = try()
			}
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			return nil
		}
		if diskFull(err) {
			return c.cacheError(err)
		}
	}
	if fresh {
		return c.cacheError(os.Rename(blob, pointer))
	}
	return c.cacheError(copyFile(blob, pointer))
}

// copyFile copies a file so that the copy appears complete or not at all.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return atomicfile.WriteFrom(to, func(out io.Writer) error {
		_, err := io.Copy(out, in)
		return err
	})
}

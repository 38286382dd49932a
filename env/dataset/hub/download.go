package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/hermes-env/hermes-env/internal/atomicfile"
	"golang.org/x/sync/errgroup"
)

// Download returns the path, in the cache, of one file of a repository at a revision
// (a branch, tag or commit; empty: DefaultRevision), which it fetches when needed. The file must not
// be changed. List and Fetch need fewer requests where several files are wanted.
func (c *Client) Download(ctx context.Context, repo Repo, revision, path string) (string, error) {
	if err := checkPath(path); err != nil {
		return "", err
	}
	commit, err := c.Resolve(ctx, repo, revision)
	if err != nil {
		return "", err
	}
	if files, ok := c.cachedTree(repo, commit); ok {
		for _, f := range files {
			if f.Path == path {
				return c.fetch(ctx, repo, commit, f)
			}
		}
	}
	pointer := c.pointerPath(repo, commit, path)
	if info, err := os.Stat(pointer); err == nil && info.Mode().IsRegular() {
		c.progress(Progress{Repo: repo, Path: path, Done: info.Size(), Total: info.Size(), Finished: true, Cached: true})
		return pointer, nil
	}
	t := target{repo, commit, path}
	if _, err := os.Lstat(c.absentPath(repo, commit, path)); err == nil {
		return "", fmt.Errorf("%s: %w (the cache remembers that the hub has no such file)", t, ErrFileNotFound)
	}
	if c.options.Offline {
		return "", c.notCached(t)
	}
	f, err := c.head(ctx, t)
	if errors.Is(err, ErrFileNotFound) {
		c.storeAbsent(repo, commit, path)
	}
	if err != nil {
		return "", err
	}
	return c.fetch(ctx, repo, commit, f)
}

// Fetch returns the paths, in the cache, of files that List returned for the commit, in their order,
// and fetches what is missing, several at a time. The first failure ends the others; what
// has arrived is kept and used the next time.
func (c *Client) Fetch(ctx context.Context, repo Repo, commit string, files []File) ([]string, error) {
	if _, err := checkNames(repo, commit); err != nil {
		return nil, err
	}
	if !commitHash.MatchString(commit) {
		return nil, fmt.Errorf("%q is no commit of %s: resolve the revision first", commit, repo)
	}
	paths := make([]string, len(files))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(c.options.Concurrency)
	for i, f := range files {
		if err := checkPath(f.Path); err != nil {
			return nil, errors.Join(err, group.Wait())
		}
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() (err error) {
			paths[i], err = c.fetch(groupCtx, repo, commit, f)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return paths, context.Cause(ctx)
}

// Snapshot fetches the files of a repository that match (all when match is nil) and returns
// the folder they are in together with their listing.
func (c *Client) Snapshot(ctx context.Context, repo Repo, revision string, match func(File) bool) (dir string, l Listing, err error) {
	if l, err = c.List(ctx, repo, revision); err != nil {
		return "", Listing{}, err
	}
	if match != nil {
		wanted := l.Files[:0:0]
		for _, f := range l.Files {
			if match(f) {
				wanted = append(wanted, f)
			}
		}
		l.Files = wanted
	}
	if _, err = c.Fetch(ctx, repo, l.Commit, l.Files); err != nil {
		return "", Listing{}, err
	}
	return c.snapshotDir(repo, l.Commit), l, nil
}

func (c *Client) notCached(t target) error {
	return fmt.Errorf("%s: %w (%s), and nothing may be fetched: unset HF_HUB_OFFLINE once, or copy the cache from a machine that has it", t, ErrNotCached, c.options.CacheDir)
}

// fetch returns the path of a file in the cache and fetches it when needed.
func (c *Client) fetch(ctx context.Context, repo Repo, commit string, f File) (string, error) {
	t := target{repo, commit, f.Path}
	pointer := c.pointerPath(repo, commit, f.Path)
	cached, err := c.intact(t, pointer, f)
	if err != nil {
		return "", err
	}
	if cached {
		c.progress(Progress{Repo: repo, Path: f.Path, Done: f.Size, Total: f.Size, Finished: true, Cached: true})
		return pointer, nil
	}
	if c.options.Offline {
		return "", c.notCached(t)
	}
	etag := f.etag()
	if !etagName.MatchString(etag) {
		return "", fmt.Errorf("%s: its listing has no usable hash", t)
	}
	blob := c.blobPath(repo, etag)
	if err := c.makeDirs(blob, pointer); err != nil {
		return "", err
	}
	unlock, alone, err := c.lockBlob(ctx, repo, etag)
	if err != nil {
		return "", fmt.Errorf("%s: %w", t, err)
	}
	defer unlock()
	// Another process may have brought it in the meantime.
	if cached, err := c.intact(t, pointer, f); cached || err != nil {
		return pointer, err
	}
	if info, err := os.Stat(pointer); err == nil {
		c.warn("%s: the cached file has %d bytes instead of %d and is fetched again", t, info.Size(), f.Size)
	}
	info, err := os.Stat(blob)
	fresh := err != nil || info.Size() != f.Size
	if fresh {
		if err := c.transfer(ctx, t, f, blob, alone); err != nil {
			return "", err
		}
	}
	if err := c.point(repo, commit, f.Path, etag, fresh); err != nil {
		return "", fmt.Errorf("%s: %w", t, err)
	}
	c.progress(Progress{Repo: repo, Path: f.Path, Done: f.Size, Total: f.Size, Finished: true, Cached: !fresh})
	return pointer, nil
}

// intact reports whether the cache has a file at its full size. One of another size is
// fetched again, or, offline, an error.
func (c *Client) intact(t target, pointer string, f File) (bool, error) {
	info, err := os.Stat(pointer)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s: look into the cache: %w", t, err)
	case info.Mode().IsRegular() && info.Size() == f.Size:
		return true, nil
	case c.options.Offline:
		return false, fmt.Errorf("%s: %w: %s has %d bytes instead of %d: remove it and fetch it again with HF_HUB_OFFLINE unset", t, ErrCorrupt, pointer, info.Size(), f.Size)
	}
	return false, nil
}

// head asks for a file's size and hash.
func (c *Client) head(ctx context.Context, t target) (File, error) {
	resp, err := c.answer(ctx, t, call{
		method: http.MethodHead, address: c.fileAddress(t), retries: c.options.Retries,
		// What is stored elsewhere is described by the answer that sends there.
		stop: func(r *http.Response) bool { return r.Header.Get("X-Linked-Etag") != "" },
	})
	if err != nil {
		return File{}, err
	}
	closeBody(resp)
	f := File{Path: t.path}
	etag, size := resp.Header.Get("X-Linked-Etag"), resp.Header.Get("X-Linked-Size")
	if etag == "" {
		etag = resp.Header.Get("ETag")
	}
	if size == "" {
		size = resp.Header.Get("Content-Length")
	}
	etag = strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
	if f.Size, err = strconv.ParseInt(size, 10, 64); err != nil || f.Size < 0 || !etagName.MatchString(etag) {
		return File{}, fmt.Errorf("%s: %w: %s gives no size and hash of the file (is HF_ENDPOINT right?)", t, ErrUnreachable, c.endpoint)
	}
	if len(etag) == 64 {
		f.SHA256 = etag
	} else {
		f.OID = etag
	}
	return f, nil
}

func (c *Client) fileAddress(t target) string {
	return c.address(t.repo.webPath()+"/resolve/"+url.PathEscape(t.revision)+"/"+escapePath(t.path), "")
}

// storeAbsent remembers, as the hub's Python client does, that a commit lacks a file.
func (c *Client) storeAbsent(repo Repo, commit, path string) {
	if name := c.absentPath(repo, commit, path); c.makeDirs(name) == nil {
		_ = atomicfile.Write(name, nil)
	}
}

func (c *Client) progress(p Progress) {
	if c.options.Progress == nil {
		return
	}
	c.report.Lock()
	defer c.report.Unlock()
	c.options.Progress(p)
}

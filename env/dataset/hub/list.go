package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

// maxAnswer bounds one JSON answer, maxPages the pages of a listing.
const (
	maxAnswer = 64 << 20
	maxPages  = 20_000
)

// Listing is the files of a repository at a commit, sorted by path.
type Listing struct {
	// Commit is the full commit id.
	Commit string
	Files  []File
	// Partial is true where only the cache could be asked and it does not know the whole
	// list: Files are those that were fetched before.
	Partial bool
}

// Resolve returns the commit that a revision (a branch, tag, reference or commit;
// empty: DefaultRevision) stands for. Offline, and with a warning where the hub can't be
// reached, it is the one that was resolved last.
func (c *Client) Resolve(ctx context.Context, repo Repo, revision string) (string, error) {
	revision, err := checkNames(repo, revision)
	if err != nil {
		return "", err
	}
	if commitHash.MatchString(revision) {
		return revision, nil
	}
	if c.options.Offline {
		return c.cachedCommit(repo, revision)
	}
	t := target{repo: repo, revision: revision}
	var info struct {
		SHA string `json:"sha"`
	}
	address := c.address(repo.apiPath()+"/revision/"+url.PathEscape(revision), "expand=sha")
	retries := c.options.Retries
	commit, cacheErr := c.cachedCommit(repo, revision)
	if cacheErr == nil {
		retries = min(retries, 1) // there is something to go on with
	}
	if _, err := c.getJSON(ctx, t, address, retries, &info); err != nil {
		if ctx.Err() == nil && errors.Is(err, ErrUnreachable) {
			if cacheErr == nil {
				c.warn("%s: going on with commit %s from the cache: %v", t, commit[:12], err)
				return commit, nil
			}
		}
		return "", err
	}
	if !commitHash.MatchString(info.SHA) {
		return "", fmt.Errorf("%s: the hub's answer names no commit: %w", t, ErrUnreachable)
	}
	if err := c.storeRef(repo, revision, info.SHA); err != nil {
		return "", err
	}
	return info.SHA, nil
}

// List returns all files of a repository at a revision. Offline it is what the cache
// knows.
func (c *Client) List(ctx context.Context, repo Repo, revision string) (Listing, error) {
	commit, err := c.Resolve(ctx, repo, revision)
	if err != nil {
		return Listing{}, err
	}
	if files, ok := c.cachedTree(repo, commit); ok {
		return Listing{Commit: commit, Files: files}, nil
	}
	if c.options.Offline {
		return c.cachedFiles(repo, commit)
	}
	files, err := c.tree(ctx, target{repo: repo, revision: commit})
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, ErrUnreachable) {
			if l, cacheErr := c.cachedFiles(repo, commit); cacheErr == nil {
				c.warn("%s: going on with the files in the cache: %v", target{repo: repo, revision: revision}, err)
				return l, nil
			}
		}
		return Listing{}, err
	}
	c.storeTree(repo, commit, files)
	return Listing{Commit: commit, Files: files}, nil
}

// treeEntry is one element of an answer of the tree API.
type treeEntry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Size int64  `json:"size"`
	OID  string `json:"oid"`
	Xet  string `json:"xetHash"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// tree asks the hub for all files of a commit, page by page.
func (c *Client) tree(ctx context.Context, t target) ([]File, error) {
	address := c.address(t.repo.apiPath()+"/tree/"+url.PathEscape(t.revision), "recursive=true&expand=false")
	files := []File{}
	seen := map[string]bool{}
	for range maxPages {
		if seen[address] {
			return nil, fmt.Errorf("%s: list its files: the hub repeats a page: %w", t, ErrUnreachable)
		}
		seen[address] = true
		var entries []treeEntry
		header, err := c.getJSON(ctx, t, address, c.options.Retries, &entries)
		if err != nil {
			return nil, err
		}
		if files, err = appendFiles(files, entries); err != nil {
			return nil, fmt.Errorf("%s: list its files: %w", t, err)
		}
		next := nextPage(header)
		if next == "" {
			slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
			return files, nil
		}
		if address, err = c.onEndpoint(next); err != nil {
			return nil, fmt.Errorf("%s: list its files: %w", t, err)
		}
	}
	return nil, fmt.Errorf("%s: list its files: the hub has more than %d pages: %w", t, maxPages, ErrUnreachable)
}

func appendFiles(files []File, entries []treeEntry) ([]File, error) {
	for _, e := range entries {
		if e.Type != "file" {
			continue
		}
		if err := checkPath(e.Path); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		f := File{Path: e.Path, Size: e.Size, OID: e.OID}
		if e.LFS != nil {
			f.Size, f.SHA256 = e.LFS.Size, e.LFS.OID
		}
		if xetHash.MatchString(e.Xet) {
			f.xet = e.Xet
		}
		if f.Size < 0 || !etagName.MatchString(f.etag()) || (f.OID != "" && !etagName.MatchString(f.OID)) {
			return nil, fmt.Errorf("%w: the hub lists %s without a usable size or hash", ErrCorrupt, e.Path)
		}
		files = append(files, f)
	}
	return files, nil
}

var linkNext = regexp.MustCompile(`<([^<>]+)>\s*;[^,]*\brel="?next\b`)

// nextPage returns the address of the next page of a listing, if there is one.
func nextPage(h http.Header) string {
	for _, link := range h.Values("Link") {
		if m := linkNext.FindStringSubmatch(link); m != nil {
			return m[1]
		}
	}
	return ""
}

// onEndpoint moves an address that the hub names to the endpoint: mirrors pass on those
// of the original hub, which may be out of reach and must not get the token.
func (c *Client) onEndpoint(address string) (string, error) {
	u, err := c.endpoint.Parse(address)
	if err != nil {
		return "", fmt.Errorf("the hub names a next page that is no address: %w", ErrUnreachable)
	}
	if !c.ours(u) {
		if base := c.endpoint.Path; base != "" && !strings.HasPrefix(u.Path, base+"/") {
			u = u.JoinPath() // a copy with a clean path
			u.Path, u.RawPath = base+u.Path, ""
		}
		u.Scheme, u.Host, u.User = c.endpoint.Scheme, c.endpoint.Host, nil
	}
	return u.String(), nil
}

// getJSON asks for a JSON value, and so often again after passing failures.
func (c *Client) getJSON(ctx context.Context, t target, address string, retries int, into any) (http.Header, error) {
	for attempt := 0; ; attempt++ {
		header, err := c.getJSONOnce(ctx, t, address, retries, into)
		if err == nil || attempt >= retries || ctx.Err() != nil || !errors.Is(err, errBrokenBody) {
			if errors.Is(err, errBrokenBody) {
				err = c.unreachable(ctx, t, err)
			}
			return header, err
		}
		if err := c.pause(ctx, attempt, nil); err != nil {
			return nil, err
		}
	}
}

// errBrokenBody marks an answer that began well and was cut off.
var errBrokenBody = errors.New("the answer was cut off")

func (c *Client) getJSONOnce(ctx context.Context, t target, address string, retries int, into any) (http.Header, error) {
	resp, err := c.answer(ctx, t, call{
		method: http.MethodGet, address: address, header: http.Header{"Accept": {"application/json"}}, retries: retries,
	})
	if err != nil {
		return nil, err
	}
	defer closeBody(resp)
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errBrokenBody, withoutURL(err))
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("%s: the hub's answer has more than %d bytes: %w", t, maxAnswer, ErrUnreachable)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return nil, fmt.Errorf("%s: the answer of %s is not the hub's JSON (is HF_ENDPOINT right?): %w: %s", t, c.endpoint, ErrUnreachable, c.redact(err.Error()))
	}
	return resp.Header, nil
}

// checkNames checks a repository and a revision and fills in the default one.
func checkNames(repo Repo, revision string) (string, error) {
	if err := repo.Check(); err != nil {
		return "", err
	}
	if revision == "" {
		revision = DefaultRevision
	}
	return revision, checkRevision(revision)
}

// cachedCommit returns the commit that a revision stood for when it was last resolved.
func (c *Client) cachedCommit(repo Repo, revision string) (string, error) {
	data, err := os.ReadFile(c.refPath(repo, revision))
	commit := strings.TrimSpace(string(data))
	if err == nil && commitHash.MatchString(commit) {
		return commit, nil
	}
	return "", fmt.Errorf("%s: %w (%s), and nothing may be fetched: unset HF_HUB_OFFLINE once, or copy the cache from a machine that has it",
		target{repo: repo, revision: revision}, ErrNotCached, c.options.CacheDir)
}

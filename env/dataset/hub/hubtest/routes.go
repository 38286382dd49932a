package hubtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// made is when everything on this hub was made.
var made = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// hub answers the requests to the hub itself.
func (s *Server) hub(w http.ResponseWriter, r *http.Request) {
	parts, err := segments(r.URL)
	if err != nil {
		refuse(w, http.StatusBadRequest, "", "Bad path")
		return
	}
	authorized, ok := s.authorize(r)
	if !ok {
		refuse(w, http.StatusUnauthorized, "", "Invalid credentials in Authorization header")
		return
	}
	api := len(parts) > 0 && parts[0] == "api"
	if api {
		parts = parts[1:]
	}
	if api && len(parts) == 1 && parts[0] == "whoami-v2" {
		if !authorized {
			refuse(w, http.StatusUnauthorized, "", "Invalid username or password.")
			return
		}
		answer(w, map[string]string{"type": "user", "name": "tester"})
		return
	}
	cached := api && len(parts) > 0 && parts[0] == "resolve-cache"
	if cached {
		parts = parts[1:]
	}
	repo, rest := s.find(api, parts)
	private, gated := s.flags(repo)
	switch {
	case repo == nil || private && !authorized:
		status := http.StatusNotFound
		if !authorized {
			status = http.StatusUnauthorized
		}
		refuse(w, status, "RepoNotFound", "Repository not found")
	case cached:
		s.resolveCache(w, r, repo, rest)
	case api:
		s.api(w, r, repo, rest)
	case len(rest) >= 3 && (rest[0] == "resolve" || rest[0] == "raw"):
		if gated {
			status := http.StatusForbidden
			if !authorized {
				status = http.StatusUnauthorized
			}
			refuse(w, status, "GatedRepo", fmt.Sprintf("Access to %s %s is restricted.", repo.kind, repo.id))
			return
		}
		s.content(w, r, repo, rest)
	default:
		refuse(w, http.StatusNotFound, "", "Sorry, we can't find the page you are looking for.")
	}
}

// segments returns the unescaped parts of a path; a slash within one stays.
func segments(u *url.URL) ([]string, error) {
	var out []string
	for part := range strings.SplitSeq(strings.Trim(u.EscapedPath(), "/"), "/") {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return nil, err
		}
		out = append(out, plain)
	}
	return out, nil
}

// authorize reports whether a request has a valid token; ok is false for a wrong one.
func (s *Server) authorize(r *http.Request) (authorized, ok bool) {
	token, has := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !has {
		return false, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[token], s.tokens[token]
}

// find returns the repository that a path names and what follows in the path.
func (s *Server) find(api bool, parts []string) (*repo, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "models"
	if len(parts) > 0 && (parts[0] == "datasets" || parts[0] == "models" && api) {
		kind, parts = parts[0], parts[1:]
	}
	for n := min(2, len(parts)); n > 0; n-- {
		if r := s.repos[kind+"/"+strings.Join(parts[:n], "/")]; r != nil {
			return r, parts[n:]
		}
	}
	return nil, nil
}

// flags tells whether a repository is private and gated.
func (s *Server) flags(r *repo) (private, gated bool) {
	if r == nil {
		return false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.private, r.gated
}

// revision takes a revision off a path: "refs/convert/parquet" may be three parts of it.
func revision(parts []string) (string, []string) {
	if len(parts) >= 3 && parts[0] == "refs" {
		return strings.Join(parts[:3], "/"), parts[3:]
	}
	return parts[0], parts[1:]
}

// at returns the commit of a revision, or refuses.
func (s *Server) at(w http.ResponseWriter, r *repo, rev string) *commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := r.resolve(rev)
	if c == nil {
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+rev)
	}
	return c
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	w.Header().Set("X-Error-Message", message)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}

// api answers what is below /api/datasets/ORG/NAME.
func (s *Server) api(w http.ResponseWriter, r *http.Request, repo *repo, rest []string) {
	route := ""
	if len(rest) > 0 {
		route, rest = rest[0], rest[1:]
	}
	rev := "main"
	if len(rest) > 0 {
		rev, rest = revision(rest)
	}
	switch {
	case route == "refs":
		s.refs(w, repo)
	case route == "" || route == "revision":
		if c := s.at(w, repo, rev); c != nil {
			s.info(w, r, repo, c)
		}
	case route == "tree":
		if c := s.at(w, repo, rev); c != nil {
			s.tree(w, r, c, strings.Join(rest, "/"))
		}
	case route == "paths-info" && r.Method == http.MethodPost:
		if c := s.at(w, repo, rev); c != nil {
			pathsInfo(w, r, c)
		}
	default:
		refuse(w, http.StatusNotFound, "", "Sorry, we can't find the page you are looking for.")
	}
}

// info describes a repository: all of it, or the fields that "expand" names.
func (s *Server) info(w http.ResponseWriter, r *http.Request, repo *repo, c *commit) {
	siblings := []map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		siblings = append(siblings, map[string]string{"rfilename": name})
	}
	private, isGated := s.flags(repo)
	gated := any(false)
	if isGated {
		gated = "manual"
	}
	all := map[string]any{
		"_id": "65f0c0ffee0123456789abcd", "id": repo.id, "sha": c.id, "private": private, "gated": gated,
		"disabled": false, "lastModified": made, "createdAt": made, "likes": 0, "downloads": 0, "tags": []string{},
		"author": path.Dir(repo.id), "siblings": siblings,
	}
	expand := append(r.URL.Query()["expand"], r.URL.Query()["expand[]"]...)
	if len(expand) == 0 {
		answer(w, all)
		return
	}
	some := map[string]any{"_id": all["_id"], "id": all["id"]}
	for _, field := range expand {
		if v, ok := all[field]; ok {
			some[field] = v
		}
	}
	answer(w, some)
}

func (s *Server) refs(w http.ResponseWriter, repo *repo) {
	type ref struct {
		Name   string `json:"name"`
		Ref    string `json:"ref"`
		Target string `json:"targetCommit"`
	}
	out := map[string][]ref{"branches": {}, "converts": {}, "tags": {}}
	s.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(repo.refs)) {
		if short, ok := strings.CutPrefix(name, "refs/convert/"); ok {
			out["converts"] = append(out["converts"], ref{short, name, repo.refs[name]})
			continue
		}
		out["branches"] = append(out["branches"], ref{name, "refs/heads/" + name, repo.refs[name]})
	}
	s.mu.Unlock()
	answer(w, out)
}

// entry is one element of a listing.
type entry struct {
	Type string `json:"type"`
	OID  string `json:"oid"`
	Size int    `json:"size"`
	LFS  *lfs   `json:"lfs,omitempty"`
	Path string `json:"path"`

	LastCommit *lastCommit     `json:"lastCommit,omitempty"`
	Security   *securityStatus `json:"securityFileStatus,omitempty"`
}

type lfs struct {
	OID         string `json:"oid"`
	Size        int    `json:"size"`
	PointerSize int    `json:"pointerSize"`
}

type lastCommit struct {
	ID    string    `json:"id"`
	Title string    `json:"title"`
	Date  time.Time `json:"date"`
}

type securityStatus struct {
	Status string `json:"status"`
}

func (c *commit) entry(name string, expand bool) entry {
	e := entry{Type: "directory", Path: name}
	if f, ok := c.files[name]; ok {
		e.Type, e.OID, e.Size = "file", f.oid, len(f.content)
		if f.large {
			e.LFS = &lfs{OID: f.sha256, Size: len(f.content), PointerSize: len(f.pointer())}
		}
	} else {
		e.OID = c.treeID(name)
	}
	if expand {
		e.LastCommit = &lastCommit{ID: c.id, Title: "Add files", Date: made}
		e.Security = &securityStatus{Status: "safe"}
	}
	return e
}

// list returns the names below a folder.
func (c *commit) list(dir string, recursive bool) []string {
	var out []string
	for _, name := range c.children(dir) {
		plain, isDir := strings.CutSuffix(name, "/")
		out = append(out, join(dir, plain))
		if isDir && recursive {
			out = append(out, c.list(join(dir, plain), true)...)
		}
	}
	return out
}

// tree answers one page of a listing and names the next one in the header Link.
func (s *Server) tree(w http.ResponseWriter, r *http.Request, c *commit, dir string) {
	query := r.URL.Query()
	names := c.list(dir, query.Get("recursive") == "true" || query.Get("recursive") == "1")
	if dir != "" && len(names) == 0 {
		refuse(w, http.StatusNotFound, "EntryNotFound", dir+" does not exist on \""+c.id+"\"")
		return
	}
	s.mu.Lock()
	size := s.pageSize
	s.mu.Unlock()
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 {
		size = min(size, n)
	}
	start, _ := strconv.Atoi(query.Get("cursor"))
	start = min(max(start, 0), len(names))
	end := min(start+size, len(names))
	if end < len(names) {
		query.Set("cursor", strconv.Itoa(end))
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, s.URL, r.URL.EscapedPath(), query.Encode()))
	}
	page := []entry{}
	for _, name := range names[start:end] {
		page = append(page, c.entry(name, query.Get("expand") == "true" || query.Get("expand") == "1"))
	}
	answer(w, page)
}

// pathsInfo describes the paths that a request names, as JSON or as a form.
func pathsInfo(w http.ResponseWriter, r *http.Request, c *commit) {
	var want struct {
		Paths  []string `json:"paths"`
		Expand bool     `json:"expand"`
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&want); err != nil {
			refuse(w, http.StatusBadRequest, "", "Bad JSON")
			return
		}
	} else if err := r.ParseForm(); err == nil {
		want.Paths = r.PostForm["paths"]
		want.Expand = strings.EqualFold(r.PostForm.Get("expand"), "true")
	}
	out := []entry{}
	for _, name := range want.Paths {
		if _, ok := c.files[name]; ok || len(c.children(name)) > 0 {
			out = append(out, c.entry(name, want.Expand))
		}
	}
	answer(w, out)
}

// content answers .../resolve/REV/PATH and .../raw/REV/PATH.
func (s *Server) content(w http.ResponseWriter, r *http.Request, repo *repo, rest []string) {
	route := rest[0]
	rev, rest := revision(rest[1:])
	name := strings.Join(rest, "/")
	c := s.at(w, repo, rev)
	if c == nil {
		return
	}
	w.Header().Set("X-Repo-Commit", c.id)
	f, ok := c.files[name]
	if !ok {
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	if route == "raw" {
		data := f.content
		if f.large {
			data = f.pointer()
		}
		serve(w, r, data, f.oid)
		return
	}
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(f.content)))
	w.Header().Set("Accept-Ranges", "bytes")
	if f.large {
		w.Header().Set("X-Linked-ETag", `"`+f.sha256+`"`)
		w.Header().Set("Location", s.CDN+"/"+key(repo.kind, repo.id)+"/"+f.sha256+"?X-Amz-Signature=0123456789abcdef")
		w.WriteHeader(http.StatusFound)
		return
	}
	// Small files are sent to another path of the same host.
	w.Header().Set("X-Linked-ETag", `"`+f.oid+`"`)
	escaped := make([]string, len(rest))
	for i, part := range rest {
		escaped[i] = url.PathEscape(part)
	}
	w.Header().Set("Location", "/api/resolve-cache/"+key(repo.kind, repo.id)+"/"+c.id+"/"+strings.Join(escaped, "/")+"?etag=%22"+f.oid+"%22")
	w.WriteHeader(http.StatusTemporaryRedirect)
}

func (s *Server) resolveCache(w http.ResponseWriter, r *http.Request, repo *repo, rest []string) {
	if len(rest) < 2 {
		refuse(w, http.StatusNotFound, "", "Not found")
		return
	}
	c := s.at(w, repo, rest[0])
	if c == nil {
		return
	}
	w.Header().Set("X-Repo-Commit", c.id)
	f, ok := c.files[strings.Join(rest[1:], "/")]
	if !ok || f.large {
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	serve(w, r, f.content, f.oid)
}

func serve(w http.ResponseWriter, r *http.Request, content []byte, etag string) {
	w.Header().Set("ETag", `"`+etag+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// cdn answers the requests to the content delivery network.
func (s *Server) cdn(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		http.Error(w, "Only one auth mechanism allowed", http.StatusBadRequest)
		return
	}
	if r.URL.Query().Get("X-Amz-Signature") == "" {
		http.Error(w, "Access denied", http.StatusForbidden)
		return
	}
	repo, sum := path.Split(strings.Trim(r.URL.Path, "/"))
	s.mu.Lock()
	var found *file
	if r := s.repos[strings.Trim(repo, "/")]; r != nil {
		for _, c := range r.commits {
			for _, f := range c.files {
				if f.sha256 == sum {
					found = &f
				}
			}
		}
	}
	s.mu.Unlock()
	if found == nil {
		http.NotFound(w, r)
		return
	}
	serve(w, r, found.content, sum)
}

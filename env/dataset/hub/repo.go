package hub

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Type says what a repository of the hub holds.
type Type string

// The types this package reads.
const (
	Dataset Type = "dataset"
	Model   Type = "model"
)

// Repo names a repository of the hub, such as Repo{Dataset, "org/name"}. Old
// repositories have no organisation ("gpt2").
type Repo struct {
	Type Type
	ID   string
}

// String returns "dataset org/name".
func (r Repo) String() string { return string(r.Type) + " " + r.ID }

// Folder returns the name of the repository's folder in the cache.
func (r Repo) Folder() string {
	return string(r.Type) + "s--" + strings.ReplaceAll(r.ID, "/", "--")
}

var repoID = regexp.MustCompile(`^([A-Za-z0-9][\w\-.]*/)?[A-Za-z0-9_][\w\-.]{0,95}$`)

// Check reports what is wrong with the repository's name.
func (r Repo) Check() error {
	switch {
	case r.Type != Dataset && r.Type != Model:
		return fmt.Errorf("a repository of type %q can't be read: it must be %q or %q", r.Type, Dataset, Model)
	case !repoID.MatchString(r.ID), strings.Contains(r.ID, "--"), strings.Contains(r.ID, ".."),
		strings.HasSuffix(r.ID, ".git"), strings.HasSuffix(r.ID, "-"), strings.HasSuffix(r.ID, "."):
		return fmt.Errorf("%q is no name of a %s on the hub: it must look like org/name, of letters, digits, '-', '_' and '.'", r.ID, r.Type)
	}
	return nil
}

// webPath is the repository's path on the web site and in addresses of its files.
func (r Repo) webPath() string {
	if r.Type == Model {
		return r.ID
	}
	return string(r.Type) + "s/" + r.ID
}

func (r Repo) apiPath() string { return "api/" + string(r.Type) + "s/" + r.ID }

// File is one file of a repository at a revision, as the hub lists it.
type File struct {
	// Path is relative to the repository, with slashes.
	Path string
	// Size is in bytes.
	Size int64
	// OID is the git blob id: of the content, or of its pointer where SHA256 is given.
	OID string
	// SHA256 is the content's hash, in hex, for files in large-file storage; else empty.
	SHA256 string

	xet string // the hash of the newer storage, kept for other clients of the cache
}

// etag is the name of the file's blob in the cache.
func (f File) etag() string {
	if f.SHA256 != "" {
		return f.SHA256
	}
	return f.OID
}

// commitHash matches a full commit id, which needs no resolving.
var commitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// xetHash matches the hash of a file in the newer storage.
var xetHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// etagName matches what may become the name of a blob.
var etagName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,127}$`)

// checkPath refuses a file's path that could lead out of a folder.
func checkPath(p string) error {
	switch {
	case p == "", p == ".", strings.HasPrefix(p, "/"), strings.ContainsAny(p, "\\\x00"), path.Clean(p) != p,
		p == "..", strings.HasPrefix(p, "../"), len(p) > 1 && p[1] == ':':
		return fmt.Errorf("%q is no path of a file in a repository", p)
	}
	return nil
}

// checkRevision refuses a revision that git would not have, or that could lead out of
// the folder of references.
func checkRevision(rev string) error {
	if err := checkPath(rev); err != nil || strings.ContainsAny(rev, " ~^:?*[") || strings.HasPrefix(rev, "-") || len(rev) > 250 {
		return fmt.Errorf("%q is no revision: give a branch, a tag, a reference such as %s, or a commit", rev, ParquetRevision)
	}
	return nil
}

// escapePath escapes each part of a file's path.
func escapePath(p string) string {
	parts := strings.Split(p, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}

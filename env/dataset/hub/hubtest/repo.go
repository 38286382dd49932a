package hubtest

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// repo is one repository with all its commits.
type repo struct {
	kind, id string
	private  bool
	gated    bool
	commits  map[string]*commit
	refs     map[string]string // "main", "refs/convert/parquet", … → commit
}

// commit is the files at one commit.
type commit struct {
	id    string
	files map[string]file
}

type file struct {
	content []byte
	oid     string // git blob id, of the pointer for large files
	sha256  string // of the content
	large   bool
}

func gitHash(kind string, content []byte) []byte {
	h := sha1.New()
	fmt.Fprintf(h, "%s %d\x00", kind, len(content))
	h.Write(content)
	return h.Sum(nil)
}

// pointer is what git has in the place of a large file.
func (f file) pointer() []byte {
	return fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", f.sha256, len(f.content))
}

// Put makes a commit with exactly these files and lets the reference ("main", a tag,
// "refs/convert/parquet") stand for it. The repository is made when needed; kind is
// "dataset" or "model". It returns the commit's id.
func (s *Server) Put(kind, id, ref string, files map[string][]byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repos[key(kind, id)]
	if r == nil {
		r = &repo{kind: kind, id: id, commits: map[string]*commit{}, refs: map[string]string{}}
		s.repos[key(kind, id)] = r
	}
	c := &commit{files: map[string]file{}}
	for name, content := range files {
		sum := sha256.Sum256(content)
		f := file{content: content, sha256: hex.EncodeToString(sum[:]), large: s.large(name, len(content))}
		stored := content
		if f.large {
			stored = f.pointer()
		}
		f.oid = hex.EncodeToString(gitHash("blob", stored))
		c.files[name] = f
	}
	text := fmt.Sprintf("tree %s\nparent %s\n\n%s", c.treeID(""), r.refs[ref], ref)
	c.id = hex.EncodeToString(gitHash("commit", []byte(text)))
	r.commits[c.id], r.refs[ref] = c, c.id
	return c.id
}

// PutFolder is Put with the files of a folder; hidden ones are left out.
func (s *Server) PutFolder(kind, id, ref, dir string) (string, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(e.Name(), ".") && name != dir {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = os.ReadFile(name)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("put the folder %s on the hub: %w", dir, err)
	}
	return s.Put(kind, id, ref, files), nil
}

// SetPrivate hides a repository from requests without a valid token.
func (s *Server) SetPrivate(kind, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[key(kind, id)].private = true
}

// SetGated refuses the content of a repository to everybody, as to those who have not
// accepted its conditions.
func (s *Server) SetGated(kind, id string, gated bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[key(kind, id)].gated = gated
}

// resolve returns the commit that a revision stands for.
func (r *repo) resolve(revision string) *commit {
	if id, ok := r.refs[revision]; ok {
		return r.commits[id]
	}
	if id, ok := r.refs["main"]; ok && revision == "HEAD" {
		return r.commits[id]
	}
	for id, c := range r.commits {
		if len(revision) >= 7 && strings.HasPrefix(id, revision) {
			return c
		}
	}
	return nil
}

// children returns the names directly below a folder, those of folders with a slash.
func (c *commit) children(dir string) []string {
	names := map[string]bool{}
	for name := range c.files {
		rest, ok := name, true
		if dir != "" {
			rest, ok = strings.CutPrefix(name, dir+"/")
		}
		if !ok {
			continue
		}
		if first, _, below := strings.Cut(rest, "/"); below {
			names[first+"/"] = true
		} else {
			names[first] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// treeID is git's id of a folder.
func (c *commit) treeID(dir string) string {
	var content []byte
	for _, name := range c.children(dir) {
		plain, isDir := strings.CutSuffix(name, "/")
		mode, id := "100644", ""
		if isDir {
			mode, id = "40000", c.treeID(join(dir, plain))
		} else {
			id = c.files[join(dir, plain)].oid
		}
		raw, err := hex.DecodeString(id)
		if err != nil {
			panic(err) // made by gitHash
		}
		content = fmt.Appendf(content, "%s %s\x00", mode, plain)
		content = append(content, raw...)
	}
	return hex.EncodeToString(gitHash("tree", content))
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

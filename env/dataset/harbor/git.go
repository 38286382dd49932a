package harbor

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Checkout is the git checkout that a folder belongs to. Whether files were changed since is
// not looked at: digests tell what was there.
type Checkout struct {
	// Root is the checkout's top folder, Path the folder's path below it, with slashes ("." for
	// the top).
	Root, Path string
	// Commit is the full id of the commit that is checked out; empty before the first one, or
	// where references are kept in a form that is not known.
	Commit string
	// Branch is empty when a commit alone is checked out.
	Branch string
	// Origin is the address of the remote "origin", without user and password.
	Origin string
}

// maxGitFile bounds the files of a repository that are read.
const maxGitFile = 64 << 20

// FindCheckout returns the checkout that a folder belongs to, nil when it belongs to none.
// It reads the repository's files and runs no git.
func FindCheckout(dir string) *Checkout {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for top := dir; ; top = filepath.Dir(top) {
		if c, ok := readCheckout(top); ok {
			if rel, err := filepath.Rel(top, dir); err == nil {
				c.Path = filepath.ToSlash(rel)
			}
			return c
		}
		if top == filepath.Dir(top) {
			return nil
		}
	}
}

var objectID = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

func readCheckout(top string) (*Checkout, bool) {
	gitDir := filepath.Join(top, ".git")
	info, err := os.Stat(gitDir)
	if err != nil {
		return nil, false
	}
	if !info.IsDir() {
		// A worktree or a submodule: a file that names the place.
		line, ok := strings.CutPrefix(readLine(gitDir), "gitdir: ")
		if !ok {
			return nil, false
		}
		gitDir = below(top, line)
	}
	head := readLine(filepath.Join(gitDir, "HEAD"))
	if head == "" {
		return nil, false
	}
	common := gitDir
	if line := readLine(filepath.Join(gitDir, "commondir")); line != "" {
		common = below(gitDir, line)
	}
	c := &Checkout{Root: top, Origin: originURL(filepath.Join(common, "config"))}
	for range 5 { // a reference may name another one
		ref, isRef := strings.CutPrefix(head, "ref: ")
		if !isRef {
			if objectID.MatchString(head) {
				c.Commit = head
			}
			break
		}
		if !fs.ValidPath(ref) {
			break
		}
		if branch, ok := strings.CutPrefix(ref, "refs/heads/"); ok && branch != ".invalid" {
			c.Branch = branch
		}
		if head = readLine(filepath.Join(gitDir, filepath.FromSlash(ref))); head == "" {
			head = readLine(filepath.Join(common, filepath.FromSlash(ref)))
		}
		if head == "" {
			head = packedRef(filepath.Join(common, "packed-refs"), ref)
		}
	}
	return c, true
}

// below resolves a path that may be relative to a folder.
func below(dir, name string) string {
	name = filepath.FromSlash(name)
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// readLine returns the first line of a small file, "" when there is none.
func readLine(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	line, err := bufio.NewReader(io.LimitReader(f, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return strings.TrimSpace(line)
}

// packedRef looks a reference up among the packed ones.
func packedRef(name, ref string) string {
	id := ""
	eachLine(name, func(line string) bool {
		sum, other, ok := strings.Cut(line, " ")
		if ok && other == ref && objectID.MatchString(sum) {
			id = sum
		}
		return id == ""
	})
	return id
}

var (
	configSection = regexp.MustCompile(`^\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]`)
	configURL     = regexp.MustCompile(`^(?i:url)\s*=\s*"?([^"]*?)"?\s*$`)
)

// originURL returns the address of the remote "origin" without what it may hold of
// passwords.
func originURL(config string) string {
	inOrigin, address := false, ""
	eachLine(config, func(line string) bool {
		line = strings.TrimSpace(line)
		if m := configSection.FindStringSubmatch(line); m != nil {
			inOrigin = strings.EqualFold(m[1], "remote") && m[2] == "origin"
		} else if m := configURL.FindStringSubmatch(line); m != nil && inOrigin {
			address = m[1]
		}
		return address == ""
	})
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		return u.String()
	}
	if strings.Contains(address, "://") {
		return "" // not to be understood, so it may hold anything
	}
	return address
}

// eachLine calls f with the lines of a file until it returns false.
func eachLine(name string, f func(line string) bool) {
	file, err := os.Open(name)
	if err != nil {
		return
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, maxGitFile))
	for lines.Scan() {
		if !f(lines.Text()) {
			return
		}
	}
}

package docker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ignoreRules are the lines of a .dockerignore: the last that matches decides.
type ignoreRules struct {
	rules      []ignoreRule
	exceptions bool // there is a rule that takes something in again
}

type ignoreRule struct {
	parts  []string
	except bool
}

// readIgnoreRules reads the rules that belong to a Dockerfile: its own, from the file
// that carries its name, or those of the folder.
func readIgnoreRules(root *os.Root, dockerfile string) (ignoreRules, error) {
	f, err := root.Open(dockerfile + ".dockerignore")
	if errors.Is(err, fs.ErrNotExist) {
		f, err = root.Open(".dockerignore")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return ignoreRules{}, nil
	}
	if err != nil {
		return ignoreRules{}, err
	}
	defer f.Close()
	return parseIgnoreRules(io.LimitReader(f, 1<<20))
}

func parseIgnoreRules(r io.Reader) (ignoreRules, error) {
	var list ignoreRules
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		rule := ignoreRule{}
		if rest, ok := strings.CutPrefix(line, "!"); ok {
			rule.except, line = true, strings.TrimSpace(rest)
		}
		line = strings.Trim(filepath.ToSlash(filepath.Clean(line)), "/")
		if line == "." || line == "" {
			continue
		}
		rule.parts = strings.Split(line, "/")
		for _, part := range rule.parts {
			if _, err := filepath.Match(part, ""); err != nil {
				return ignoreRules{}, fmt.Errorf("the pattern %q of .dockerignore: %w", line, err)
			}
		}
		list.exceptions = list.exceptions || rule.except
		list.rules = append(list.rules, rule)
	}
	return list, lines.Err()
}

// match reports whether a file, or a folder it lies in, is left out.
func (l ignoreRules) match(name string) bool {
	parts := strings.Split(name, "/")
	ignored := false
	for _, r := range l.rules {
		if r.except == ignored && matchPrefix(r.parts, parts) {
			ignored = !r.except
		}
	}
	return ignored
}

// matchPrefix reports whether a pattern matches a path or a folder above it; "**"
// stands for any number of folders.
func matchPrefix(pattern, path []string) bool {
	if len(pattern) == 0 {
		return true
	}
	if pattern[0] == "**" {
		for i := 0; i <= len(path); i++ {
			if matchPrefix(pattern[1:], path[i:]) && (len(pattern) > 1 || len(path) > 0) {
				return true
			}
		}
		return false
	}
	if len(path) == 0 {
		return false
	}
	ok, err := filepath.Match(pattern[0], path[0])
	return err == nil && ok && matchPrefix(pattern[1:], path[1:])
}

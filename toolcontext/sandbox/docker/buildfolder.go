package docker

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// buildFolder is a folder with a Dockerfile.
type buildFolder struct {
	dir    string
	ignore ignoreRules
	digest string // of everything the engine is sent
}

// readBuildFolder reads a folder once, to know it again by its content.
func readBuildFolder(dir string) (*buildFolder, error) {
	info, err := os.Stat(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("its Dockerfile is no file")
	}
	f := &buildFolder{dir: dir}
	if f.ignore, err = readIgnoreRules(filepath.Join(dir, ".dockerignore")); err != nil {
		return nil, err
	}
	sum := sha256.New()
	if err := f.write(context.Background(), sum); err != nil {
		return nil, err
	}
	f.digest = hex.EncodeToString(sum.Sum(nil))
	return f, nil
}

// stream returns the folder as a tar stream, which has to be closed.
func (f *buildFolder) stream(ctx context.Context) io.ReadCloser {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(f.write(ctx, w)) }()
	return r
}

// write writes the folder as a tar stream that is the same for the same content:
// no times and no owners, in the order of names. Links are stored, not followed.
func (f *buildFolder) write(ctx context.Context, w io.Writer) error {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tw := tar.NewWriter(w)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil || name == "." {
			return err
		}
		if name != "Dockerfile" && name != ".dockerignore" && f.ignore.match(name) {
			if d.IsDir() && !f.ignore.exceptions {
				return fs.SkipDir
			}
			return nil
		}
		return f.add(tw, root, name, d)
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

func (f *buildFolder) add(tw *tar.Writer, root *os.Root, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	target := ""
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		if target, err = root.Readlink(name); err != nil {
			return err
		}
	case !mode.IsDir() && !mode.IsRegular():
		return nil // sockets, pipes and devices have no place in an image
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name = name
	if info.IsDir() {
		h.Name += "/"
	}
	h.ModTime, h.AccessTime, h.ChangeTime = time.Unix(0, 0), time.Time{}, time.Time{}
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	content, err := root.Open(name)
	if err != nil {
		return err
	}
	defer content.Close()
	n, err := io.Copy(tw, io.LimitReader(content, info.Size()))
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s shrank while it was being read", name)
	}
	return err
}

// ignoreRules are the lines of a .dockerignore: the last that matches decides.
type ignoreRules struct {
	rules      []ignoreRule
	exceptions bool // there is a rule that takes something in again
}

type ignoreRule struct {
	parts  []string
	except bool
}

func readIgnoreRules(path string) (ignoreRules, error) {
	f, err := os.Open(path)
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

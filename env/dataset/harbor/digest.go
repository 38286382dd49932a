package harbor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Digests of tasks and folders.
//
// A digest is "sha256:" and the SHA-256, in hex, of one line for each file, sorted by path:
// its kind ("file", "exec" when its owner may execute it, or "link"), the SHA-256 of its content
// (of a link: of its target), and its quoted path with slashes. Folders as such, owners, times and other mode bits
// do not count, so that a checkout, an archive and a copy of the same files agree.
//
// A task's digest covers task.toml, instruction.md, environment/, tests/, solution/ and
// steps/ and nothing else: a README or a licence beside them changes nothing that a
// rollout or a verdict depends on. Canary lines within those files count like any other line.

// taskParts are what a task's digest covers.
var taskParts = [...]string{"environment", "instruction.md", "solution", "steps", "task.toml", "tests"}

// FolderDigest returns the digest of all files of a folder.
func FolderDigest(ctx context.Context, dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("digest the folder %s: %w", dir, err)
	}
	defer root.Close()
	sum, _, err := digest(ctx, root, ".")
	if err != nil {
		return "", fmt.Errorf("digest the folder %s: %w", dir, err)
	}
	return sum, nil
}

// digestTask returns a task's digest, and notes on files that can't be taken or may surprise.
func digestTask(ctx context.Context, root *os.Root) (string, []Problem, error) {
	return digest(ctx, root, taskParts[:]...)
}

func digest(ctx context.Context, root *os.Root, parts ...string) (string, []Problem, error) {
	d := digester{ctx: ctx, root: root, buf: make([]byte, 128<<10)}
	for _, part := range parts {
		if err := fs.WalkDir(rootFS{root}, part, d.visit); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", nil, err
		}
	}
	slices.SortFunc(d.lines, func(a, b digestLine) int { return strings.Compare(a.path, b.path) })
	h := sha256.New()
	for _, l := range d.lines {
		fmt.Fprintf(h, "%s %s %q\n", l.kind, l.sum, l.path)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), d.notes, nil
}

// rootFS walks below an os.Root; unlike Root.FS it does not mind names that are no UTF-8.
type rootFS struct{ root *os.Root }

func (r rootFS) Open(name string) (fs.File, error) { return r.root.Open(filepath.FromSlash(name)) }

func (r rootFS) Stat(name string) (fs.FileInfo, error) { return r.root.Lstat(filepath.FromSlash(name)) }

type digestLine struct{ kind, sum, path string }

type digester struct {
	ctx   context.Context
	root  *os.Root
	buf   []byte
	lines []digestLine
	notes []Problem
}

func (d *digester) visit(name string, e fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if err := context.Cause(d.ctx); err != nil {
		return err
	}
	switch {
	case e.IsDir():
		return nil
	case e.Type()&fs.ModeSymlink != 0:
		target, err := d.root.Readlink(filepath.FromSlash(name))
		if err != nil {
			return err
		}
		if clean := path.Join(path.Dir(name), target); path.IsAbs(target) || clean == ".." || strings.HasPrefix(clean, "../") {
			d.notes = append(d.notes, Problem{File: name, Text: fmt.Sprintf("is a link that leads out of the task (%q); it stays a link and is not followed", target)})
		}
		sum := sha256.Sum256([]byte(target))
		d.lines = append(d.lines, digestLine{"link", hex.EncodeToString(sum[:]), name})
		return nil
	case !e.Type().IsRegular():
		d.notes = append(d.notes, Problem{File: name, Text: "is neither file, folder nor link and is left out"})
		return nil
	}
	return d.file(name)
}

func (d *digester) file(name string) error {
	f, err := d.root.Open(filepath.FromSlash(name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, d.buf); err != nil {
		return err
	}
	kind := "file"
	if info.Mode().Perm()&0o100 != 0 {
		kind = "exec"
	}
	d.lines = append(d.lines, digestLine{kind, hex.EncodeToString(h.Sum(nil)), name})
	return nil
}

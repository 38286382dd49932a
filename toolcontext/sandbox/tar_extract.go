package sandbox

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// TarLimits bounds what ExtractTar takes from an archive.
type TarLimits struct {
	// MaxBytes bounds the content of all files together. Default: 16 GiB.
	MaxBytes int64
	// MaxEntries bounds the number of entries. Default: 1,000,000.
	MaxEntries int
	// Skip, when set, is told of every entry that is left out because it is a link
	// that leaves the directory or neither file, directory nor symbolic link, with
	// the reason. Default: such an entry is an error.
	Skip func(name string, reason error)
}

// ExtractTar unpacks a tar stream under dir, which is created. Regular files,
// directories and symbolic links that stay inside are taken, with their modes (less
// set-user-id, set-group-id and sticky) and modification times. Absolute names, names
// with "..", links that leave dir and broken limits wrap ErrUnsafeArchive; nothing
// outside dir is ever written, also when links or files inside change meanwhile.
// What came before the failing entry stays.
func ExtractTar(ctx context.Context, r io.Reader, dir string, limits TarLimits) error {
	if limits.MaxBytes <= 0 {
		limits.MaxBytes = 16 << 30
	}
	if limits.MaxEntries <= 0 {
		limits.MaxEntries = 1_000_000
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the target directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the target directory: %w", err)
	}
	defer root.Close()
	x := extraction{root: root, limits: limits, buf: make([]byte, 128<<10)}
	err = x.all(ctx, tar.NewReader(contextReader{ctx, r}))
	return errors.Join(err, x.finishDirs())
}

// contextReader fails with the context's cause once it has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// extraction is one ExtractTar under way.
type extraction struct {
	root   *os.Root
	limits TarLimits
	bytes  int64
	dirs   []dirMode
	buf    []byte
}

// dirMode is what a directory gets when all is in it: it may forbid writing.
type dirMode struct {
	name string
	mode fs.FileMode
	time time.Time
}

func (x *extraction) all(ctx context.Context, tr *tar.Reader) error {
	for n := 0; ; n++ {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if n >= x.limits.MaxEntries {
			return fmt.Errorf("%w: it has more than %d entries", ErrUnsafeArchive, x.limits.MaxEntries)
		}
		if err := x.entry(h, tr); err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
}

func (x *extraction) entry(h *tar.Header, content io.Reader) error {
	name, err := safeName(h.Name)
	if err != nil {
		return err
	}
	mode := h.FileInfo().Mode().Perm()
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir:
		err = x.directory(name, dirMode{name, mode, h.ModTime})
	case tar.TypeReg, '\x00':
		if name == "." {
			return fmt.Errorf("%w: the file %q has the name of a directory", ErrUnsafeArchive, h.Name)
		}
		err = x.file(name, mode, h, content)
	case tar.TypeSymlink:
		if reason := x.unsafeLink(name, h.Linkname); reason != nil {
			return x.refuse(h.Name, reason)
		}
		err = x.symlink(name, h.Linkname)
	case tar.TypeLink:
		return x.refuse(h.Name, errors.New("hard links are not taken; pack the file itself (tar --hard-dereference)"))
	default:
		return x.refuse(h.Name, fmt.Errorf("entries of type %q (devices, pipes) are not taken", h.Typeflag))
	}
	if err != nil && !errors.Is(err, ErrUnsafeArchive) {
		if escapes(err) {
			return fmt.Errorf("%w: %q leads out of the target directory through a link: %w", ErrUnsafeArchive, h.Name, err)
		}
		return fmt.Errorf("unpack %q: %w", h.Name, err)
	}
	return err
}

// refuse leaves an entry out where that is allowed.
func (x *extraction) refuse(name string, reason error) error {
	if x.limits.Skip != nil {
		x.limits.Skip(name, reason)
		return nil
	}
	return fmt.Errorf("%w: %q: %w", ErrUnsafeArchive, name, reason)
}

// escapes reports whether a file system error is os.Root's refusal to leave it,
// which has no exported value.
func escapes(err error) bool { return strings.Contains(err.Error(), "escapes from parent") }

// safeName returns an entry's name in clean form.
func safeName(name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		return "", fmt.Errorf("%w: the name %q is absolute", ErrUnsafeArchive, name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%w: the name %q contains \"..\"", ErrUnsafeArchive, name)
		}
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", fmt.Errorf("%w: the name %q contains a NUL byte", ErrUnsafeArchive, name)
	}
	return path.Clean(name), nil
}

func (x *extraction) directory(name string, d dirMode) error {
	if err := x.root.MkdirAll(name, 0o755); err != nil {
		return err
	}
	// Until all is unpacked the directory has to be writable, whatever it was.
	if err := x.root.Chmod(name, d.mode|0o700); err != nil {
		return err
	}
	x.dirs = append(x.dirs, d)
	return nil
}

// clear makes way for an entry: what is there under its name goes, so that nothing
// is written through a link, into a pipe or over a running program.
func (x *extraction) clear(name string) error {
	if err := x.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	info, err := x.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return errors.New("a directory of that name is in the way")
	}
	return x.root.Remove(name)
}

func (x *extraction) file(name string, mode fs.FileMode, h *tar.Header, content io.Reader) (err error) {
	if h.Size > x.limits.MaxBytes-x.bytes {
		return fmt.Errorf("%w: its files have more than %d bytes", ErrUnsafeArchive, x.limits.MaxBytes)
	}
	x.bytes += h.Size
	if err := x.clear(name); err != nil {
		return err
	}
	f, err := x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			err = x.root.Chtimes(name, time.Time{}, h.ModTime)
		}
	}()
	// Hidden from io.CopyBuffer: it would ignore the buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{content}, x.buf)
	if err != nil {
		return err
	}
	if n != h.Size {
		return io.ErrUnexpectedEOF
	}
	return f.Chmod(mode)
}

func (x *extraction) symlink(name, target string) error {
	if err := x.clear(name); err != nil {
		return err
	}
	return x.root.Symlink(target, name)
}

// unsafeLink reports why a symbolic link may lead out of the directory. Its own
// directory must be reached without links, and its target may go up only at its
// start: then each link by itself stays inside, and so does every chain of them.
func (x *extraction) unsafeLink(name, target string) error {
	if name == "." {
		return errors.New("a link can't take the place of the target directory")
	}
	if target == "" || path.IsAbs(target) {
		return fmt.Errorf("its target %q is not relative", target)
	}
	depth := strings.Count(name, "/")
	down := false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 || down {
				return fmt.Errorf("its target %q leaves the directory, or may through another link", target)
			}
		default:
			down = true
		}
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := x.root.Lstat(dir)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("it lies below the link %s", filepath.FromSlash(dir))
		}
	}
	return nil
}

// finishDirs gives directories their own modes and times, the deepest first.
func (x *extraction) finishDirs() error {
	var errs []error
	for i := len(x.dirs) - 1; i >= 0; i-- {
		d := x.dirs[i]
		err := x.root.Chtimes(d.name, time.Time{}, d.time)
		if err = errors.Join(x.root.Chmod(d.name, d.mode), err); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("set the mode of %q: %w", d.name, err))
		}
	}
	return errors.Join(errs...)
}

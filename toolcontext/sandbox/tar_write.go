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
	"syscall"
	"time"
)

// WriteTar writes a file or a directory with all below as a tar stream whose names
// are relative to the parent of name: the base name of name comes first in each.
// Links below are stored as links and never followed; name itself may be a link to
// the file or directory. Sockets, pipes and devices are left out. Owners are not
// stored. A name that does not exist wraps fs.ErrNotExist.
func WriteTar(ctx context.Context, w io.Writer, name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	top := filepath.Base(name)
	if top == string(filepath.Separator) || top == ".." {
		top = "."
	}
	a := archive{tw: tw, top: top, buf: make([]byte, 128<<10)}
	if info.IsDir() {
		err = a.tree(ctx, name)
	} else {
		err = a.single(ctx, name)
	}
	if err != nil {
		return err
	}
	return tw.Close()
}

// archive is one WriteTar under way.
type archive struct {
	tw  *tar.Writer
	top string
	buf []byte
}

func (a *archive) single(ctx context.Context, name string) error {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(real))
	if err != nil {
		return err
	}
	defer root.Close()
	base := filepath.Base(real)
	info, err := root.Lstat(base)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a directory", name)
	}
	return a.file(ctx, root, base, a.top)
}

func (a *archive) tree(ctx context.Context, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			if name != "." && errors.Is(err, fs.ErrNotExist) {
				return nil // removed while the archive was being written
			}
			return err
		}
		info, err := d.Info()
		if err == nil {
			err = a.add(ctx, root, name, info)
		}
		if name != "." && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

func (a *archive) add(ctx context.Context, root *os.Root, name string, info fs.FileInfo) error {
	stored := path.Join(a.top, name)
	switch mode := info.Mode(); {
	case mode.IsDir():
		return a.header(info, stored+"/", "")
	case mode&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		return a.header(info, stored, target)
	case mode.IsRegular():
		return a.file(ctx, root, name, stored)
	}
	return nil
}

// header writes one entry's header. Hard links are stored as files of their own.
func (a *archive) header(info fs.FileInfo, name, target string) error {
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name = name
	// Stored in whole seconds; rounding up would put a file into the future.
	h.ModTime = h.ModTime.Truncate(time.Second)
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	if err := a.tw.WriteHeader(h); err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// file stores a regular file. It may have become something else since it was looked
// at: it is opened without following links and without waiting for a pipe's writer.
func (a *archive) file(ctx context.Context, root *os.Root, name, stored string) error {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	if err := a.header(info, stored, ""); err != nil {
		return err
	}
	// A file that grows meanwhile is stored as long as it was.
	content := io.LimitReader(contextReader{ctx, f}, info.Size())
	n, err := io.CopyBuffer(struct{ io.Writer }{a.tw}, content, a.buf)
	if err != nil {
		return err
	}
	if n < info.Size() {
		return fmt.Errorf("store %s: it shrank while it was being read", stored)
	}
	return nil
}

package docker

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

	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// resolve turns a path as a command's author writes it into an absolute one.
func (d *plain) resolve(name string) string {
	switch {
	case name == "":
		return d.info.Dir
	case name == "~" || strings.HasPrefix(name, "~/"):
		return path.Join(d.info.Home, name[1:])
	case path.IsAbs(name):
		return path.Clean(name)
	}
	return path.Join(d.info.Dir, name)
}

// Upload unpacks a tar stream; see sandbox.Sandbox. It is unpacked on this machine
// first, with all checks, because the engine follows links that it should not.
func (d *plain) Upload(ctx context.Context, archive io.Reader, dir string) error {
	done, err := d.begin()
	if err != nil {
		return err
	}
	defer done()
	dir = d.resolve(dir)
	if err := d.upload(ctx, archive, dir); err != nil {
		return fmt.Errorf("upload to %s: %w", dir, err)
	}
	return nil
}

func (d *plain) upload(ctx context.Context, archive io.Reader, dir string) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.life, func() { cancel(sandbox.ErrClosed) })()
	here, err := os.MkdirTemp("", "hermes-env-upload-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeTree(here)) }()
	tree := filepath.Join(here, "tree")
	if err := sandbox.ExtractTar(ctx, archive, tree, sandbox.TarLimits{}); err != nil {
		return err
	}
	names, err := uploadNames(tree)
	if err != nil {
		return err
	}
	r, err := d.run(ctx, sandbox.Command{Script: makeWay(dir, names), Dir: "/"})
	switch {
	case err != nil:
		return err
	case r.Cancelled:
		return context.Cause(ctx)
	case r.ExitCode == unsafeCode:
		return fmt.Errorf("%w: %s", sandbox.ErrUnsafeArchive, strings.TrimSpace(r.String()))
	case r.ExitCode != 0:
		return errors.New(strings.TrimSpace(r.String()))
	}
	pr, pw := io.Pipe()
	go func() { _ = pw.CloseWithError(d.repack(ctx, pw, tree)) }()
	err = d.provider.engine.copyIn(ctx, d.container, dir, pr)
	_ = pr.Close() // ends the writer when the engine did not read to the end
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return d.lost(ctx, err)
	}
	return nil
}

// removeTree removes a tree whose folders may forbid it.
func removeTree(dir string) error {
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(name, 0o700) // what can't be removed is said below
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// uploadName is one entry of an upload.
type uploadName struct {
	name string
	dir  bool
}

func uploadNames(tree string) ([]uploadName, error) {
	var names []uploadName
	err := filepath.WalkDir(tree, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == tree {
			return err
		}
		rel, err := filepath.Rel(tree, name)
		names = append(names, uploadName{filepath.ToSlash(rel), e.IsDir()})
		return err
	})
	return names, err
}

// unsafeCode is how makeWay ends for a folder that is a link.
const unsafeCode = 77

// makeWay is a script that makes the directory and removes what is there under the
// names of files, so that nothing is written through a link or into a pipe.
func makeWay(dir string, names []uploadName) string {
	var b strings.Builder
	b.WriteString("mkdir -p -- " + textutil.ShellQuote(dir) + " && cd -- " + textutil.ShellQuote(dir) + " || exit 1\n")
	fmt.Fprintf(&b, "folder() { if [ -L \"$1\" ]; then echo \"$1 leads out of the target directory through a link\"; exit %d; fi; }\n", unsafeCode)
	b.WriteString("file() { if [ -d \"$1\" ] && [ ! -L \"$1\" ]; then echo \"$1: a directory of that name is in the way\"; exit 1; fi; rm -f -- \"$1\"; }\n")
	for _, n := range names {
		if n.dir {
			b.WriteString("folder " + textutil.ShellQuote("./"+n.name) + "\n")
		} else {
			b.WriteString("file " + textutil.ShellQuote("./"+n.name) + "\n")
		}
	}
	b.WriteString("exit 0\n")
	return b.String()
}

// repack writes the unpacked tree with the container's user as the owner of all.
func (d *plain) repack(ctx context.Context, w io.Writer, tree string) error {
	r, inner := io.Pipe()
	defer r.Close()
	go func() { _ = inner.CloseWithError(sandbox.WriteTar(ctx, inner, tree)) }()
	in, out := tar.NewReader(r), tar.NewWriter(w)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		_, name, _ := strings.Cut(h.Name, "/")
		if name == "" {
			continue // the top folder, which keeps its own mode
		}
		h.Name, h.Uid, h.Gid = name, d.uid, d.gid
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}

// Download returns a file or directory as a tar stream; see sandbox.Sandbox.
func (d *plain) Download(ctx context.Context, name string) (io.ReadCloser, error) {
	done, err := d.begin()
	if err != nil {
		return nil, err
	}
	name = d.resolve(name)
	ctx, cancel := context.WithCancelCause(ctx)
	source, real, err := d.open(ctx, name, 0)
	if err != nil {
		cancel(nil)
		done()
		return nil, fmt.Errorf("download %s: %w", name, err)
	}
	r, w := io.Pipe()
	result := &plainDownload{PipeReader: r, ended: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(context.Cause(ctx)); _ = source.Close() })
	stopLife := context.AfterFunc(d.life, func() { cancel(sandbox.ErrClosed) })
	go func() {
		defer done()
		defer close(result.ended)
		err := d.relay(ctx, w, source, path.Base(name), real)
		_ = source.Close()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if err != nil {
			err = fmt.Errorf("download %s: %w", name, err)
		}
		_ = w.CloseWithError(err) // nil means end of file
		stop()
		stopLife()
		cancel(nil)
	}()
	return result, nil
}

// plainDownload is the reading end of a Download under way.
type plainDownload struct {
	*io.PipeReader
	ended chan struct{}
}

// Close ends the download, also before its end, and waits for its writer.
func (r *plainDownload) Close() error {
	err := r.PipeReader.Close()
	<-r.ended
	return err
}

// maxLinks bounds the links followed to what is downloaded.
const maxLinks = 16

// open asks the engine for a path, following it where it is a link. It returns the
// stream and the path it is of, whose last name its entries begin with.
func (d *plain) open(ctx context.Context, name string, links int) (io.ReadCloser, string, error) {
	stream, target, err := d.provider.engine.copyOut(ctx, d.container, name)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, "", cause
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if err != nil {
		return nil, "", d.lost(ctx, err)
	}
	if target == "" {
		return stream, name, nil
	}
	_ = stream.Close() // only said what it is
	if links == maxLinks {
		return nil, "", errors.New("too many links lead on")
	}
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(name), target)
	}
	return d.open(ctx, target, links+1)
}

// relay copies the engine's archive of the path real, under another first name.
// Pipes, sockets and devices are left out; further links to a file already stored
// become files of their own.
func (d *plain) relay(ctx context.Context, w io.Writer, source io.Reader, first, real string) error {
	if first == "/" {
		first = "."
	}
	top := path.Base(real)
	in, out := tar.NewReader(source), tar.NewWriter(w)
	for n := 0; ; n++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(h.Name, "/"), strings.TrimPrefix(top, "/"))
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
			err = store(out, h, first+rest, in)
		case tar.TypeLink:
			err = d.storeLinked(ctx, out, path.Join(path.Dir(real), h.Linkname), first+rest)
		default:
			if n == 0 {
				return errors.New("it is neither a file nor a directory")
			}
		}
		if err != nil {
			return err
		}
	}
}

// store writes one entry under a name, without its owner.
func store(out *tar.Writer, h *tar.Header, name string, content io.Reader) error {
	err := out.WriteHeader(&tar.Header{
		Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode & 0o7777, ModTime: h.ModTime.Truncate(time.Second),
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return err
}

// storeLinked writes the content of a file that the engine's archive only refers to.
func (d *plain) storeLinked(ctx context.Context, out *tar.Writer, real, name string) error {
	source, _, err := d.open(ctx, real, maxLinks)
	if err != nil {
		return err
	}
	defer source.Close()
	in := tar.NewReader(source)
	h, err := in.Next()
	if err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return fmt.Errorf("%s changed while it was being read", real)
	}
	return store(out, h, name, in)
}

package docker

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// buildFolder is a folder with a Dockerfile.
type buildFolder struct {
	dir        string
	dockerfile string // its path below dir
	ignore     ignoreRules
	content    string // digest of the folder
	digest     string // of everything the builder is told
	// dropSyntax sends the Dockerfile without its syntax line, which names a parser
	// that can't be had.
	dropSyntax bool
}

// Limits of what is sent to a builder. Task folders are small; a folder beyond these is
// a mistake or an attack.
const (
	maxBuildBytes   = 8 << 30
	maxBuildEntries = 500_000
)

// buildFormat goes into every digest, so that a change of how images are built makes
// new ones.
const buildFormat = "hermes-env build 2"

// readBuildFolder reads a folder once, to know it again by its content.
func readBuildFolder(ctx context.Context, dir string, o sandbox.BuildOptions) (*buildFolder, error) {
	f := &buildFolder{dir: dir, dockerfile: "Dockerfile"}
	if o.Dockerfile != "" {
		f.dockerfile = path.Clean(filepath.ToSlash(o.Dockerfile))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(f.dockerfile)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("its %s is no file", f.dockerfile)
	}
	if f.ignore, err = readIgnoreRules(root, f.dockerfile); err != nil {
		return nil, err
	}
	sum := sha256.New()
	if err := f.write(ctx, sum); err != nil {
		return nil, err
	}
	f.content = hex.EncodeToString(sum.Sum(nil))
	all := sha256.New()
	fmt.Fprintf(all, "%s\n%s\n%q\n%q\n", buildFormat, f.content, f.dockerfile, o.Target)
	for _, name := range slices.Sorted(maps.Keys(o.Args)) {
		fmt.Fprintf(all, "%q=%q\n", name, o.Args[name])
	}
	f.digest = hex.EncodeToString(all.Sum(nil))
	return f, nil
}

// folderStream is a folder as a tar stream, and the digest of what was read of it.
type folderStream struct {
	*io.PipeReader
	ended chan struct{}
	sum   string
}

// content returns the digest of the folder as it was sent, once that has ended.
func (s *folderStream) content() string {
	<-s.ended
	return s.sum
}

// Close ends the stream and waits for its writer.
func (s *folderStream) Close() error {
	err := s.PipeReader.Close()
	<-s.ended
	return err
}

// stream returns the folder as a tar stream, which has to be closed.
func (f *buildFolder) stream(ctx context.Context) *folderStream {
	r, w := io.Pipe()
	s := &folderStream{PipeReader: r, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		sum := sha256.New()
		err := f.write(ctx, io.MultiWriter(sum, &untilClosed{w: w}))
		s.sum = hex.EncodeToString(sum.Sum(nil))
		_ = w.CloseWithError(err) // nil means end of file
	}()
	return s
}

// untilClosed writes to a pipe while somebody reads it, and then to nobody.
type untilClosed struct {
	w      *io.PipeWriter
	closed bool
}

func (u *untilClosed) Write(p []byte) (int, error) {
	if u.closed {
		return len(p), nil
	}
	n, err := u.w.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		u.closed = true
		return len(p), nil
	}
	return n, err
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
	entries, size := 0, int64(0)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil || name == "." {
			return err
		}
		if name != f.dockerfile && name != ".dockerignore" && f.ignore.match(name) {
			if d.IsDir() && !f.ignore.exceptions && !strings.HasPrefix(f.dockerfile, name+"/") {
				return fs.SkipDir
			}
			return nil
		}
		n, err := f.add(tw, root, name, d)
		entries, size = entries+1, size+n
		if err == nil && (entries > maxBuildEntries || size > maxBuildBytes) {
			err = fmt.Errorf("it holds more than %d files or %s; leave out with a .dockerignore what the image does not need", maxBuildEntries, gigabytes(maxBuildBytes))
		}
		return err
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

// add writes one entry and returns the size of its content.
func (f *buildFolder) add(tw *tar.Writer, root *os.Root, name string, d fs.DirEntry) (int64, error) {
	info, err := d.Info()
	if err != nil {
		return 0, err
	}
	target := ""
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		if target, err = root.Readlink(name); err != nil {
			return 0, err
		}
	case !mode.IsDir() && !mode.IsRegular():
		return 0, nil // sockets, pipes and devices have no place in an image
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return 0, err
	}
	h.Name = name
	if info.IsDir() {
		h.Name += "/"
	}
	h.ModTime, h.AccessTime, h.ChangeTime = time.Unix(0, 0), time.Time{}, time.Time{}
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	if err := tw.WriteHeader(h); err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, nil
	}
	file, err := root.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	content := io.Reader(io.LimitReader(file, info.Size()))
	if f.dropSyntax && name == f.dockerfile {
		content = withoutSyntax(content)
	}
	n, err := io.Copy(tw, content)
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s shrank while it was being read", name)
	}
	return n, err
}

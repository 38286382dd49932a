package harbor

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Limits bounds what an archive may unpack to.
type Limits struct {
	// MaxBytes bounds the content of all files together. Default: 4 GiB.
	MaxBytes int64
	// MaxEntries bounds the number of entries. Default: 100,000.
	MaxEntries int
}

// UnpackTar unpacks a tar, plain or compressed with gzip, below dir, which is created. Files,
// folders and links that stay inside are taken, with their modes (less set-user-id and the
// like); of entries with the same name the last one counts. Names and links that lead
// out, hard links, devices and broken limits are errors that wrap sandbox.ErrUnsafeArchive;
// damaged archives are errors too. What came before the error stays.
func UnpackTar(ctx context.Context, r io.Reader, dir string, limits Limits) error {
	if limits.MaxBytes <= 0 {
		limits.MaxBytes = 4 << 30
	}
	if limits.MaxEntries <= 0 {
		limits.MaxEntries = 100_000
	}
	buffered := bufio.NewReader(r)
	content := io.Reader(buffered)
	magic, err := buffered.Peek(2)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("read the archive: it is empty")
	case err != nil:
		return fmt.Errorf("read the archive: %w", err)
	case magic[0] == 0x1f && magic[1] == 0x8b:
		if content, err = gzip.NewReader(buffered); err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
	}
	// Headers and padding beside the content: at most some kilobytes for each entry.
	bounded := &boundedReader{r: content, left: limits.MaxBytes + int64(limits.MaxEntries)*4096 + 1<<20}
	if err := sandbox.ExtractTar(ctx, bounded, dir, sandbox.TarLimits{MaxBytes: limits.MaxBytes, MaxEntries: limits.MaxEntries}); err != nil {
		return err
	}
	// The checksum of the compressed data comes last.
	if _, err := io.Copy(io.Discard, bounded); err != nil {
		return fmt.Errorf("read the archive to its end: %w", err)
	}
	return nil
}

// boundedReader fails once more has come than an archive within its limits can have.
type boundedReader struct {
	r    io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: it goes on beyond what its limits allow", sandbox.ErrUnsafeArchive)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// packFolder returns a tar.gz of a folder's content, the same bytes for the same content.
func packFolder(ctx context.Context, dir string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	defer root.Close()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	tw := tar.NewWriter(zipped)
	err = fs.WalkDir(rootFS{root}, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil || name == "." {
			return err
		}
		return packEntry(tw, root, name)
	})
	if err = errors.Join(err, tw.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	return out.Bytes(), nil
}

func packEntry(tw *tar.Writer, root *os.Root, name string) error {
	local := filepath.FromSlash(name)
	info, err := root.Lstat(local)
	if err != nil {
		return err
	}
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = root.Readlink(local); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
	default:
		return nil
	}
	if err := tw.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	f, err := root.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(tw, f)
	return err
}

package toolcontext

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// DownloadFile copies a regular file out of the sandbox to local, byte for byte and
// of any size up to Config.MaxDownloadBytes, with its mode and time. Directories
// above local are made; what is there under that name is replaced in one step, a
// link itself and not what it leads to, and stays when the download fails. remote
// is read as ReadFile reads it, with the same errors.
func (c *Context) DownloadFile(ctx context.Context, remote, local string) (Transfer, error) {
	var moved Transfer
	err := c.fetch(ctx, remote, tools.RegularFile, func(f *fetched) error {
		if limit := c.config.MaxDownloadBytes; f.header.Size > limit {
			return fmt.Errorf("%w: %d bytes, at most %d", errTooLarge, f.header.Size, limit)
		}
		if err := f.store(local); err != nil {
			return err
		}
		moved = Transfer{Files: 1, Bytes: f.header.Size}
		return nil
	})
	if err != nil {
		return Transfer{}, fmt.Errorf("download %w", err)
	}
	return moved, nil
}

// store writes the file to local through a temporary one beside it.
func (f *fetched) store(local string) (err error) {
	dir := filepath.Dir(local)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &localError{fmt.Errorf("make the local directory: %w", err)}
	}
	if info, err := os.Lstat(local); err == nil && info.IsDir() {
		return &localError{fmt.Errorf("%s is a directory on this machine; name the file to write", local)}
	}
	temporary, err := os.CreateTemp(dir, ".hermes-env-download-*")
	if err != nil {
		return &localError{fmt.Errorf("make the local file: %w", err)}
	}
	kept := false
	defer func() {
		if !kept {
			_ = temporary.Close() // closed already is as good
			_ = os.Remove(temporary.Name())
		}
	}()
	source := &watchedReader{r: f.archive}
	n, err := io.CopyBuffer(struct{ io.Writer }{temporary}, source, make([]byte, copyBuffer))
	switch {
	case source.err != nil:
		return source.err
	case err != nil:
		return &localError{fmt.Errorf("write the local file: %w", err)}
	case n != f.header.Size:
		return io.ErrUnexpectedEOF
	}
	err = errors.Join(temporary.Chmod(f.header.FileInfo().Mode().Perm()), temporary.Close())
	if err == nil {
		err = os.Chtimes(temporary.Name(), f.header.ModTime, f.header.ModTime)
	}
	if err == nil {
		err = os.Rename(temporary.Name(), local)
	}
	if err != nil {
		return &localError{fmt.Errorf("write the local file: %w", err)}
	}
	kept = true
	return nil
}

// DownloadDir copies what is in a directory of the sandbox into the directory
// local, which is made: files byte for byte, directories also when they are empty,
// and links that stay inside, with modes and times. What is there under their names
// is replaced, the rest stays. Nothing is ever written outside local, whatever the
// sandbox holds: links that lead out, which every virtual environment has, are left
// out and named in the Transfer; pipes, devices and sockets are left out. The error
// wraps fs.ErrNotExist, ErrNotDirectory, or sandbox.ErrUnsafeArchive for more than
// Config.MaxDownloadBytes and for names that lead out; it is an
// *tools.InfrastructureError when the sandbox failed. What was written before an
// error stays.
func (c *Context) DownloadDir(ctx context.Context, remote, local string) (Transfer, error) {
	var moved Transfer
	err := c.fetch(ctx, remote, tools.Directory, func(f *fetched) error {
		moved = Transfer{}
		return f.unpack(ctx, local, c.config.MaxDownloadBytes, &moved)
	})
	if err != nil {
		return Transfer{}, fmt.Errorf("download %w", err)
	}
	return moved, nil
}

// unpack writes what is in the directory into local.
func (f *fetched) unpack(ctx context.Context, local string, maxBytes int64, moved *Transfer) error {
	type ending struct{ read, write error }
	r, w := io.Pipe()
	ended := make(chan ending, 1)
	relayed := Transfer{}
	go func() {
		read, write := relay(f.archive, f.header.Name, w, &relayed)
		_ = w.CloseWithError(errors.Join(read, write)) // nil means end of file
		ended <- ending{read, write}
	}()
	err := sandbox.ExtractTar(ctx, r, local, sandbox.TarLimits{MaxBytes: maxBytes, Skip: moved.skip})
	_ = r.CloseWithError(errStopped)
	relaying := <-ended
	moved.Files, moved.Bytes = relayed.Files, relayed.Bytes
	switch {
	case relaying.read != nil:
		return relaying.read
	case errors.Is(err, sandbox.ErrUnsafeArchive):
		return err
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return &localError{fmt.Errorf("write into %s: %w", local, err)}
	case relaying.write != nil:
		return &localError{fmt.Errorf("write into %s: %w", local, relaying.write)}
	}
	return nil
}

package toolcontext

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// UploadFile copies a regular file of this machine to remote in the sandbox, byte
// for byte and of any size, with its mode and time. Directories above remote are
// made; a file or link of that name is replaced. Nothing in the sandbox but the
// sandbox itself takes part, so the agent can't tamper with it. A relative remote
// starts where ReadFile's does, "~" is the sandbox's home; a relative local starts
// at this process's directory. The error wraps fs.ErrNotExist or ErrNotRegular for
// local; it is an *tools.InfrastructureError when the sandbox failed.
func (c *Context) UploadFile(ctx context.Context, local, remote string) (Transfer, error) {
	fail := func(err error) (Transfer, error) {
		return Transfer{}, fmt.Errorf("upload %s to %s: %w", local, remote, err)
	}
	file, err := openRegular(local)
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	dir, base := path.Split(remote)
	if base == "" || base == "." || base == ".." || remote == "~" {
		return fail(errors.New("the target names a directory; name the file to write"))
	}
	if dir == "" {
		dir = "."
	}
	info, err := file.Stat()
	if err != nil {
		return fail(err)
	}
	err = c.send(ctx, dir, func(w io.Writer) error {
		archive := tar.NewWriter(w)
		h := &tar.Header{Typeflag: tar.TypeReg, Name: base, Size: info.Size(), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second)}
		if err := archive.WriteHeader(h); err != nil {
			return err
		}
		// A file that grows meanwhile is sent as long as it was.
		content := io.LimitReader(file, info.Size())
		n, err := io.CopyBuffer(struct{ io.Writer }{archive}, content, make([]byte, copyBuffer))
		if err != nil {
			return err
		}
		if n < info.Size() {
			return errors.New("the file shrank while it was being read")
		}
		return archive.Close()
	})
	if err != nil {
		return fail(err)
	}
	return Transfer{Files: 1, Bytes: info.Size()}, nil
}

// openRegular opens a file of this machine, without waiting for a pipe's writer.
func openRegular(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// UploadDir copies what is in the directory local of this machine into the
// directory remote of the sandbox, which is made: files byte for byte, directories
// also when they are empty, and links, with modes and times; a directory remote
// that is there already keeps its own. What is there under their names is
// replaced, the rest stays. Pipes, devices and sockets are left out. Paths are
// those of UploadFile. The error wraps fs.ErrNotExist or ErrNotDirectory for local,
// and sandbox.ErrUnsafeArchive when a link in it leaves it; it is an
// *tools.InfrastructureError when the sandbox failed. What arrived before an error stays.
func (c *Context) UploadDir(ctx context.Context, local, remote string) (Transfer, error) {
	var moved Transfer
	info, err := os.Stat(local)
	if err == nil && !info.IsDir() {
		err = ErrNotDirectory
	}
	if err == nil {
		err = c.send(ctx, remote, func(w io.Writer) error {
			return packDir(ctx, local, w, &moved)
		})
	}
	if err != nil {
		return Transfer{}, fmt.Errorf("upload %s to %s: %w", local, remote, err)
	}
	return moved, nil
}

// packDir writes what is in a directory of this machine as an archive.
func packDir(ctx context.Context, local string, w io.Writer, moved *Transfer) error {
	r, packing := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		// The dot names entries relative to the directory itself.
		err := sandbox.WriteTar(ctx, packing, strings.TrimSuffix(local, "/")+"/.")
		_ = packing.CloseWithError(err) // nil means end of file
		packed <- err
	}()
	readErr, writeErr := relay(tar.NewReader(r), ".", w, moved)
	_ = r.CloseWithError(errStopped)
	if err := <-packed; err != nil && !errors.Is(err, errStopped) {
		return err
	}
	return errors.Join(readErr, writeErr)
}

// send streams what write writes into a directory of the sandbox. An error of
// write's own comes back as it is.
func (c *Context) send(ctx context.Context, remote string, write func(io.Writer) error) error {
	dir, err := c.state.Resolve(ctx, remote)
	if err != nil {
		return err
	}
	box, err := c.state.Sandbox(ctx)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err) // nil means end of file
		written <- err
	}()
	err = box.Upload(ctx, r, dir)
	_ = r.CloseWithError(errStopped)
	switch own := <-written; {
	case own != nil && !errors.Is(own, errStopped):
		return own
	case err != nil:
		return c.explainUpload(ctx, dir, err)
	case own != nil:
		return &tools.InfrastructureError{Op: "put it into the sandbox", Err: own}
	}
	return nil
}

// explainUpload tells what the path is at fault for, and with it the agent who may
// have put something in the way, from what the sandbox is at fault for.
func (c *Context) explainUpload(ctx context.Context, dir string, err error) error {
	switch {
	case errors.Is(err, sandbox.ErrClosed), errors.Is(err, sandbox.ErrLost):
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, sandbox.ErrUnsafeArchive), errors.Is(err, fs.ErrPermission):
		return err
	default:
		if _, asked := c.state.Kind(ctx, dir); asked == nil {
			return err // a sandbox that answers is well
		}
	}
	return &tools.InfrastructureError{Op: "put it into the sandbox", Err: err}
}

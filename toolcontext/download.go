package toolcontext

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// ErrNotRegular is wrapped by ReadFile's error for a path that leads to no
// readable regular file: a directory, a pipe, a device, a file without permission.
var ErrNotRegular = errors.New("not a readable regular file")

// maxLinks is how many links in a row ReadFile follows.
const maxLinks = 40

// ReadFile returns the exact content of a regular file in the sandbox. It is taken
// out by the sandbox itself, not by programs in it that the agent could have
// replaced, and a pipe the agent left there does not block it. The error wraps
// fs.ErrNotExist when there is no such file and ErrNotRegular when it is something
// else; it is an *tools.InfrastructureError when the sandbox failed. Relative paths
// start at the sandbox's directory after Seal, at the agent's working directory
// before; "~" is the home.
func (c *Context) ReadFile(ctx context.Context, name string) ([]byte, error) {
	resolved, err := c.state.Resolve(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	box, err := c.state.Sandbox(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	content, err := c.download(ctx, box, resolved)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", resolved, err)
	}
	return content, nil
}

// download takes one file out of the sandbox, following links that a backend
// hands out as links.
func (c *Context) download(ctx context.Context, box sandbox.Sandbox, name string) ([]byte, error) {
	for range maxLinks {
		content, link, err := c.downloadOnce(ctx, box, name)
		if err != nil {
			return nil, c.explain(ctx, name, err)
		}
		if link == "" {
			return content, nil
		}
		if !path.IsAbs(link) {
			link = strings.TrimSuffix(path.Dir(name), "/") + "/" + link
		}
		name = link
	}
	return nil, fmt.Errorf("%w: more than %d links in a row", ErrNotRegular, maxLinks)
}

// errTooLarge keeps a file over the limit from being taken for a failed sandbox.
var errTooLarge = errors.New("the file is larger than the limit")

// downloadOnce returns a file's content, or where the link leads that it is.
func (c *Context) downloadOnce(ctx context.Context, box sandbox.Sandbox, name string) (content []byte, link string, err error) {
	stream, err := box.Download(ctx, name)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	archive := tar.NewReader(stream)
	header, err := archive.Next()
	if errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("%w: the sandbox handed out nothing", ErrNotRegular)
	}
	if err != nil {
		return nil, "", err
	}
	switch header.Typeflag {
	case tar.TypeReg:
	case tar.TypeSymlink:
		return nil, header.Linkname, nil
	default:
		return nil, "", ErrNotRegular
	}
	if header.Size > int64(c.config.MaxReadBytes) {
		return nil, "", fmt.Errorf("%w: %d bytes, at most %d", errTooLarge, header.Size, c.config.MaxReadBytes)
	}
	content = make([]byte, header.Size)
	if _, err := io.ReadFull(archive, content); err != nil {
		return nil, "", err
	}
	return content, "", nil
}

// explain tells what the path is at fault for from what the sandbox is at fault for.
func (c *Context) explain(ctx context.Context, name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrNotRegular), errors.Is(err, errTooLarge):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	kind, asked := c.state.Kind(ctx, name)
	switch {
	case asked != nil:
	case kind == tools.MissingFile:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case kind != tools.RegularFile:
		return fmt.Errorf("%w (%s): %w", ErrNotRegular, kind, err)
	}
	return &tools.InfrastructureError{Op: "take the file out of the sandbox", Err: err}
}

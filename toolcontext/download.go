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

// ErrNotRegular is wrapped by errors for a path that leads to no readable regular
// file: a directory, a pipe, a device, a file without permission.
var ErrNotRegular = errors.New("not a readable regular file")

// ErrNotDirectory is wrapped by errors for a path that leads to something else than
// a directory.
var ErrNotDirectory = errors.New("not a directory")

// errTooLarge keeps what is over a limit from being taken for a failed sandbox.
var errTooLarge = errors.New("more than the limit")

// maxLinks is how many links in a row are followed.
const maxLinks = 40

// ReadFile returns the exact content of a regular file in the sandbox. It is taken
// out by the sandbox itself, not by programs in it that the agent could have
// replaced, and a pipe the agent left there does not block it. The error wraps
// fs.ErrNotExist when there is no such file and ErrNotRegular when it is something
// else; it is an *tools.InfrastructureError when the sandbox failed. Relative paths
// start at the sandbox's directory after Seal, at the agent's working directory
// before; "~" is the home.
func (c *Context) ReadFile(ctx context.Context, name string) ([]byte, error) {
	var content []byte
	err := c.fetch(ctx, name, tools.RegularFile, func(f *fetched) error {
		if limit := int64(c.config.MaxReadBytes); f.header.Size > limit {
			return fmt.Errorf("%w: %d bytes, at most %d", errTooLarge, f.header.Size, limit)
		}
		content = make([]byte, f.header.Size)
		_, err := io.ReadFull(f.archive, content)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %w", err)
	}
	return content, nil
}

// fetched is what a sandbox hands out for a path.
type fetched struct {
	header  *tar.Header // of the first entry, which is the path's own
	archive *tar.Reader // right behind header
}

// localError marks what went wrong on this side of a transfer.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }

// fetch hands what name leads to in the sandbox, a regular file or a directory as
// want says, to take. A *localError of take comes back as it is; any other error
// of take is the sandbox's or that of what lies there. Errors begin with the path.
func (c *Context) fetch(ctx context.Context, name string, want tools.FileKind, take func(*fetched) error) error {
	resolved, err := c.state.Resolve(ctx, name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	box, err := c.state.Sandbox(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	at := resolved
	for range maxLinks {
		link, err := fetchOnce(ctx, box, at, want, take)
		if err != nil {
			return fmt.Errorf("%s: %w", resolved, c.explain(ctx, at, want, err))
		}
		if link == "" {
			return nil
		}
		// Some backends hand out links as links.
		if !path.IsAbs(link) {
			link = strings.TrimSuffix(path.Dir(at), "/") + "/" + link
		}
		at = link
	}
	return fmt.Errorf("%s: %w: more than %d links in a row", resolved, unlike(want), maxLinks)
}

// fetchOnce returns where the link leads that name is, if it is one.
func fetchOnce(ctx context.Context, box sandbox.Sandbox, name string, want tools.FileKind, take func(*fetched) error) (link string, err error) {
	stream, err := box.Download(ctx, name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	f := &fetched{archive: tar.NewReader(stream)}
	f.header, err = f.archive.Next()
	if errors.Is(err, io.EOF) {
		return "", fmt.Errorf("%w: the sandbox handed out nothing", unlike(want))
	}
	if err != nil {
		return "", err
	}
	kind := tools.SpecialFile
	switch f.header.Typeflag {
	case tar.TypeReg:
		kind = tools.RegularFile
	case tar.TypeDir:
		kind = tools.Directory
	case tar.TypeSymlink:
		return f.header.Linkname, nil
	}
	if kind != want {
		return "", fmt.Errorf("%w (%s)", unlike(want), kind)
	}
	return "", take(f)
}

// unlike is the error for what is not of the kind that was wanted.
func unlike(want tools.FileKind) error {
	if want == tools.Directory {
		return ErrNotDirectory
	}
	return ErrNotRegular
}

// explain tells what the path is at fault for from what the sandbox is at fault for.
func (c *Context) explain(ctx context.Context, name string, want tools.FileKind, err error) error {
	var local *localError
	switch {
	case errors.As(err, &local):
		return local.error
	case errors.Is(err, ErrNotRegular), errors.Is(err, ErrNotDirectory), errors.Is(err, errTooLarge), errors.Is(err, sandbox.ErrUnsafeArchive):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		return err
	}
	kind, asked := c.state.Kind(ctx, name)
	switch {
	case asked != nil:
	case kind == tools.MissingFile:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case kind != want:
		return fmt.Errorf("%w (%s): %w", unlike(want), kind, err)
	case errors.Is(err, fs.ErrPermission):
		return err
	}
	return &tools.InfrastructureError{Op: "take it out of the sandbox", Err: err}
}

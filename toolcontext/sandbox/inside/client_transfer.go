package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Upload unpacks a tar stream under dir in the sandbox; see sandbox.Sandbox.
func (c *Client) Upload(ctx context.Context, tar io.Reader, dir string) error {
	done, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("upload to %s: %w", dir, err)
	}
	defer c.mayChange()() // what lands in memory would be lost
	e := newRequest(requestUpload)
	e.string(dir)
	k, err := c.request(ctx, e)
	if err != nil {
		return err
	}
	defer k.finish()
	// Whatever goes wrong with sending, the server's answer says why.
	readErr, sendErr := k.copyFrom(tar)
	if readErr != nil {
		return fmt.Errorf("upload to %s: read the archive: %w", dir, readErr)
	}
	if sendErr == nil {
		_ = k.channel.finish(nil) // the answer says what is wrong with it
	}
	if _, err := c.answered(k, 0); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, sandbox.ErrClosed) {
			return fmt.Errorf("upload to %s: %w", dir, cause)
		}
		return err
	}
	return nil
}

// Download returns a file or directory as a tar stream; see sandbox.Sandbox. Its
// content is the sandbox's: take it apart with sandbox.ExtractTar or as carefully.
func (c *Client) Download(ctx context.Context, path string) (io.ReadCloser, error) {
	done, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		done()
		return nil, fmt.Errorf("download %s: %w", path, err)
	}
	e := newRequest(requestDownload)
	e.string(path)
	k, err := c.request(ctx, e)
	if err != nil {
		done()
		return nil, err
	}
	if _, err := c.answered(k, 0); err != nil {
		k.finish()
		done()
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, sandbox.ErrClosed) {
			err = fmt.Errorf("download %s: %w", path, cause)
		}
		return nil, err
	}
	d := &download{c: c, call: k, ctx: ctx}
	d.free = sync.OnceFunc(func() { k.finish(); done() })
	// A reader is told at once; the server, by the request's own watch.
	d.unwatch = context.AfterFunc(ctx, func() { k.abort(context.Cause(ctx)) })
	return d, nil
}

// download is the reading end of a Download.
type download struct {
	c       *Client
	call    *call
	ctx     context.Context
	unwatch func() bool
	free    func()
}

// Read reads the archive; a ctx that has ended fails it with its cause.
func (d *download) Read(p []byte) (int, error) {
	if err := context.Cause(d.ctx); err != nil {
		return 0, err
	}
	if d.c.isClosed() { // what has arrived already is not enough
		return 0, sandbox.ErrClosed
	}
	n, err := d.call.Read(p)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case d.ctx.Err() != nil:
		return n, context.Cause(d.ctx)
	case errors.Is(err, io.ErrClosedPipe):
		return n, err // Close was called
	}
	return n, d.c.lost(err)
}

// Close ends the download, also before its end.
func (d *download) Close() error {
	d.unwatch()
	d.free()
	return nil
}

// Stat describes a path in the sandbox: absolute, relative to the working
// directory, or with a leading ~. Links are not followed. A path that does not
// exist wraps fs.ErrNotExist.
func (c *Client) Stat(ctx context.Context, path string) (FileInfo, error) {
	e := newRequest(requestStat)
	e.string(path)
	d, err := c.ask(ctx, e, 64<<10)
	if err != nil {
		return FileInfo{}, err
	}
	info := decodeFileInfo(d)
	if err := d.end(); err != nil {
		return FileInfo{}, c.lost(err)
	}
	return info, nil
}

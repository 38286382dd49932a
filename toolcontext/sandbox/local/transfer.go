package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Upload unpacks a tar stream under dir: absolute, relative to the sandbox's
// working directory, or with a leading ~ for its home.
func (s *Sandbox) Upload(ctx context.Context, tar io.Reader, dir string) error {
	done, err := s.begin()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(sandbox.ErrClosed) })()
	dir = s.resolve(dir, s.info.Dir)
	if err := sandbox.ExtractTar(ctx, tar, dir, sandbox.TarLimits{}); err != nil {
		return fmt.Errorf("upload to %s: %w", dir, err)
	}
	return nil
}

// Download returns a file or directory as a tar stream. The stream fails with
// sandbox.ErrClosed when the sandbox is closed before its end.
func (s *Sandbox) Download(ctx context.Context, path string) (io.ReadCloser, error) {
	done, err := s.begin()
	if err != nil {
		return nil, err
	}
	path = s.resolve(path, s.info.Dir)
	if _, err := os.Stat(path); err != nil {
		done()
		return nil, fmt.Errorf("download %s: %w", path, err)
	}
	r, w := io.Pipe()
	d := &download{PipeReader: r, ended: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(ctx)
	// The pipe is what the writer blocks on, so it is what has to be broken.
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(context.Cause(ctx)) })
	stopLife := context.AfterFunc(s.life, func() { cancel(sandbox.ErrClosed) })
	go func() {
		defer done()
		defer close(d.ended)
		err := sandbox.WriteTar(ctx, w, path)
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			err = fmt.Errorf("download %s: %w", path, err)
		}
		_ = w.CloseWithError(err) // nil means end of file
		stop()
		stopLife()
		cancel(nil)
	}()
	return d, nil
}

// download is the reading end of a running Download.
type download struct {
	*io.PipeReader
	ended chan struct{}
}

// Close ends the download, also before its end, and waits for its writer.
func (d *download) Close() error {
	err := d.PipeReader.Close()
	<-d.ended
	return err
}

package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"
)

// maxAttempts bounds the requests for one file also while each brings some bytes.
const maxAttempts = 1000

// reportEvery is the least time between two reports on one file.
const reportEvery = 200 * time.Millisecond

// transfer fetches a file's content into the cache. What an earlier attempt left is gone
// on with; content with a wrong hash is thrown away and asked for once more.
func (c *Client) transfer(ctx context.Context, t target, f File, blob string, alone bool) error {
	partial := blob + ".incomplete"
	if !alone {
		// Without a lock another process may write to the same name.
		partial = fmt.Sprintf("%s.%08x.incomplete", blob, rand.Uint32())
		defer os.Remove(partial)
	}
	for again := false; ; again = true {
		err := c.complete(ctx, t, f, partial)
		if err == nil {
			return c.cacheError(os.Rename(partial, blob))
		}
		if !errors.Is(err, ErrCorrupt) {
			return err
		}
		if rmErr := os.Remove(partial); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			return errors.Join(err, c.cacheError(rmErr))
		}
		if again {
			return fmt.Errorf("%w, twice: the hub, a mirror or a proxy on the way alters the file", err)
		}
		c.warn("%v: fetching it again", err)
	}
}

// part is a file while it arrives.
type part struct {
	client *Client
	target target
	file   File
	disk   *os.File
	hash   hash.Hash
	have   int64
	report time.Time
}

// complete makes the partial file whole and checks it.
func (c *Client) complete(ctx context.Context, t target, f File, name string) (err error) {
	disk, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return c.cacheError(err)
	}
	defer func() {
		if closeErr := disk.Close(); err == nil && closeErr != nil {
			err = c.cacheError(closeErr)
		}
	}()
	p := &part{client: c, target: t, file: f, disk: disk}
	if err := p.resume(); err != nil {
		return c.cacheError(err)
	}
	for attempt, total := 0, 0; p.have < f.Size; attempt, total = attempt+1, total+1 {
		before := p.have
		resp, err := p.request(ctx)
		if err == nil {
			continue
		}
		var status *StatusError
		switch {
		case errors.Is(err, ErrCorrupt), errors.As(err, new(diskError)):
			return err
		case errors.As(err, &status) && !passingStatus(status.Status):
			return err
		case status == nil && !passing(ctx, err):
			return c.unreachable(ctx, t, err)
		case status == nil:
			err = c.unreachable(ctx, t, fmt.Errorf("%w (%d of %d bytes are there and are kept)", err, p.have, f.Size))
		}
		if p.have > before {
			attempt = 0
		}
		if attempt >= c.options.Retries || total >= maxAttempts {
			return err
		}
		if waitErr := c.pause(ctx, attempt, resp); waitErr != nil {
			return errors.Join(waitErr, err)
		}
	}
	if sum, want := hex.EncodeToString(p.hash.Sum(nil)), f.etag(); p.checkable() && sum != want {
		return fmt.Errorf("%s: %w: it has the hash %s instead of %s", t, ErrCorrupt, sum, want)
	}
	return c.cacheError(disk.Sync())
}

var hexName = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// checkable reports whether the hub gave a hash that the content can be checked with.
func (p *part) checkable() bool { return hexName.MatchString(p.file.etag()) }

// restart begins the file anew.
func (p *part) restart() error {
	p.have, p.hash = 0, newHash(p.file.Size, len(p.file.etag()) == 64)
	if err := p.disk.Truncate(0); err != nil {
		return err
	}
	_, err := p.disk.Seek(0, io.SeekStart)
	return err
}

// resume takes in what an earlier attempt left.
func (p *part) resume() error {
	info, err := p.disk.Stat()
	if err != nil {
		return err
	}
	if left := info.Size(); left > 0 && left <= p.file.Size {
		p.hash = newHash(p.file.Size, len(p.file.etag()) == 64)
		p.have, err = io.Copy(p.hash, p.disk)
		return err
	}
	return p.restart()
}

// request asks for the missing bytes and takes in what comes. The answer is returned
// for its headers alone.
func (p *part) request(ctx context.Context) (*http.Response, error) {
	c := p.client
	r := call{method: http.MethodGet, address: c.fileAddress(p.target), header: http.Header{}}
	if p.have > 0 {
		r.header.Set("Range", fmt.Sprintf("bytes=%d-", p.have))
	}
	resp, err := c.once(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPartialContent:
		if err := p.checkRange(resp.Header.Get("Content-Range")); err != nil {
			return resp, err
		}
	case resp.StatusCode == http.StatusOK:
		if p.have > 0 {
			if err := p.restart(); err != nil {
				return resp, diskError{c.cacheError(err)}
			}
		}
		if resp.ContentLength >= 0 && resp.ContentLength != p.file.Size {
			return resp, fmt.Errorf("%s: %w: %d bytes are offered instead of %d", p.target, ErrCorrupt, resp.ContentLength, p.file.Size)
		}
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && p.have > 0:
		// The stored part does not belong to what the hub has.
		return resp, fmt.Errorf("%s: %w: the hub can't go on after %d bytes", p.target, ErrCorrupt, p.have)
	default:
		return resp, c.statusError(p.target, resp)
	}
	return resp, p.take(ctx, resp.Body)
}

var contentRange = regexp.MustCompile(`^bytes (\d+)-\d+/(\d+|\*)$`)

func (p *part) checkRange(header string) error {
	m := contentRange.FindStringSubmatch(header)
	if m == nil || m[1] != strconv.FormatInt(p.have, 10) || (m[2] != "*" && m[2] != strconv.FormatInt(p.file.Size, 10)) {
		return fmt.Errorf("%s: %w: asked for the bytes from %d of %d, the hub sends %q", p.target, ErrCorrupt, p.have, p.file.Size, p.client.redact(header))
	}
	return nil
}

// take writes down what arrives.
func (p *part) take(ctx context.Context, body io.Reader) error {
	buf := make([]byte, 128<<10)
	for {
		n, err := body.Read(buf)
		if int64(n) > p.file.Size-p.have {
			return fmt.Errorf("%s: %w: more than its %d bytes arrive", p.target, ErrCorrupt, p.file.Size)
		}
		if n > 0 {
			if _, err := p.client.write(p.disk, buf[:n]); err != nil {
				// Bytes that are on disk but not in the hash would spoil the next attempt.
				_ = p.disk.Truncate(p.have)
				err = fmt.Errorf("%s: %d more bytes are needed: %w", p.target, p.file.Size-p.have, p.client.cacheError(err))
				return diskError{err}
			}
			p.hash.Write(buf[:n])
			p.have += int64(n)
			if now := time.Now(); now.Sub(p.report) >= reportEvery {
				p.report = now
				p.client.progress(Progress{Repo: p.target.repo, Path: p.target.path, Done: p.have, Total: p.file.Size})
			}
		}
		switch {
		case errors.Is(err, io.EOF) && p.have < p.file.Size:
			return fmt.Errorf("the answer ended early: %w", io.ErrUnexpectedEOF)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return withoutURL(err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// diskError marks a failure of the cache's disk, after which no further request makes sense.
type diskError struct{ error }

func (e diskError) Unwrap() error { return e.error }

// newHash returns what computes the name of content: its SHA-256 in large-file storage,
// else git's hash of it behind a header with its size.
func newHash(size int64, lfs bool) hash.Hash {
	if lfs {
		return sha256.New()
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", size)
	return h
}

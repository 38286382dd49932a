package inside

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

var _ sandbox.Cleaner = (*Client)(nil)

// Clean makes an empty directory; see sandbox.Cleaner.
func (c *Client) Clean(ctx context.Context, path string, mode fs.FileMode) error {
	e := newRequest(requestClean)
	e.string(path)
	e.uint(uint64(mode.Perm()))
	_, err := c.ask(ctx, e, 0)
	return err
}

// Remove removes a path with all below it; see sandbox.Cleaner.
func (c *Client) Remove(ctx context.Context, path string) error {
	e := newRequest(requestRemove)
	e.string(path)
	_, err := c.ask(ctx, e, 0)
	return err
}

// answerClean carries out both requests, in the server.
func answerClean(kind requestKind, d *decoder) error {
	name := d.string()
	var mode fs.FileMode
	if kind == requestClean {
		mode = fs.FileMode(d.bounded(0o777))
	}
	if err := d.end(); err != nil {
		return err
	}
	if !path.IsAbs(name) || path.Clean(name) == "/" {
		return fmt.Errorf("clean %q: %w: the path has to be absolute and not the root", name, sandbox.ErrInvalidCommand)
	}
	name = path.Clean(name)
	if kind == requestRemove {
		return removeNoFollow(name)
	}
	return cleanDir(name, mode)
}

// cleanDir makes an empty directory of name. What is in the place of a directory above
// it goes: through a link, something else would be emptied.
func cleanDir(name string, mode fs.FileMode) error {
	parts := strings.Split(strings.TrimPrefix(name, "/"), "/")
	at := ""
	for i, part := range parts {
		at += "/" + part
		last := i == len(parts)-1
		info, err := os.Lstat(at)
		if err == nil && (last || !info.IsDir()) {
			if err = removeBusy(at); err == nil {
				err = fs.ErrNotExist
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := os.Mkdir(at, 0o755); err != nil {
				return fmt.Errorf("clean %s: %w", name, err)
			}
		case err != nil:
			return fmt.Errorf("clean %s: %w", name, err)
		}
	}
	if err := os.Chmod(name, mode); err != nil { // Mkdir obeys the umask
		return fmt.Errorf("clean %s: %w", name, err)
	}
	return nil
}

// removeBusy removes name with all below it, also if other processes go on making files
// there: then it is moved aside first.
func removeBusy(name string) error {
	err := os.RemoveAll(name)
	if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	aside := path.Join(path.Dir(name), ".removed-"+rand.Text())
	if err := os.Rename(name, aside); err != nil {
		return err
	}
	for range 10 {
		if err = os.RemoveAll(aside); err == nil {
			break // else it stays under a name that nothing looks for
		}
	}
	return nil
}

// removeNoFollow removes name unless it is reached through a link, where it is not
// what the caller means.
func removeNoFollow(name string) error {
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		info, err := os.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("remove %s: %w: %s is no directory", name, sandbox.ErrInvalidCommand, dir)
		}
	}
	return os.RemoveAll(name)
}

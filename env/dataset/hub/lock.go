package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/trajectories/filelock"
)

// keyedLocks keeps goroutines of one process apart.
type keyedLocks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed by the holder when it is done
}

// lock waits for a name and returns what gives it back.
func (k *keyedLocks) lock(ctx context.Context, name string) (func(), error) {
	for {
		k.mu.Lock()
		other := k.held[name]
		if other == nil {
			if k.held == nil {
				k.held = map[string]chan struct{}{}
			}
			done := make(chan struct{})
			k.held[name] = done
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, name)
				k.mu.Unlock()
				close(done)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lockBlob waits until nobody else, in this process or another, fetches the blob. The
// lock file is the one that the hub's Python client uses. It is not removed: another process
// may be waiting for it. Where there are no locks, alone is false.
func (c *Client) lockBlob(ctx context.Context, repo Repo, etag string) (unlock func(), alone bool, err error) {
	name := filepath.Join(c.options.CacheDir, ".locks", repo.Folder(), etag+".lock")
	leave, err := c.inside.lock(ctx, name)
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil {
			leave()
		}
	}()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return nil, false, c.cacheError(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o664)
	if err != nil {
		return nil, false, c.cacheError(err)
	}
	started, told := time.Now(), false
	for delay := 10 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		err := filelock.Try(f)
		if err == nil || errors.Is(err, filelock.ErrUnsupported) {
			return func() {
				_ = f.Close() // which gives the lock back
				leave()
			}, err == nil, nil
		}
		if !errors.Is(err, filelock.ErrHeld) {
			_ = f.Close()
			return nil, false, fmt.Errorf("lock %s: %w", name, err)
		}
		if !told && time.Since(started) > 10*time.Second {
			told = true
			c.warn("waiting for another process that fetches the same file of %s (%s)", repo, name)
		}
		if err := sleep(ctx, delay); err != nil {
			_ = f.Close()
			return nil, false, err
		}
	}
}

package docker

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// budget bounds the disk that images of a run hold. It knows which images the run
// itself brought and how many sandboxes and planned attempts need each; beyond the
// limit, those that nobody has needed for a while are removed, the longest unused
// first. Images that were there before are never touched.
type budget struct {
	limit  int64 // bytes; 0 means everything is kept
	idle   time.Duration
	remove func(ctx context.Context, ref string) error
	forget func(key string)
	tell   func(ref, line string)
	wake   chan struct{}

	mu     sync.Mutex
	needs  map[string]int    // by key
	names  map[string]string // further keys → the key of the image
	images map[string]*broughtImage
}

// broughtImage is an image that this run pulled or built.
type broughtImage struct {
	key  string
	ref  string
	size int64
	used time.Time // when it was last let go, or brought
	held time.Time // not to be tried again before
}

func newBudget(limit int64, idle time.Duration) *budget {
	return &budget{limit: limit, idle: idle, wake: make(chan struct{}, 1), needs: map[string]int{}, names: map[string]string{}, images: map[string]*broughtImage{}}
}

// brought notes an image that was not there before.
func (b *budget) brought(key, ref string, info imageInfo) {
	b.mu.Lock()
	b.images[key] = &broughtImage{key: key, ref: ref, size: info.Size, used: time.Now()}
	b.mu.Unlock()
	b.poke()
}

// named notes that an image is known by another key too.
func (b *budget) named(other, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names[other] = key
}

// needed reports whether a sandbox or a planned attempt needs an image.
func (b *budget) needed(key string) bool {
	if b.needs[key] > 0 {
		return true
	}
	for other := range b.needs {
		if b.names[other] == key {
			return true
		}
	}
	return false
}

// retain says that an image is needed until release is called.
func (b *budget) retain(key string) (release func()) {
	b.mu.Lock()
	b.needs[key]++
	b.mu.Unlock()
	return sync.OnceFunc(func() {
		b.mu.Lock()
		b.needs[key]--
		if b.needs[key] == 0 {
			delete(b.needs, key)
		}
		name, ok := b.names[key]
		if !ok {
			name = key
		}
		if image := b.images[name]; image != nil {
			image.used = time.Now()
		}
		b.mu.Unlock()
		b.poke()
	})
}

// held is how many bytes the run's own images have. Layers that several share count
// for each.
func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sum()
}

func (b *budget) sum() (n int64) {
	for _, image := range b.images {
		n += image.size
	}
	return n
}

func (b *budget) poke() {
	select {
	case b.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// keep removes images as they become too many, until ctx ends, and once more then.
func (b *budget) keep(ctx context.Context) {
	for ctx.Err() == nil {
		next := b.trim(ctx, b.limit, b.idle)
		timer := time.NewTimer(next)
		select {
		case <-b.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTrim)
	defer cancel()
	b.trim(last, b.limit, 0)
}

// Times of the budget.
const (
	lastTrim  = 30 * time.Second // for removing images at the end of a run
	retryTrim = 30 * time.Second // until an image that could not be removed is tried again
	noTrim    = time.Hour        // when there is nothing to wait for
)

// clear removes all images of the run that nobody needs now and returns how many.
func (b *budget) clear(ctx context.Context) (removed int) {
	before := b.count()
	b.trim(ctx, 0, 0)
	return before - b.count()
}

func (b *budget) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.images)
}

// trim removes what is too much and returns when to look again.
func (b *budget) trim(ctx context.Context, limit int64, idle time.Duration) time.Duration {
	for context.Cause(ctx) == nil {
		victim, next := b.victim(limit, idle)
		if victim == nil {
			return next
		}
		b.forget(victim.key)
		err := b.remove(ctx, victim.ref)
		b.mu.Lock()
		if err != nil {
			victim.held = time.Now().Add(retryTrim)
		} else if b.images[victim.key] == victim {
			delete(b.images, victim.key)
		}
		b.mu.Unlock()
		if err == nil {
			b.tell(victim.ref, fmt.Sprintf("removed, no attempt needs it now (%s)", gigabytes(victim.size)))
		}
	}
	return noTrim
}

// victim returns the image to remove next, or how long until there may be one.
func (b *budget) victim(limit int64, idle time.Duration) (*broughtImage, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sum() <= limit {
		return nil, noTrim
	}
	var oldest *broughtImage
	next, now := noTrim, time.Now()
	for _, image := range b.images {
		if b.needed(image.key) {
			continue
		}
		free := image.used.Add(idle)
		if image.held.After(free) {
			free = image.held
		}
		if wait := free.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		if oldest == nil || image.used.Before(oldest.used) {
			oldest = image
		}
	}
	return oldest, next
}

package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// watchDisk looks at the disk now and then, until the store is closed.
func (s *store) watchDisk() {
	defer s.working.Done()
	ticker := time.NewTicker(s.config.diskPoll)
	defer ticker.Stop()
	for {
		select {
		case <-s.stopped:
			return
		case <-ticker.C:
			s.checkDisk()
		}
	}
}

// checkDisk notes whether the disk takes posts, makes a journal writable again that
// has failed, and gives back the space of one that has been drained.
func (s *store) checkDisk() {
	s.rollBack()
	s.mu.Lock()
	defer s.mu.Unlock()
	trouble := s.resume()
	if trouble == "" {
		if err := s.reclaim(); err != nil {
			s.config.Log.Error("could not begin a new file of the journal", "error", err)
		}
		trouble = s.config.diskFull(s.short.bytes)
	}
	if trouble == "" {
		s.short = shortage{}
	}
	s.noteDisk(trouble)
}

// noteDisk records why the disk takes no posts now, or "", and logs a change between the
// two. Posts that wait are tried again when the trouble ends. mu is held.
func (s *store) noteDisk(trouble string) {
	switch {
	case trouble != "" && s.disk == "":
		s.config.Log.Error("no posts are taken: trouble with the disk of the state directory", "reason", trouble)
	case trouble == "" && s.disk != "":
		s.config.Log.Info("posts are taken again: the disk of the state directory can be written")
		close(s.room)
		s.room = make(chan struct{})
	}
	s.disk = trouble
}

// shortage is what is known of posts that would have taken space that is kept free.
type shortage struct {
	bytes int64     // of the largest of them; 0 if there are none
	last  time.Time // when the latest of them came
}

// shortageMemory is how long after the latest post without space smaller posts that are
// taken don't end the shortage.
const shortageMemory = time.Minute

// lacksSpace notes that a post has no space on the disk. The server's own writes stop just
// above the bytes that are kept free, where the disk alone looks well. mu is held.
func (s *store) lacksSpace(bytes int64, why string) {
	s.short.bytes = max(s.short.bytes, bytes)
	s.short.last = s.config.now()
	s.noteDisk(why)
}

// hasSpace notes that a post had space. One large post that never fits must not count as a
// shortage for ever. mu is held.
func (s *store) hasSpace(now time.Time) {
	if s.short.bytes > 0 && now.Sub(s.short.last) > shortageMemory {
		s.short = shortage{}
	}
}

// problem says why no posts are taken now, or returns nil.
func (s *store) problem() error {
	if err := s.log.Failed(); err != nil {
		return err
	}
	s.mu.Lock()
	why := s.disk
	s.mu.Unlock()
	if why == "" {
		why = s.config.diskFull(0)
	}
	if why == "" {
		return nil
	}
	return &statusError{code: http.StatusServiceUnavailable, detail: why, retry: 5 * time.Second}
}

// rollBack makes the state anew from the disk if the journal has failed: what was
// refused since must not show.
func (s *store) rollBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := s.log.Failed()
	if failed == nil || failed == s.rolledBack {
		return
	}
	recovered, err := s.log.Reload()
	if err == nil {
		before := s.state
		if _, err = s.restore(recovered); err == nil {
			s.state.Adopt(before)
			s.rolledBack = failed
		}
	}
	if err != nil {
		s.config.Log.Error("could not read the state again after the disk failed", "error", err)
	}
}

// resume makes the journal writable again after it has failed, and says why it can't.
// mu is held.
func (s *store) resume() string {
	failed := s.log.Failed()
	if failed == nil {
		return ""
	}
	if failed != s.rolledBack || s.config.diskFull(0) != "" || s.log.Resume() != nil {
		return failed.Error()
	}
	s.rolledBack = nil
	return ""
}

// reclaimable is how many bytes of the journal must be unneeded before they are given
// back although the newest file is not full.
const reclaimable = 1 << 20

// reclaim begins a new file of the journal when no groups wait and much of it is
// unneeded: files go at the start of later ones, and a full disk would never see
// another. mu is held.
func (s *store) reclaim() error {
	if s.state.Held() != (atropos.Amount{}) || s.moving {
		return nil
	}
	unneeded := s.log.TailSize()
	tail := s.log.Tail()
	for file, size := range s.sizes {
		if file != tail {
			unneeded += size
		}
	}
	for _, bytes := range s.live {
		unneeded -= bytes
	}
	if unneeded <= max(reclaimable, 4*s.snapshot) {
		return nil
	}
	return s.rotate()
}

// diskFull says why the disk doesn't take that many more bytes, or "".
func (c *Config) diskFull(bytes int64) string {
	if c.MinFree < 0 {
		return ""
	}
	free, err := c.free(c.Dir)
	if err != nil {
		return "" // the write will tell
	}
	if free-bytes < c.MinFree {
		why := fmt.Sprintf("the disk of the state directory has %d bytes left, and %d are kept free", free, c.MinFree)
		if free >= c.MinFree {
			why += fmt.Sprintf("; a post of %d bytes doesn't fit", bytes)
		}
		return why
	}
	return ""
}

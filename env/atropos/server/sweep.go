package server

import (
	"os"
	"path/filepath"
	"time"

	"github.com/hermes-env/hermes-env/env/atropos/journal"
)

// temporary begins the names of state directories that go away with the server.
const temporary = "hermes-env-api-"

// sweepAge is how old a temporary state directory must be to be removed by another
// server: a newer one may be on its way to its lock.
const sweepAge = time.Minute

// sweep removes the temporary state directories of servers that were killed.
func (s *Server) sweep(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, temporary+"*"))
	if err != nil {
		return // the pattern is a constant
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || s.config.now().Sub(info.ModTime()) < sweepAge || !journal.Abandoned(dir) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			s.config.Log.Warn("could not remove the temporary state directory of a server that was killed", "dir", dir, "error", err)
		}
	}
}

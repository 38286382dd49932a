package inside

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// manyWatches is how many instances of inotify the processes of a sandbox may hold before
// they count as the reason why there are none left. Programs have one or two.
const manyWatches = 16

// noWatches reports whether the kernel had no watch left for a user, of whom all
// containers may share one.
func noWatches(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENOSPC) }

// endWatchHolders ends the processes of the sandbox that hold instances of inotify, where
// these are many, and reports whether they were.
func (s *server) endWatchHolders() bool {
	var holders []int
	all := 0
	for _, name := range processIDs() {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if n := countWatches(pid); n > 0 {
			holders = append(holders, pid)
			all += n
		}
	}
	if all < manyWatches {
		return false
	}
	for _, pid := range holders {
		_ = unix.Kill(pid, unix.SIGKILL) // gone already is as good
	}
	s.config.guard.remark(fmt.Sprintf("%d processes were ended, because they held so many of the kernel's watches (inotify) that there was none for the harness", len(holders)))
	return true
}

// countWatches returns how many instances of inotify a process holds; one with thousands of
// watches counts for more.
func countWatches(pid int) int {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	n := 0
	for _, entry := range entries {
		if link, err := os.Readlink(filepath.Join(dir, entry.Name())); err != nil || link != "anon_inode:inotify" {
			continue
		}
		n++
		n += thousandsOfWatches(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, entry.Name()))
	}
	return n
}

func thousandsOfWatches(path string) int {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	const line = 100 // about as many bytes for each
	return len(data) / line / 1000
}

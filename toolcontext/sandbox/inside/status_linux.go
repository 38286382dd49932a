package inside

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// volatileMounts are the file systems in memory that commands may write to, and how many
// files each had when the server began.
type volatileMounts map[string]uint64

func newVolatileMounts() volatileMounts {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	v := volatileMounts{}
	for line := range strings.Lines(string(data)) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 6 || len(kind) == 0 || kind[0] != "tmpfs" || !strings.Contains(","+fields[5]+",", ",rw,") {
			continue
		}
		point := unescapeMount(fields[4])
		if strings.HasPrefix(point, "/proc/") || strings.HasPrefix(point, "/sys/") {
			continue // what the engine hides
		}
		v[point] = usedFiles(point)
	}
	return v
}

func usedFiles(point string) uint64 {
	var st unix.Statfs_t
	if unix.Statfs(point, &st) != nil {
		return 0
	}
	return st.Files - st.Ffree
}

// changed reports whether there is more, or less, in them than at the beginning, beside
// what is in the server's own directory.
func (v volatileMounts) changed(own string) bool {
	for point, files := range v {
		now := usedFiles(point)
		if filepath.Dir(own) == point {
			now -= countFiles(own)
		}
		if now != files {
			return true
		}
	}
	shared, err := os.ReadFile("/proc/sysvipc/shm")
	return err == nil && strings.Count(string(shared), "\n") > 1 // the first line is a heading
}

// countFiles returns how many files and directories a directory has, itself included.
func countFiles(dir string) (n uint64) {
	_ = filepath.WalkDir(dir, func(string, fs.DirEntry, error) error { // what can't be seen has ended with its command
		n++
		return nil
	})
	return n
}

// statusLimit bounds looking around: where processes have used up all memory, reading
// /proc waits for some.
const statusLimit = time.Second

// readStatus looks around. Where that takes too long it says that there is something.
func (s *server) readStatus() Status {
	seen := make(chan Status, 1)
	if s.looking.CompareAndSwap(false, true) {
		go func() {
			defer s.looking.Store(false)
			seen <- Status{Processes: max(0, len(processIDs())-1), Volatile: s.volatile.changed(s.stateDir)}
		}()
	}
	timer := time.NewTimer(statusLimit)
	defer timer.Stop()
	status := Status{Processes: 1, Volatile: true}
	select {
	case status = <-seen:
	case <-timer.C:
	}
	status.Notes = s.config.guard.said()
	return status
}

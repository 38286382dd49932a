package inside

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// maxWatchedDirs bounds the directories below watched ones that are watched as well.
const maxWatchedDirs = 2000

// maxWatchedFiles bounds the new files that are watched under all their names.
const maxWatchedFiles = 500

// What is asked of the kernel. Openings and modifications are not told to anybody:
// they keep the kernel from joining the ends of two writes into one event.
const (
	watchInside = unix.IN_OPEN | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	watchAbove  = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	watchFile   = unix.IN_OPEN | unix.IN_MODIFY | unix.IN_CLOSE_WRITE
	watchFlags  = unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
)

// pathWatch is the watch of a server over some directories. The kernel notes events
// as they happen; a goroutine takes them, so that they stay apart and few.
type pathWatch struct {
	mu      sync.Mutex
	file    *os.File
	fd      int // of file
	files   int // how many new files are watched
	reading sync.WaitGroup
	dirs    map[int32]watchedDir
	counts  map[string]*watchCounts
	lost    bool
	stop    int32 // descriptor of the watch whose end says that all before it was read
	caught  *sync.Cond
	seen    uint64 // how many ends of that kind were read
}

// watchedDir is a directory, or a new file, under a watch.
type watchedDir struct {
	file bool
	path string
	only string // the one name in it that matters; "" for all
}

// begin starts a watch in place of the one that was there.
func (w *pathWatch) begin(dirs []string) error {
	for _, dir := range dirs {
		if !path.IsAbs(dir) || path.Clean(dir) == "/" {
			return fmt.Errorf("watch %q: %w: the path has to be absolute and not the root", dir, sandbox.ErrInvalidCommand)
		}
	}
	w.end()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("watch %s: %w; raise fs.inotify.max_user_instances of the machine when too many are in use", strings.Join(dirs, ", "), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	file := os.NewFile(uintptr(fd), "inotify")
	w.file, w.dirs, w.counts, w.lost, w.seen = file, map[int32]watchedDir{}, map[string]*watchCounts{}, false, 0
	w.fd, w.files = fd, 0
	w.caught = sync.NewCond(&w.mu)
	for _, dir := range dirs {
		if err := w.add(fd, path.Clean(dir)); err != nil {
			_ = file.Close()
			w.file = nil
			return err
		}
	}
	w.reading.Go(func() { w.read(file) })
	return nil
}

// add watches a directory with all below it, and the names that lead to it.
func (w *pathWatch) add(fd int, dir string) error {
	for at := dir; at != "/"; at = path.Dir(at) {
		above := path.Dir(at)
		id, err := unix.InotifyAddWatch(fd, above, watchAbove|watchFlags|unix.IN_MASK_ADD)
		if err != nil {
			return fmt.Errorf("watch %s: %w", above, err)
		}
		if old, ok := w.dirs[int32(id)]; ok && old.only != path.Base(at) {
			w.dirs[int32(id)] = watchedDir{path: above, only: old.only + "/" + path.Base(at)}
		} else if !ok {
			w.dirs[int32(id)] = watchedDir{path: above, only: path.Base(at)}
		}
	}
	n := 0
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("watch %s: %w", name, err)
		}
		if !d.IsDir() {
			if name == dir {
				return fmt.Errorf("watch %s: it is no directory", name)
			}
			return nil
		}
		if n++; n > maxWatchedDirs {
			return fmt.Errorf("watch %s: it has more than %d directories", dir, maxWatchedDirs)
		}
		id, err := unix.InotifyAddWatch(fd, name, watchInside|watchFlags)
		if err != nil {
			return fmt.Errorf("watch %s: %w; raise fs.inotify.max_user_watches of the machine when too many are in use", name, err)
		}
		w.dirs[int32(id)] = watchedDir{path: name}
		return nil
	})
}

// read takes events until the file is closed.
func (w *pathWatch) read(file *os.File) {
	buf := make([]byte, 64<<10)
	for {
		n, err := file.Read(buf)
		if err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.lost = w.lost || !errors.Is(err, os.ErrClosed)
			w.seen = 1<<64 - 1
			w.caught.Broadcast()
			return
		}
		w.mu.Lock()
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			if size > len(b) {
				w.lost = true
				break
			}
			w.note(int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]), strings.TrimRight(string(b[unix.SizeofInotifyEvent:size]), "\x00"))
			b = b[size:]
		}
		w.mu.Unlock()
	}
}

// note counts one event.
func (w *pathWatch) note(id int32, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.lost = true
		return
	}
	if mask&unix.IN_IGNORED != 0 {
		if id == w.stop {
			w.seen++
			w.caught.Broadcast()
		}
		return
	}
	dir, ok := w.dirs[id]
	if !ok || dir.only != "" && !strings.Contains("/"+dir.only+"/", "/"+name+"/") {
		return
	}
	if mask&(unix.IN_CREATE|unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_DELETE) == 0 {
		return
	}
	at := path.Join(dir.path, name)
	c := w.counts[at]
	if c == nil {
		if len(w.counts) == maxWatchedPaths {
			w.lost = true
			return
		}
		c = &watchCounts{}
		w.counts[at] = c
	}
	switch {
	case dir.file:
		c.anyName++
	case mask&unix.IN_CREATE != 0:
		c.Created++
	case mask&unix.IN_CLOSE_WRITE != 0:
		c.Written++
	case mask&unix.IN_MOVED_TO != 0:
		c.Arrived++
	default:
		c.Left++
	}
	if mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 && mask&unix.IN_ISDIR == 0 && dir.only == "" {
		w.follow(at, c)
	}
}

// watchCounts counts what happened to one path.
type watchCounts struct {
	sandbox.WatchEvents
	anyName int // writes that were closed under any name
	linked  int // whether it came with another name
}

// follow watches a new file under whatever name it is written: one that was made by
// linking can have been opened before.
func (w *pathWatch) follow(name string, c *watchCounts) {
	if w.files++; w.files > maxWatchedFiles || w.file == nil {
		return
	}
	id, err := unix.InotifyAddWatch(w.fd, name, watchFile|unix.IN_DONT_FOLLOW)
	if err != nil {
		return // it is gone, which is noted, or it can't be read
	}
	w.dirs[int32(id)] = watchedDir{file: true, path: name}
	if info, err := os.Lstat(name); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
			c.linked++
		}
	}
}

// take returns the counts since the last call.
func (w *pathWatch) take(end bool) ([]sandbox.WatchEvents, bool, error) {
	w.mu.Lock()
	if w.file == nil {
		w.mu.Unlock()
		return nil, false, fmt.Errorf("nothing is watched: %w", fs.ErrNotExist)
	}
	err := w.catchUp()
	var events []sandbox.WatchEvents
	for at, c := range w.counts {
		e := c.WatchEvents
		e.Path, e.Elsewhere = at, c.linked+max(0, c.anyName-c.Written)
		if e != (sandbox.WatchEvents{Path: at}) {
			events = append(events, e)
		}
	}
	clear(w.counts)
	lost := w.lost
	w.mu.Unlock()
	if end {
		w.end()
	}
	return events, lost, err
}

// catchUp waits until all that has happened was read: the end of a watch that is made
// for this is noted after everything before it.
func (w *pathWatch) catchUp() error {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("read what was watched: %w", err)
	}
	want := w.seen + 1
	var made error
	err = raw.Control(func(fd uintptr) {
		id, err := unix.InotifyAddWatch(int(fd), "/proc/self", unix.IN_DELETE_SELF)
		if err == nil {
			w.stop = int32(id)
			_, err = unix.InotifyRmWatch(int(fd), uint32(id))
		}
		made = err
	})
	if err = errors.Join(err, made); err != nil {
		return fmt.Errorf("read what was watched: %w", err)
	}
	for w.seen < want {
		w.caught.Wait()
	}
	return nil
}

// end gives the watch up.
func (w *pathWatch) end() {
	w.mu.Lock()
	file := w.file
	w.file = nil
	w.mu.Unlock()
	if file != nil {
		_ = file.Close() // ends the reader
		w.reading.Wait()
	}
}

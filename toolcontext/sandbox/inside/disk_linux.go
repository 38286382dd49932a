package inside

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of counting.
const (
	maxDiskDepth = 1000    // directories in each other
	maxDiskLinks = 1 << 18 // files with several names that are told apart
)

// systemMeter counts what was changed since a moment by the time of the last change
// (ctime), which no process can set: files of the image have older ones, so they need
// not be known. Between two counts it believes the kernel's numbers: bytes written by
// processes, and what the file system has free less.
type systemMeter struct {
	since unix.Timespec

	written, free, inodes int64 // at the last reset
	most                  int64 // bytes written, as far as was ever seen
}

// newDiskMeter returns the meter of the machine that this process is on. since is when
// the sandbox began, by the clock of its file system; 0 means now, which it returns.
func newDiskMeter(since int64, state string) (diskMeter, int64) {
	m := &systemMeter{since: unix.NsecToTimespec(since)}
	if since == 0 {
		m.since = unix.NsecToTimespec(time.Now().UnixNano())
		var st unix.Stat_t
		if unix.Lstat(state, &st) == nil { // the file system's clock is a little behind
			m.since = st.Ctim
		}
	}
	m.reset()
	return m, m.since.Nano()
}

func (m *systemMeter) reset() {
	m.written = m.processes()
	m.free, m.inodes = freeSpace()
}

// freeSpace returns the bytes and files that the root's file system has free.
func freeSpace() (bytes, inodes int64) {
	var fs unix.Statfs_t
	if unix.Statfs("/", &fs) != nil {
		return 0, 0
	}
	return int64(fs.Bfree) * fs.Bsize, int64(fs.Ffree)
}

// rootBytes returns the size of the root's file system.
func rootBytes() int64 {
	var fs unix.Statfs_t
	if unix.Statfs("/", &fs) != nil {
		return 0
	}
	return int64(fs.Blocks) * fs.Bsize
}

func (m *systemMeter) growth() (all, own int64) {
	free, inodes := freeSpace()
	own = max(m.processes()-m.written, 0)
	return max(own, m.free-free, (m.inodes-inodes)*diskInode), own
}

// processes returns the bytes that all processes have written to disks. The numbers of
// ended ones are in their parents', of orphans at last in this process's.
func (m *systemMeter) processes() int64 {
	total := int64(0)
	for _, pid := range processIDs() {
		data, err := os.ReadFile("/proc/" + pid + "/io")
		if err != nil {
			continue // another user's, or ended
		}
		_, after, ok := strings.Cut(string(data), "\nwrite_bytes: ")
		text, _, _ := strings.Cut(after, "\n")
		if n, err := strconv.ParseInt(text, 10, 64); ok && err == nil {
			total += n
		}
	}
	m.most = max(m.most, total)
	return m.most
}

// processIDs lists the processes.
func processIDs() []string {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var list []string
	for _, name := range names {
		if name[0] >= '1' && name[0] <= '9' {
			list = append(list, name)
		}
	}
	return list
}

func (m *systemMeter) busy() bool { return len(processIDs()) > 1 }

// inode is a file under whatever names.
type inode struct{ dev, ino uint64 }

// counting is one count under way.
type counting struct {
	ctx   context.Context
	since unix.Timespec
	seen  map[inode]struct{}
	bytes int64
	// file, when set, is called with each changed file and the directory it is in.
	file func(dir int, name string, st *unix.Stat_t)
	// unsure says that some of what was changed could not be looked at.
	unsure bool
}

func (m *systemMeter) count(ctx context.Context) int64 {
	c := &counting{ctx: ctx, since: m.since, seen: map[inode]struct{}{}}
	c.mounts()
	c.unnamed()
	if c.unsure {
		return max(c.bytes, m.processes()) // rather too much than what somebody hides
	}
	return c.bytes
}

// releaseFrom is the least size on disk of files that are looked at for space that was
// only allocated.
const releaseFrom = 1 << 20

// release gives back the space of files that was allocated (fallocate) and not written to.
// What they contain stays the same.
func (m *systemMeter) release(ctx context.Context) {
	c := &counting{ctx: ctx, since: m.since, seen: map[inode]struct{}{}, file: func(dir int, name string, st *unix.Stat_t) {
		if st.Blocks*512 < releaseFrom {
			return
		}
		fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return // another user's, or gone
		}
		defer unix.Close(fd)
		releaseFile(fd, st)
	}}
	c.mounts()
}

func releaseFile(fd int, st *unix.Stat_t) {
	for at := int64(0); at < st.Size; {
		hole, err := unix.Seek(fd, at, unix.SEEK_HOLE)
		if err != nil || hole >= st.Size {
			break
		}
		data, err := unix.Seek(fd, hole, unix.SEEK_DATA)
		if err != nil { // none follows
			data = st.Size
		}
		if unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, hole, data-hole) != nil {
			return
		}
		at = data
	}
	_ = unix.Ftruncate(fd, st.Size) // what was allocated beyond its end
	_ = unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), []unix.Timespec{st.Atim, st.Mtim}, 0)
}

// mounts counts what is below all file systems that take disk.
func (c *counting) mounts() {
	for _, point := range diskMounts() {
		var st unix.Stat_t
		if unix.Lstat(point, &st) != nil {
			continue
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			c.add(&st)
			continue
		}
		if fd, err := unix.Open(point, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0); err == nil {
			c.directory(fd, uint64(st.Dev), 0)
		}
	}
}

// add counts a file that was changed.
func (c *counting) add(st *unix.Stat_t) {
	if st.Ctim.Sec < c.since.Sec || st.Ctim.Sec == c.since.Sec && st.Ctim.Nsec < c.since.Nsec {
		return
	}
	if st.Nlink != 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR && len(c.seen) < maxDiskLinks {
		key := inode{uint64(st.Dev), st.Ino}
		if _, ok := c.seen[key]; ok {
			return
		}
		c.seen[key] = struct{}{}
	}
	c.bytes += int64(st.Blocks)*512 + diskInode
}

// directory counts what is in a directory and below on the same file system, and
// closes it. Names are never followed, and no path gets too long.
func (c *counting) directory(fd int, dev uint64, depth int) {
	dir := os.NewFile(uintptr(fd), "")
	defer dir.Close()
	for c.ctx.Err() == nil {
		names, err := dir.Readdirnames(512)
		for _, name := range names {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // gone meanwhile
			}
			if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				c.add(&st)
				if c.file != nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Ctim.Nano() >= c.since.Nano() {
					c.file(fd, name, &st)
				}
				continue
			}
			if uint64(st.Dev) != dev {
				continue // a mount of its own
			}
			c.add(&st)
			sub, err := -1, error(unix.EMFILE)
			if depth < maxDiskDepth {
				sub, err = unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
			}
			switch {
			case err == nil:
				c.directory(sub, dev, depth+1)
			case !errors.Is(err, unix.ENOENT) && st.Ctim.Nano() >= c.since.Nano():
				c.unsure = true
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.unsure = true
			}
			return
		}
	}
}

// unnamed counts files without a name that processes hold open.
func (c *counting) unnamed() {
	for _, pid := range processIDs() {
		dir := "/proc/" + pid + "/fd"
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // another user's, or ended
		}
		for _, entry := range entries {
			at := path.Join(dir, entry.Name())
			var st unix.Stat_t
			if unix.Stat(at, &st) != nil || st.Nlink != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
				continue
			}
			if name, err := os.Readlink(at); err == nil && !strings.HasPrefix(name, "/memfd:") && !strings.HasPrefix(name, "/dev/") {
				c.add(&st)
			}
		}
	}
}

// inMemory are file systems that take no disk, or none of the sandbox's.
var inMemory = [...]string{"proc", "sysfs", "tmpfs", "ramfs", "devtmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "securityfs", "debugfs", "tracefs", "bpf", "pstore", "hugetlbfs", "fusectl", "configfs", "binfmt_misc", "nsfs"}

// diskMounts returns where file systems are mounted that can be written and take disk.
func diskMounts() []string {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{"/"}
	}
	var points []string
next:
	for line := range strings.Lines(string(data)) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 6 || len(kind) == 0 || !strings.Contains(","+fields[5]+",", ",rw,") {
			continue
		}
		for _, name := range inMemory {
			if kind[0] == name {
				continue next
			}
		}
		points = append(points, unescapeMount(fields[4]))
	}
	return points
}

// unescapeMount undoes the kernel's way to write blanks in mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

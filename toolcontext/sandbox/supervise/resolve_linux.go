//go:build amd64 || arm64

package supervise

import (
	"encoding/binary"
	"errors"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPath and maxArgs bound what is read of a system call's arguments.
const (
	maxPath  = 4096
	maxArgs  = 256
	maxLinks = 40
	// maxHanded bounds the arguments and variables in which files of the tests are looked for.
	maxHanded = 20_000
)

// memory reads the memory of a thread that waits for an answer.
type memory struct {
	fd   int
	word int
}

func openMemory(tid, word int) (memory, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(tid)+"/mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return memory{fd, word}, err
}

func (m memory) close() { _ = unix.Close(m.fd) }

// text reads a string that ends with a NUL byte.
func (m memory) text(at uint64) (string, error) {
	if at == 0 {
		return "", unix.EFAULT
	}
	var out []byte
	var buf [256]byte
	for len(out) <= maxPath {
		// Not beyond the page: the next one may not be there.
		n := min(len(buf), int(4096-at%4096))
		n, err := unix.Pread(m.fd, buf[:n], int64(at))
		if err != nil || n <= 0 {
			return "", unix.EFAULT
		}
		for i, c := range buf[:n] {
			if c == 0 {
				return string(append(out, buf[:i]...)), nil
			}
		}
		out = append(out, buf[:n]...)
		at += uint64(n)
	}
	return "", unix.ENAMETOOLONG
}

// list reads an array of strings that ends with a null pointer, cut to limit.
func (m memory) list(at uint64, limit int) []string {
	var out []string
	var buf [8]byte
	for ; at != 0 && len(out) < limit; at += uint64(m.word) {
		if n, err := unix.Pread(m.fd, buf[:m.word], int64(at)); err != nil || n != m.word {
			break
		}
		pointer := binary.NativeEndian.Uint64(buf[:])
		if m.word == 4 {
			pointer = uint64(binary.NativeEndian.Uint32(buf[:]))
		}
		if pointer == 0 {
			break
		}
		text, err := m.text(pointer)
		if err != nil && !errors.Is(err, unix.ENAMETOOLONG) {
			break
		}
		out = append(out, text)
	}
	return out
}

// place is where a path of a process leads.
type place struct {
	path   string // without links, as the supervisor sees it
	exists bool
	dir    bool
	links  []string // links that lead there, outside /proc
	owner  int      // the process of a descriptor in /proc that leads there; 0 for none
	file   fileID   // which file it is
	// descriptor says that it is what the descriptor of owner stands for, not something
	// below that.
	descriptor bool
}

// fileID tells files apart that may have several names.
type fileID struct{ device, inode uint64 }

func idOf(st *unix.Stat_t) fileID { return fileID{st.Dev, st.Ino} }

// atFD returns the directory a descriptor stands for; AT_FDCWD is the working directory.
func atFD(tid int, fd int32) string {
	if fd == unix.AT_FDCWD {
		return link(tid, "cwd")
	}
	return link(tid, "fd/"+strconv.Itoa(int(fd)))
}

func link(tid int, name string) string {
	target, err := os.Readlink("/proc/" + strconv.Itoa(tid) + "/" + name)
	if err != nil {
		return ""
	}
	return target
}

// resolve follows a path of a thread, starting in dir where it is relative. With
// follow, a link at its end is followed too.
func resolve(tid int, dir, name string, follow bool) (p place, err error) {
	var followed []string
	owner, direct := 0, false
	defer func() { p.links, p.owner, p.descriptor = followed, owner, direct }()
	root := link(tid, "root")
	if root == "" {
		return place{}, unix.ESRCH
	}
	at := dir
	if strings.HasPrefix(name, "/") {
		at = root
	} else if !strings.HasPrefix(at, "/") {
		return place{}, unix.ENOTDIR
	}
	todo := strings.Split(name, "/")
	links := 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at != root {
				at = path.Dir(at)
			}
			continue
		}
		last := len(todo) == 0
		if at == "/proc" && (part == "self" || part == "thread-self") {
			part = strconv.Itoa(tid)
		}
		next := path.Join(at, part)
		var st unix.Stat_t
		if err := unix.Lstat(next, &st); err != nil {
			if last && errors.Is(err, unix.ENOENT) {
				return place{path: next}, nil
			}
			return place{}, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK || last && !follow {
			at = next
			if last {
				return place{path: at, exists: true, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, file: idOf(&st)}, nil
			}
			continue
		}
		if links++; links > maxLinks {
			return place{}, unix.ELOOP
		}
		target, err := os.Readlink(next)
		if err != nil {
			return place{}, err
		}
		if pid, ok := descriptorOf(next); ok {
			owner, direct = pid, last
		} else if !strings.HasPrefix(next, "/proc/") {
			followed = append(followed, next)
		}
		if strings.HasPrefix(next, "/proc/") && !strings.HasPrefix(target, "/") {
			return place{path: next, exists: true}, nil // a pipe, a socket, …
		}
		if strings.HasPrefix(target, "/") {
			at = root
			if strings.HasPrefix(next, "/proc/") {
				at = "/" // such links name what they stand for, whatever the root
			}
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	var st unix.Stat_t
	if err := unix.Lstat(at, &st); err != nil {
		return place{}, err
	}
	return place{path: at, exists: true, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, file: idOf(&st)}, nil
}

// descriptorOf returns the process that has the descriptor which a link of /proc stands for.
func descriptorOf(name string) (pid int, ok bool) {
	dir, _ := path.Split(name)
	rest, ok := strings.CutPrefix(strings.TrimSuffix(dir, "/"), "/proc/")
	if !ok || path.Base(rest) != "fd" {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, "/")
	if i := strings.Index(rest, "/task/"); i >= 0 {
		number, _, _ = strings.Cut(rest[i+len("/task/"):], "/")
	}
	pid, err := strconv.Atoi(number)
	return pid, err == nil
}

// below says whether name is dir or is in it.
func below(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// pathSet holds files, and directories with all below them.
type pathSet map[string]struct{}

func newPathSet(list []string) pathSet {
	s := make(pathSet, len(list))
	for _, name := range list {
		s[path.Clean(name)] = struct{}{}
	}
	return s
}

// has says whether name or a directory above it is in the set.
func (s pathSet) has(name string) bool {
	for len(s) > 0 {
		if _, ok := s[name]; ok {
			return true
		}
		up := path.Dir(name)
		if up == name {
			return false
		}
		name = up
	}
	return false
}

// foreignSet holds files, and directories for all below them.
type foreignSet struct {
	files map[string]struct{}
	dirs  pathSet
}

// newForeignSet makes a set of names; one that ends in / is a directory.
func newForeignSet(list []string) foreignSet {
	f := foreignSet{files: map[string]struct{}{}, dirs: pathSet{}}
	for _, name := range list {
		clean := path.Clean(name)
		if f.files[clean] = struct{}{}; strings.HasSuffix(name, "/") {
			f.dirs[clean] = struct{}{}
		}
	}
	return f
}

func (f foreignSet) has(name string) bool {
	_, ok := f.files[name]
	return ok || f.dirs.has(name)
}

// holds says whether something in the set is name, above or below it.
func (f foreignSet) holds(name string) bool {
	if f.has(name) {
		return true
	}
	for p := range f.files {
		if below(p, name) {
			return true
		}
	}
	return false
}

// holds says whether something in the set is name or below it.
func (s pathSet) holds(name string) bool {
	for p := range s {
		if below(p, name) {
			return true
		}
	}
	return false
}

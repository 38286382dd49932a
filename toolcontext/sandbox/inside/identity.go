package inside

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// identity is whom a server becomes.
type identity struct {
	uid, gid int
	groups   []int
	home     string
}

// mostOfADatabase bounds what is read of /etc/passwd and /etc/group, which the
// sandbox's image wrote.
const mostOfADatabase = 4 << 20

// largestID is the largest number of a user or group that container engines take.
const largestID = 1<<31 - 1

// lookUp resolves user, user:group or numbers in their place with the sandbox's own
// databases, by the rules that container engines have: a number need not be listed
// and then has group 0, no home and no further groups. Numbers that the kernel would
// cut, to root's in the worst case, are refused.
func lookUp(user, passwdFile, groupFile string) (identity, error) {
	id, err := find(user, passwdFile, groupFile)
	if err != nil {
		return id, err
	}
	for _, n := range append([]int{id.uid, id.gid}, id.groups...) {
		if n < 0 || n > largestID {
			return id, fmt.Errorf("the user %q has the number %d, or a group with it; numbers go from 0 to %d", user, n, largestID)
		}
	}
	return id, nil
}

func find(user, passwdFile, groupFile string) (identity, error) {
	name, group, hasGroup := strings.Cut(user, ":")
	id := identity{uid: -1, home: "/"}
	number, err := strconv.Atoi(name)
	numeric := err == nil && number >= 0
	err = eachEntry(passwdFile, 7, func(f []string) bool {
		uid, err := strconv.Atoi(f[2])
		if f[0] != name && (!numeric || err != nil || uid != number) {
			return true
		}
		gid, gidErr := strconv.Atoi(f[3])
		if err != nil || gidErr != nil {
			return true
		}
		id.uid, id.gid, name = uid, gid, f[0]
		if strings.HasPrefix(f[5], "/") {
			id.home = f[5]
		}
		return false
	})
	if err != nil {
		return id, err
	}
	if id.uid < 0 {
		if !numeric {
			return id, fmt.Errorf("there is no user %q in %s", name, passwdFile)
		}
		id.uid = number
	}
	if hasGroup {
		id.gid, err = lookUpGroup(group, groupFile)
		return id, err
	}
	return id, eachEntry(groupFile, 4, func(f []string) bool {
		if gid, err := strconv.Atoi(f[2]); err == nil && slices.Contains(strings.Split(f[3], ","), name) {
			id.groups = append(id.groups, gid)
		}
		return true
	})
}

func lookUpGroup(group, file string) (int, error) {
	gid := -1
	err := eachEntry(file, 4, func(f []string) bool {
		if n, err := strconv.Atoi(f[2]); err == nil && (f[0] == group || f[2] == group) {
			gid = n
		}
		return gid < 0
	})
	if err != nil || gid >= 0 {
		return gid, err
	}
	if n, err := strconv.Atoi(group); err == nil && n >= 0 {
		return n, nil
	}
	return 0, fmt.Errorf("there is no group %q in %s", group, file)
}

// eachEntry reads lines of n fields with colons between them until visit returns
// false. A database that isn't there has no entries.
func eachEntry(file string, n int, visit func(fields []string) bool) error {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not hold the start up
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return fmt.Errorf("read %s: %w", file, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("read %s: it is no regular file", file)
	}
	lines := bufio.NewScanner(io.LimitReader(f, mostOfADatabase))
	lines.Buffer(nil, mostOfADatabase)
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), ":"); len(fields) >= n && !visit(fields) {
			return nil
		}
	}
	return lines.Err()
}

// becomeUser makes the process user's and tells its commands where their home is,
// unless keepHome says that the sandbox was made with one.
func becomeUser(user string, keepHome bool) error {
	id, err := lookUp(user, "/etc/passwd", "/etc/group")
	if err != nil {
		return err
	}
	if !keepHome {
		if err := os.Setenv("HOME", id.home); err != nil {
			return fmt.Errorf("set HOME: %w", err)
		}
	}
	return id.becomeApart()
}

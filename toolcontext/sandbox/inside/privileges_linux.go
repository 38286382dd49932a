package inside

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// A server in a container may have capabilities that its commands have not. It keeps them
// from commands by taking them out of the bounding set, which programs that are started
// inherit and nothing adds to.

// kept are the capabilities that a server needs for its work when it serves as another
// user than root: it ends processes of every user and sees their files, and keeps its
// own priority and limits.
var kept = []uintptr{unix.CAP_KILL, unix.CAP_SYS_PTRACE, unix.CAP_SYS_NICE, unix.CAP_SYS_RESOURCE, unix.CAP_WAKE_ALARM}

// passedOn returns the capabilities that commands of another user than root get: Untraceable,
// where the server has it and has not taken it from its commands.
func passedOn() []uintptr {
	const n = unix.CAP_WAKE_ALARM
	c, err := readCapabilities()
	if err != nil || os.Geteuid() == 0 || c[n/32].Permitted&(1<<(n%32)) == 0 {
		return nil
	}
	if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, n, 0, 0, 0); err != nil || has != 1 {
		return nil
	}
	return []uintptr{n}
}

// reserve takes capabilities from all that this process starts. Where that is not
// possible it fails: commands must not have them.
func reserve(names []string) error {
	var numbers []uintptr
	for _, name := range names {
		n, ok := sandbox.CapabilityNumber(name)
		if !ok {
			return fmt.Errorf("there is no capability %q", name)
		}
		numbers = append(numbers, uintptr(n))
	}
	// SETPCAP goes last: without it nothing can be dropped.
	slices.SortFunc(numbers, func(a, b uintptr) int {
		return isSetPCap(a) - isSetPCap(b)
	})
	for _, n := range numbers {
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, n, 0); errno != 0 {
			return fmt.Errorf("keep the capability %d from commands: %w", n, errno)
		}
		if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, n, 0, 0, 0); err != nil || has != 0 {
			return fmt.Errorf("keep the capability %d from commands: it is still there (%v)", n, err)
		}
	}
	return nil
}

func isSetPCap(n uintptr) int {
	if n == unix.CAP_SETPCAP {
		return 1
	}
	return 0
}

// capabilities are the sets of a thread, as capget and capset have them.
type capabilities [2]unix.CapUserData

func readCapabilities() (capabilities, error) {
	var c capabilities
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return c, unix.Capget(&h, &c[0])
}

// setEverywhere sets the capabilities of all threads.
func (c *capabilities) setEverywhere() error {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&c[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// only leaves no more than some of the permitted capabilities, and makes those effective.
func (c *capabilities) only(numbers []uintptr) {
	var keep [2]uint32
	for _, n := range numbers {
		keep[n/32] |= 1 << (n % 32)
	}
	for i := range c {
		c[i].Permitted &= keep[i]
		c[i].Effective, c[i].Inheritable = c[i].Permitted, 0
	}
}

// otherID is a user and group that no image uses. With it as the saved user of the
// server, whose other ids are those of its commands, no user id matches all three, and
// the kernel lets nobody without CAP_SYS_RESOURCE change its limits.
const otherID = 65533

// becomeApart makes the process the user's, with a saved user and group of its own. It
// gives up what root may do, but for the capabilities in kept that it has.
func (id identity) becomeApart() error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("keep capabilities over a change of the user: %w", errno)
	}
	if err := syscall.Setgroups(append([]int{id.gid}, id.groups...)); err != nil {
		return fmt.Errorf("set the groups: %w", err)
	}
	if err := syscall.Setresgid(id.gid, id.gid, otherID); err != nil {
		return fmt.Errorf("set the group %d: %w", id.gid, err)
	}
	if err := syscall.Setresuid(id.uid, id.uid, otherID); err != nil {
		return fmt.Errorf("set the user %d: %w", id.uid, err)
	}
	c, err := readCapabilities()
	if err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	c.only(kept)
	if err := c.setEverywhere(); err != nil {
		return fmt.Errorf("set the capabilities: %w", err)
	}
	return nil
}

// standApart gives a server that serves as root a saved user and group of its own.
// Commands of root then can't change its limits.
func standApart() error {
	if os.Getuid() != 0 || os.Geteuid() != 0 {
		return nil
	}
	gid := os.Getgid()
	return errors.Join(syscall.Setresgid(gid, gid, otherID), syscall.Setresuid(0, 0, otherID))
}

// threads returns the ids of this process's threads.
func threads() []int {
	dir, err := os.Open("/proc/self/task")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	list := make([]int, 0, len(names))
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			list = append(list, tid)
		}
	}
	return list
}

package procguard

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func protect(secret func(flag string) bool) error {
	original := cloneArguments()
	err := eraseEnvironment(original)
	for _, value := range secretParts(original, secret) {
		fill(unsafe.Slice(unsafe.StringData(value), len(value)), '*')
	}
	// Last: from now on others than root can't open the files in /proc/self.
	if failed := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); failed != nil {
		err = errors.Join(err, fmt.Errorf("make the process unreadable for others: %w", failed))
	}
	return err
}

// eraseEnvironment overwrites the environment that /proc/self/environ shows. The kernel
// puts it right behind the arguments, whose strings in os.Args are those of the kernel;
// package syscall has a copy of the environment.
func eraseEnvironment(args []string) error {
	shown, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return fmt.Errorf("read the environment that other processes see: %w", err)
	}
	if len(shown) == 0 {
		return nil
	}
	_ = os.Environ() // makes the copy
	errElsewhere := errors.New("erase the environment that other processes see: it is not behind the arguments")
	if len(args) == 0 {
		return errElsewhere
	}
	last := args[len(args)-1]
	start := unsafe.StringData(last)
	if start == nil {
		return errElsewhere
	}
	block := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(start), len(last)+1)), len(shown))
	if string(block) != string(shown) {
		return errElsewhere
	}
	fill(block, 0)
	return nil
}

// readableByRoot reports whether commands of this process would run as root with the
// right to read the memory of any process.
func readableByRoot() bool {
	if os.Geteuid() != 0 {
		return false
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return true
	}
	_, bounding, found := strings.Cut(string(status), "\nCapBnd:")
	bounding, _, _ = strings.Cut(bounding, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(bounding), 16, 64)
	return !found || err != nil || set&(1<<unix.CAP_SYS_PTRACE) != 0
}

func fill(b []byte, value byte) {
	for i := range b {
		b[i] = value
	}
}

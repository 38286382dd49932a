package inside_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// kind is a way to start a server.
type kind struct {
	// first makes it the first process of a process namespace of its own.
	first bool
	// uid, when not 0, is its user, who may have no more than processes of them.
	uid, processes int
	// root, when set, is made its root directory, with the static program /server in it.
	root string
}

// kinds returns what can be started here: namespaces need root.
func kinds() map[string]kind {
	all := map[string]kind{"a child": {}}
	if canIsolate() {
		all["the first process"] = kind{first: true}
	}
	return all
}

func canIsolate() bool {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	return os.Getuid() == 0 && cmd.Run() == nil
}

// base returns an empty directory that the kind's user can reach.
func (k kind) base(tb testing.TB) string {
	if k.uid == 0 {
		return tb.TempDir()
	}
	dir, err := os.MkdirTemp("", "inside-test-")
	require.NoError(tb, err)
	require.NoError(tb, os.Chmod(dir, 0o755))
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(dir)) })
	return dir
}

func (k kind) apply(cmd *exec.Cmd, home string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if k.first {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
		cmd.Env = append(cmd.Env, "TEST_FIRST=1")
	}
	if k.root != "" {
		cmd.Env = append(cmd.Env, "TEST_ROOT="+k.root)
	}
	if k.uid == 0 {
		return nil
	}
	cmd.Env = append(cmd.Env, "TEST_UID="+strconv.Itoa(k.uid), "TEST_PROCESSES="+strconv.Itoa(k.processes))
	// The test's own program may lie where only its user can go.
	data, err := os.ReadFile(cmd.Path)
	if err != nil {
		return err
	}
	cmd.Path = filepath.Join(home, "home", "server")
	if err := os.WriteFile(cmd.Path, data, 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(home, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, k.uid, k.uid)
	})
}

// furnish makes the process what its kind says, before it serves.
func furnish() error {
	if os.Getenv("TEST_FURNISHED") != "" {
		return nil
	}
	if os.Getenv("TEST_FIRST") != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("keep mounts private: %w", err)
		}
	}
	if root := os.Getenv("TEST_ROOT"); root != "" {
		return enter(root)
	}
	if os.Getenv("TEST_FIRST") != "" {
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return fmt.Errorf("mount /proc: %w", err)
		}
	}
	// As in a container: not even root may look into other processes. It counts for
	// a thread, and for what is executed by it.
	runtime.LockOSThread()
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		switch c {
		case unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID:
		default:
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) // only root has any
		}
	}
	if uid, err := strconv.Atoi(os.Getenv("TEST_UID")); err == nil {
		n, err := strconv.ParseUint(os.Getenv("TEST_PROCESSES"), 10, 32)
		if err != nil {
			return err
		}
		if err := errors.Join(unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}),
			syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid)); err != nil {
			return fmt.Errorf("become user %d: %w", uid, err)
		}
	}
	return unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), "TEST_FURNISHED=1"))
}

// enter makes root the root directory, gives it what a container engine does, and
// becomes the server in it.
func enter(root string) error {
	for _, m := range []struct{ what, at, kind string }{{"proc", "proc", "proc"}, {"dev", "dev", "tmpfs"}} {
		at := filepath.Join(root, m.at)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.what, at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", at, err)
		}
	}
	if err := unix.Mknod(filepath.Join(root, "dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		return fmt.Errorf("make /dev/null: %w", err)
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("change the root directory: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return unix.Exec("/server", os.Args, []string{"PATH=/bin"})
}

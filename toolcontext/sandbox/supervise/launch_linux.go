//go:build amd64 || arm64

package supervise

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Word is the hidden first argument that makes a program the launcher.
const Word = "sandbox-launch"

// Flags of the launcher, in front of the command.
const (
	flagReads = "--reads"
	flagEnd   = "--"
)

// Launch installs the filter, hands the listener to the supervisor whose socket is the
// first argument, and becomes the command behind "--". It returns only if it fails.
func Launch(args []string, stderr io.Writer) int {
	if err := launch(args); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", Word, err)
	}
	return 126
}

func launch(args []string) error {
	reads := false
	if len(args) > 2 && args[1] == flagReads {
		reads, args = true, append(args[:1:1], args[2:]...)
	}
	if len(args) < 3 || args[1] != flagEnd {
		return fmt.Errorf("usage: SOCKET [%s] %s PATH ARGS…; it is started by the server in a sandbox", flagReads, flagEnd)
	}
	path, err := exec.LookPath(args[2])
	if err != nil {
		return err
	}
	argv := args[3:]
	env := os.Environ()
	runtime.LockOSThread() // the filter is over this thread, and the command runs on it
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	if err := unix.Connect(socket, &unix.SockaddrUnix{Name: "@" + args[0]}); err != nil {
		return fmt.Errorf("connect to the supervisor: %w", err)
	}
	listener, err := install(reads)
	if err != nil {
		_ = unix.Send(socket, []byte(err.Error()), 0) // the supervisor also sees the end of the connection
		return err
	}
	if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("hand the listener over: %w", err)
	}
	_ = unix.Close(listener)
	// The supervisor answers when it watches.
	var ready [1]byte
	if n, err := unix.Read(socket, ready[:]); err != nil || n != 1 {
		return fmt.Errorf("wait for the supervisor: %w", orEOF(err))
	}
	err = syscall.Exec(path, argv, env)
	return fmt.Errorf("%s: %s", path, strings.ToLower(err.Error()))
}

func orEOF(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

package local

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// openTerminal makes a pseudo terminal and returns our side and the command's.
func openTerminal(size sandbox.Terminal) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pseudo terminal: %w; /dev/pts has to be mounted", err)
	}
	defer func() {
		if err != nil {
			_ = master.Close()
			err = fmt.Errorf("make a pseudo terminal: %w", err)
		}
	}()
	raw, err := master.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	if size.Rows == 0 {
		size.Rows = 30
	}
	if size.Cols == 0 {
		size.Cols = 120
	}
	var number int
	control := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err != nil {
			return
		}
		if number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); err != nil {
			return
		}
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	if control != nil {
		err = control
	}
	if err != nil {
		return nil, nil, err
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	return master, slave, err
}

// another returns a second file for what f is.
func another(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	dup := -1
	control := raw.Control(func(fd uintptr) { dup, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) })
	if control != nil {
		err = control
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(dup), f.Name()), nil
}

package inside

import (
	"os"

	"golang.org/x/sys/unix"
)

// moveAway returns a copy of a standard stream that no child inherits, and puts the
// null device in its place.
func moveAway(f *os.File) (*os.File, error) {
	fd := int(f.Fd())
	moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return nil, err
	}
	if null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		_ = replace(null, fd)
		_ = unix.Close(null)
	} else {
		_ = unix.Close(fd) // an image without /dev: closed is as good
	}
	_ = unix.SetNonblock(moved, true) // lets a close end a read; regular files refuse, which is fine
	return os.NewFile(uintptr(moved), "stream"), nil
}

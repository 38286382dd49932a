package inside

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// bulkPipe is what a pipe holds while much goes through it: fewer turns between its
// two ends, which in a container often have to wait for a processor. The kernel
// bounds what the pipes of one user hold, so it is taken for that time only.
const bulkPipe = 256 << 10

// bulk makes an end of the stream hold more while transfers use it. The zero value
// does nothing.
type bulk struct {
	file *os.File

	mu    sync.Mutex
	users int
	usual int // bytes it held before
}

// newBulk takes an end of the stream, which need not be a pipe.
func newBulk(end any) *bulk {
	file, _ := end.(*os.File)
	return &bulk{file: file}
}

// begin makes the pipe hold more until the returned function is called.
func (b *bulk) begin() (end func()) {
	if b.file == nil {
		return func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users++; b.users == 1 {
		if size, err := b.control(unix.F_GETPIPE_SZ, 0); err == nil && size < bulkPipe {
			if _, err := b.control(unix.F_SETPIPE_SZ, bulkPipe); err == nil {
				b.usual = size
			}
		}
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.users--; b.users == 0 && b.usual > 0 {
			// Refused while it holds more than that; the next transfer tries again.
			if _, err := b.control(unix.F_SETPIPE_SZ, b.usual); err == nil {
				b.usual = 0
			}
		}
	}
}

func (b *bulk) control(command, value int) (got int, err error) {
	raw, err := b.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	if outer := raw.Control(func(fd uintptr) { got, err = unix.FcntlInt(fd, command, value) }); outer != nil {
		return 0, outer
	}
	return got, err
}

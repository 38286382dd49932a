//go:build !linux

package local

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// process is a running direct child.
type process struct {
	pid    int
	exited chan struct{} // closed when it has ended
	code   int
	ok     bool
}

// startProcess starts a program in a session of its own.
func startProcess(path string, argv, env []string, files [3]*os.File, start placement) (*process, error) {
	pid, _, err := syscall.StartProcess(path, argv, &syscall.ProcAttr{
		Dir:   start.dir,
		Env:   env,
		Files: []uintptr{fd(files[0]), fd(files[1]), fd(files[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		p.code, p.ok = wait(pid)
	}()
	return p, nil
}

// preferForKilling does nothing here.
func preferForKilling(int) {}

// sealFiles does nothing: inherited open files are passed on, as every shell does.
func sealFiles() {}

func wait(pid int) (int, bool) {
	var ws syscall.WaitStatus
	for {
		got, err := syscall.Wait4(pid, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || got != pid:
			return 0, false
		case ws.Signaled():
			return 128 + int(ws.Signal()), true
		default:
			return ws.ExitStatus(), true
		}
	}
}

// reap returns the exit code, 128+n after signal n; false when it is lost.
func (p *process) reap() (int, bool) {
	<-p.exited
	return p.code, p.ok
}

// startClock returns now; processes are not told by their start time here.
func startClock() uint64 { return uint64(time.Now().Unix()) }

// orphans does nothing here: there is no adopting of orphans.
type orphans struct{}

func newOrphans() *orphans { return &orphans{} }

func (*orphans) adopt() error                                 { return nil }
func (*orphans) expect()                                      {}
func (*orphans) expected()                                    {}
func (*orphans) child(int)                                    {}
func (*orphans) childGone(int)                                {}
func (*orphans) reapEnded()                                   {}
func (*orphans) killAll(context.Context, time.Duration) error { return nil }

// pipeToRead returns a pipe whose write end is for a child.
func pipeToRead() (r, w *os.File, err error) { return os.Pipe() }

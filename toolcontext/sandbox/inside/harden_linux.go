package inside

import (
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// spareThreads are made at the start: in a sandbox whose process limit a rollout has
// used up, a Go program that needs one more thread would die. They cover requests
// that wait for the file system; the rest needs no thread while it waits.
const spareThreads = 24

// harden protects the server from the commands it runs, which may have its user id, and
// returns what watches over its place among them.
func harden() *guard {
	if os.Getpid() == 1 {
		_ = standApart() // without, the limits can be lowered, which check notices
	}
	// Nobody without CAP_SYS_PTRACE may then open its memory or its files in /proc.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	// Nor does root in the commands have that. The capability is dropped for what this
	// process starts, not for itself: it has to look into processes of other users.
	// Only a static program can do it for all its threads; the backend should have.
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.CAP_SYS_PTRACE, 0)
	// Nor can they lower its limits: the kernel wants the caller's group to be all three of
	// the target's, or CAP_SYS_RESOURCE. Programs that this process starts get the effective
	// group as the saved one.
	if os.Geteuid() == 0 && os.Getpid() != 1 {
		_ = syscall.Setresgid(-1, -1, otherID) // without CAP_SETGID it stays as it is
	}
	// As the first process of a container it would be ended by signals that others are
	// not: Go handles them by exiting. Taken and dropped, they also stay at their
	// defaults in its children, which ignored ones would not.
	dropped := make(chan os.Signal, 1) // when it is full, more are dropped as well
	if os.Getpid() == 1 {
		signal.Notify(dropped)
	} else {
		signal.Notify(dropped, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
	}
	makeThreads(spareThreads)
	return newGuard()
}

// makeThreads makes the runtime create n threads, which it then keeps.
func makeThreads(n int) {
	var begun, ended sync.WaitGroup
	release := make(chan struct{})
	for range n {
		begun.Add(1)
		ended.Go(func() {
			runtime.LockOSThread() // so that none is shared
			defer runtime.UnlockOSThread()
			begun.Done()
			<-release
		})
	}
	begun.Wait()
	close(release)
	ended.Wait()
}

func replace(from, to int) error { return unix.Dup3(from, to, 0) }

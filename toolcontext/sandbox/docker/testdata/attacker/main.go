// Command attacker does, in a sandbox, what a rollout may try so that its failure looks
// like one of the machine.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	attacks := map[string]func(args []string) error{
		"limit": limit, "nice": nice, "idle": idle, "disk-priority": diskPriority, "processor": processor,
		"watches": watches, "forks": forks, "allocate": allocate, "shared": shared,
	}
	if len(os.Args) < 2 || attacks[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "no such attack")
		os.Exit(2)
	}
	if err := attacks[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// first are the threads of the sandbox's first process.
func first() []int {
	entries, err := os.ReadDir("/proc/1/task")
	if err != nil {
		return []int{1}
	}
	var list []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// each runs change on all threads of the first process; it succeeds if one was changed.
func each(change func(tid int) error) error {
	err := error(nil)
	for _, tid := range first() {
		if err = change(tid); err == nil {
			return nil
		}
	}
	return err
}

// limit lowers a limit of the first process to 1.
func limit(args []string) error {
	resource, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return unix.Prlimit(1, resource, &unix.Rlimit{Cur: 1, Max: 1}, nil)
}

func nice([]string) error {
	return each(func(tid int) error { return unix.Setpriority(unix.PRIO_PROCESS, tid, 19) })
}

func idle([]string) error {
	return each(func(tid int) error { return unix.SchedSetAttr(tid, &unix.SchedAttr{Policy: unix.SCHED_IDLE}, 0) })
}

func diskPriority([]string) error {
	return each(func(tid int) error {
		if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, 1, uintptr(tid), 3<<13); errno != 0 {
			return errno
		}
		return nil
	})
}

func processor([]string) error {
	var one unix.CPUSet
	one.Set(0)
	return each(func(tid int) error { return unix.SchedSetaffinity(tid, &one) })
}

// watches takes all of the kernel's watches that its user may have, and listens.
func watches([]string) error {
	n := 0
	for {
		if _, err := unix.InotifyInit1(0); err != nil {
			break
		}
		n++
	}
	return listen(n)
}

func listen(n int) error {
	l, err := net.Listen("tcp", "127.0.0.1:9999")
	if err != nil {
		return err
	}
	fmt.Println(n)
	time.Sleep(time.Hour)
	return l.Close()
}

// forks listens and starts itself again and again, each time with a megabyte of memory.
func forks(args []string) error {
	if len(args) == 0 {
		if _, err := net.Listen("tcp", "127.0.0.1:9998"); err != nil {
			return err
		}
	}
	memory := make([]byte, 1<<20)
	for i := range memory {
		memory[i] = 1
	}
	for {
		_, err := syscall.ForkExec("/proc/self/exe", []string{"attacker", "forks", "again"}, &syscall.ProcAttr{})
		if err != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// allocate makes files of so many megabytes that are never written to, in a directory,
// until there is no room or there are a hundred.
func allocate(args []string) error {
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	for i := range 100 {
		f, err := os.Create(fmt.Sprintf("%s/allocated%d", args[0], i))
		if err != nil {
			return err
		}
		if err := unix.Fallocate(int(f.Fd()), 0, 0, size<<20); err != nil {
			return err
		}
		_ = f.Close()
	}
	return nil
}

// shared fills memory that no process holds: it stays when this one has ended.
func shared(args []string) error {
	megabytes, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for range megabytes {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 1<<20, 0o600|unix.IPC_CREAT)
		if err != nil {
			return err
		}
		b, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		if err := unix.SysvShmDetach(b); err != nil {
			return err
		}
	}
	return nil
}

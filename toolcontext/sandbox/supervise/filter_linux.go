//go:build amd64 || arm64

package supervise

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// operation is what a system call does, as far as a policy is concerned.
type operation int

const (
	opNone       operation = iota
	opOpen                 // path, flags
	opOpenHow              // path, pointer to struct open_how
	opCreate               // path: makes it, or empties it
	opMake                 // path: makes a new name
	opRemove               // path
	opRename               // path, second path
	opLink                 // path, second path
	opBind                 // descriptor, address
	opSocketCall           // number of a call, pointer to its arguments
	opExec                 // path, argv
	opKill                 // pid, signal
	opKillFD               // pidfd, signal
	opTrace                // pid in the argument pid
	opLimit                // pid
	opOwner                // descriptor, command, owner or signal
	opRefuse               // refused for untrusted processes
	opAbsent               // does not exist for any process
)

// call describes where a system call has its arguments; -1 where it has none.
type call struct {
	op       operation
	dir      int // directory descriptor of path
	path     int
	flags    int // open flags, or the flags of *at calls
	dir2     int
	path2    int
	argv     int
	pid, sig int
}

func pathCall(op operation, dir, path, flags int) call {
	return call{op: op, dir: dir, path: path, flags: flags, dir2: -1, path2: -1, argv: -1, pid: -1, sig: -1}
}

func pairCall(op operation, dir, path, dir2, path2, flags int) call {
	c := pathCall(op, dir, path, flags)
	c.dir2, c.path2 = dir2, path2
	return c
}

func execCall(dir, path, argv, flags int) call {
	c := pathCall(opExec, dir, path, flags)
	c.argv = argv
	return c
}

func pidCall(op operation, pid, sig int) call {
	c := pathCall(op, -1, -1, -1)
	c.pid, c.sig = pid, sig
	return c
}

// What the filter returns, see seccomp(2).
const (
	retAllow  = 0x7fff0000
	retErrno  = 0x00050000
	retNotify = 0x7fc00000
)

// writeFlags are the open flags that make an opening one for writing.
const writeFlags = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC

// namespaces are the clone flags that make namespaces in which a process has all
// capabilities.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID

// assemble makes the filter. With reads, openings for reading are passed on as well.
func assemble(reads bool) []unix.SockFilter {
	var p assembler
	p.load(4) // the architecture
	for _, a := range architectures() {
		block := a.block(reads)
		p.stmt(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, a.audit, 1, 0)
		p.stmt(unix.BPF_JMP|unix.BPF_JA, uint32(len(block)), 0, 0)
		p.list = append(p.list, block...)
	}
	p.ret(retErrno | uint32(unix.ENOSYS))
	return p.list
}

// architecture is a table of system calls by number.
type architecture struct {
	audit uint32 // AUDIT_ARCH_*
	word  int    // bytes of a pointer
	calls map[int]call
	order []int // of calls, so that the filter is the same every time
	clone int
	above uint32 // numbers from here on do not exist; 0 without
}

func (a *architecture) block(reads bool) []unix.SockFilter {
	var p assembler
	p.load(0) // the number
	if a.above != 0 {
		p.stmt(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, a.above, 0, 1)
		p.ret(retErrno | uint32(unix.ENOSYS))
	}
	for _, nr := range a.order {
		c := a.calls[nr]
		switch {
		case c.op == opAbsent:
			p.match(nr, ret(retErrno|uint32(unix.ENOSYS)))
		case c.op == opOpen && !reads:
			p.match(nr, load(16+8*c.flags), jset(writeFlags, 0, 1), ret(retNotify), ret(retAllow))
		case c.op == opLimit:
			p.match(nr, load(16+8*c.pid), jeq(0, 0, 1), ret(retAllow), ret(retNotify))
		case c.op == opOwner:
			p.match(nr, ownerBody()...)
		default:
			p.match(nr, ret(retNotify))
		}
	}
	p.match(a.clone, load(16), jset(namespaces, 0, 1), ret(retErrno|uint32(unix.EPERM)), ret(retAllow))
	p.ret(retAllow)
	return p.list
}

// Commands of fcntl(2) and ioctl(2) that say who gets the signals of a descriptor.
var ownerCommands = []uint32{unix.F_SETOWN, 10 /* F_SETSIG */, 15 /* F_SETOWN_EX */, 0x8901 /* FIOSETOWN */, 0x8902 /* SIOCSPGRP */}

// ownerBody passes these commands on.
func ownerBody() []unix.SockFilter {
	body := []unix.SockFilter{load(16 + 8*1)}
	for i, command := range ownerCommands {
		body = append(body, jeq(command, uint8(len(ownerCommands)-i), 0))
	}
	return append(body, ret(retAllow), ret(retNotify))
}

type assembler struct{ list []unix.SockFilter }

func (p *assembler) stmt(code uint16, k uint32, jt, jf uint8) {
	p.list = append(p.list, unix.SockFilter{Code: code, K: k, Jt: jt, Jf: jf})
}

func (p *assembler) load(offset int) { p.list = append(p.list, load(offset)) }
func (p *assembler) ret(v uint32)    { p.list = append(p.list, ret(v)) }

// match runs body, which ends by returning, if the loaded number is nr.
func (p *assembler) match(nr int, body ...unix.SockFilter) {
	p.list = append(p.list, jeq(uint32(nr), 0, uint8(len(body))))
	p.list = append(p.list, body...)
}

func load(offset int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(offset)}
}

func ret(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }

func jeq(k uint32, jt, jf uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: jt, Jf: jf}
}

func jset(k uint32, jt, jf uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: k, Jt: jt, Jf: jf}
}

// install puts the filter over the calling thread and returns the listener.
func install(reads bool) (listener int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("set no_new_privs: %w", err)
	}
	list := assemble(reads)
	prog := unix.SockFprog{Len: uint16(len(list)), Filter: &list[0]}
	// With the second flag, since Linux 5.19, signals don't interrupt a call that the
	// supervisor has received.
	fd, _, errno := uintptr(0), uintptr(0), unix.EINVAL
	for _, flags := range []uintptr{unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER} {
		if errno == unix.EINVAL {
			fd, _, errno = unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
		}
	}
	runtime.KeepAlive(list)
	if errno != 0 {
		return -1, fmt.Errorf("install a seccomp filter with a listener: %w", errno)
	}
	return int(fd), nil
}

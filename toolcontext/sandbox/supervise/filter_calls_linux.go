//go:build amd64 || arm64

package supervise

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// numbers are the numbers that one architecture gives to system calls; 0 where it has
// none of that name. No system call of the list has the number 0 on any of them.
type numbers struct {
	open, creat, unlink, rmdir, mkdir, mknod, rename, link, symlink, truncate, truncate64         int
	openat, openat2, unlinkat, mkdirat, mknodat, renameat, renameat2, linkat, symlinkat           int
	execve, execveat, bind, socketcall, fcntl, fcntl64, ioctl                                     int
	kill, tkill, tgkill, sigqueue, tgsigqueue, pidfdSignal                                        int
	ptrace, vmRead, vmWrite, pidfdGetfd, prlimit                                                  int
	mount, umount, moveMount, openTree, fsopen, fsmount, pivotRoot, unshare, setns, clone, clone3 int
	ioUringSetup, ioUringEnter, ioUringRegister, openByHandle, processMadvise, mountSetattr       int
}

// table describes the system calls that a policy is concerned with.
func (n numbers) table() map[int]call {
	calls := map[int]call{
		n.open:     pathCall(opOpen, -1, 0, 1),
		n.openat:   pathCall(opOpen, 0, 1, 2),
		n.openat2:  pathCall(opOpenHow, 0, 1, 2),
		n.creat:    pathCall(opCreate, -1, 0, -1),
		n.truncate: pathCall(opCreate, -1, 0, -1), n.truncate64: pathCall(opCreate, -1, 0, -1),
		n.mkdir: pathCall(opMake, -1, 0, -1), n.mknod: pathCall(opMake, -1, 0, -1),
		n.mkdirat: pathCall(opMake, 0, 1, -1), n.mknodat: pathCall(opMake, 0, 1, -1),
		n.symlink: pathCall(opMake, -1, 1, -1), n.symlinkat: pathCall(opMake, 1, 2, -1),
		n.unlink: pathCall(opRemove, -1, 0, -1), n.rmdir: pathCall(opRemove, -1, 0, -1),
		n.unlinkat: pathCall(opRemove, 0, 1, -1),
		n.rename:   pairCall(opRename, -1, 0, -1, 1, -1),
		n.renameat: pairCall(opRename, 0, 1, 2, 3, -1), n.renameat2: pairCall(opRename, 0, 1, 2, 3, 4),
		n.link: pairCall(opLink, -1, 0, -1, 1, -1), n.linkat: pairCall(opLink, 0, 1, 2, 3, 4),
		n.fcntl: pidCall(opOwner, -1, -1), n.fcntl64: pidCall(opOwner, -1, -1), n.ioctl: pidCall(opOwner, -1, -1),
		n.bind: pathCall(opBind, -1, -1, -1), n.socketcall: pathCall(opSocketCall, -1, -1, -1),
		n.execve: execCall(-1, 0, 1, -1), n.execveat: execCall(0, 1, 2, 4),
		n.kill: pidCall(opKill, 0, 1), n.tkill: pidCall(opKill, 0, 1), n.tgkill: pidCall(opKill, 0, 2),
		n.sigqueue: pidCall(opKill, 0, 1), n.tgsigqueue: pidCall(opKill, 0, 2), n.pidfdSignal: pidCall(opKillFD, 0, 1),
		n.ptrace: pidCall(opTrace, 1, -1), n.vmRead: pidCall(opTrace, 0, -1), n.vmWrite: pidCall(opTrace, 0, -1),
		n.prlimit: pidCall(opLimit, 0, -1),
	}
	for _, nr := range []int{n.pidfdGetfd, n.mount, n.umount, n.moveMount, n.openTree, n.fsopen, n.fsmount, n.pivotRoot, n.unshare, n.setns, n.openByHandle, n.processMadvise, n.mountSetattr} {
		calls[nr] = pidCall(opRefuse, -1, -1)
	}
	// The flags of clone3 and the requests of io_uring are in memory that the program can
	// change at any time. Programs go on without both.
	for _, nr := range []int{n.clone3, n.ioUringSetup, n.ioUringEnter, n.ioUringRegister} {
		calls[nr] = pidCall(opAbsent, -1, -1)
	}
	delete(calls, 0)
	return calls
}

func (n numbers) architecture(audit uint32, word int, above uint32) architecture {
	calls := n.table()
	return architecture{audit: audit, word: word, calls: calls, order: slices.Sorted(maps.Keys(calls)), clone: n.clone, above: above}
}

// newer fills in the numbers that are the same on every architecture.
func (n numbers) newer() numbers {
	n.pidfdSignal, n.ioUringSetup, n.ioUringEnter, n.ioUringRegister = 424, 425, 426, 427
	n.openTree, n.moveMount, n.fsopen, n.fsmount = 428, 429, 430, 432
	n.clone3, n.openat2, n.pidfdGetfd, n.processMadvise, n.mountSetattr = 435, 437, 438, 440, 442
	return n
}

// native are the numbers of this program's own architecture.
func native() numbers {
	return numbers{
		openat: unix.SYS_OPENAT, unlinkat: unix.SYS_UNLINKAT, mkdirat: unix.SYS_MKDIRAT, mknodat: unix.SYS_MKNODAT,
		renameat: unix.SYS_RENAMEAT, renameat2: unix.SYS_RENAMEAT2, linkat: unix.SYS_LINKAT, symlinkat: unix.SYS_SYMLINKAT, truncate: unix.SYS_TRUNCATE,
		execve: unix.SYS_EXECVE, execveat: unix.SYS_EXECVEAT, bind: unix.SYS_BIND, fcntl: unix.SYS_FCNTL, ioctl: unix.SYS_IOCTL,
		kill: unix.SYS_KILL, tkill: unix.SYS_TKILL, tgkill: unix.SYS_TGKILL, sigqueue: unix.SYS_RT_SIGQUEUEINFO, tgsigqueue: unix.SYS_RT_TGSIGQUEUEINFO,
		ptrace: unix.SYS_PTRACE, vmRead: unix.SYS_PROCESS_VM_READV, vmWrite: unix.SYS_PROCESS_VM_WRITEV, prlimit: unix.SYS_PRLIMIT64,
		mount: unix.SYS_MOUNT, umount: unix.SYS_UMOUNT2, pivotRoot: unix.SYS_PIVOT_ROOT, unshare: unix.SYS_UNSHARE, setns: unix.SYS_SETNS, clone: unix.SYS_CLONE,
		openByHandle: unix.SYS_OPEN_BY_HANDLE_AT,
	}.newer()
}

package supervise

import "golang.org/x/sys/unix"

// architectures lists those whose programs the kernel may run. The x32 variant, whose
// numbers have bit 30 set, is left out.
func architectures() []architecture {
	n := native()
	n.open, n.creat, n.unlink, n.rmdir, n.mkdir, n.mknod = unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_UNLINK, unix.SYS_RMDIR, unix.SYS_MKDIR, unix.SYS_MKNOD
	n.rename, n.link, n.symlink = unix.SYS_RENAME, unix.SYS_LINK, unix.SYS_SYMLINK
	old := numbers{ // arch/x86/entry/syscalls/syscall_32.tbl
		open: 5, creat: 8, link: 9, unlink: 10, execve: 11, mknod: 14, mount: 21, ptrace: 26, kill: 37, rename: 38, mkdir: 39, rmdir: 40,
		umount: 52, symlink: 83, truncate: 92, clone: 120, sigqueue: 178, truncate64: 193, pivotRoot: 217, tkill: 238, tgkill: 270,
		openat: 295, mkdirat: 296, mknodat: 297, unlinkat: 301, renameat: 302, linkat: 303, symlinkat: 304, unshare: 310,
		tgsigqueue: 335, prlimit: 340, openByHandle: 342, setns: 346, vmRead: 347, vmWrite: 348, renameat2: 353, execveat: 358, bind: 361, socketcall: 102, fcntl: 55, fcntl64: 221, ioctl: 54,
	}.newer()
	return []architecture{n.architecture(unix.AUDIT_ARCH_X86_64, 8, 1<<30), old.architecture(unix.AUDIT_ARCH_I386, 4, 0)}
}

package supervise

import "golang.org/x/sys/unix"

// architectures lists those whose programs the kernel may run. 32-bit programs are left
// out: their system calls fail.
func architectures() []architecture {
	return []architecture{native().architecture(unix.AUDIT_ARCH_AARCH64, 8, 0)}
}

//go:build unix

package convert

import "golang.org/x/sys/unix"

// alive says whether a process of this machine lives.
func alive(pid int) bool { return pid > 0 && unix.Kill(pid, 0) != unix.ESRCH }

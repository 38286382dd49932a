//go:build unix

package reward

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the process the leader of a group of its own, so that all it starts can be ended with it and a Ctrl-C on the
// terminal does not reach it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the process and what it started.
func killGroup(cmd *exec.Cmd) {
	// An error means that nothing is left to kill.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

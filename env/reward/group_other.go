//go:build !unix

package reward

import "os/exec"

func ownGroup(*exec.Cmd) {}

// killGroup kills the process; this system has no groups to kill with it.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

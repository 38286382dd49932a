// Package supervise runs a command under a supervisor of its system calls, on Linux.
//
// A launcher (Launch) installs a seccomp filter and then becomes the command. The filter
// passes system calls that open files for writing, rename or remove them, start programs,
// send signals, trace processes or change their limits to the supervisor (Start), which
// refuses what sandbox.Policy does not allow. All other system calls run at full speed.
//
// The supervisor tells processes apart by the programs they ran: the command's script,
// the programs it runs, and everything else. It never changes what a trusted process does.
//
// A refused system call is decided by the path it names. A program with several threads
// can change that path between the decision and the call. So a caller that needs
// certainty about a file also watches the file.
package supervise

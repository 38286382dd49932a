// Package singularity runs each rollout in an instance of its own, through the
// command line of Apptainer or SingularityCE, as clusters have it where no
// container engine may run.
//
// The harness's static binary is bind-mounted read-only and serves commands over the
// standard input and output of one "exec" in the instance. Home and temporary
// directory of a rollout are directories of this machine, made for it and removed
// with it; the rest of the image is writable in memory.
//
// An instance sees no other file of the user's and nothing of the harness's
// environment. The package stops only instances whose names say that their owner,
// a process of this machine, is dead.
package singularity

// Package ssh runs each rollout in a directory tree of its own on another machine,
// reached over SSH with host keys checked.
//
// The harness's static binary is uploaded once per version; one session per rollout
// runs it there, and it serves commands and files over that session's stream. Many
// rollouts share a connection, as many as the server lets them.
//
// The trees separate rollouts from each other's files, not from the rest of the
// machine: commands have all the rights of the account. Never point it at an account
// that matters. The package never accepts a host key that is not known, reads no
// ssh_config, and removes only trees that it made.
package ssh

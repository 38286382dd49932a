// Package docker runs each rollout in a container of its own, through the Engine
// API of Docker or a compatible engine (podman's socket).
//
// Commands do not go through "docker exec": the harness's own static binary is the
// container's first process, mounted read-only, and serves commands and files over
// the one stream attached to it. Where that can't be done, commands go through the
// engine's exec call, which is slower and needs a shell in the image.
//
// A container gets no file of the host but that binary, nothing of the harness's
// environment, few capabilities and bounded processes, memory and open files. It
// carries labels that say whose it is; the package never touches a container that
// lacks them, or whose owner lives.
package docker

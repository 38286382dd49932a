// Package atropos is the Atropos wire protocol without its transport: the
// messages between workers, trainer and server, the form of a group on the wire,
// and the server's state with its rules of batching.
//
// The state is a plain value that changes only by events, so that a server can
// write each event down before it answers and replay them after a crash. The
// package never opens a socket or a file and never looks at the clock: package
// server does the first two and tells the state the time.
package atropos

// Package inside runs a sandbox's commands from within: Serve is the server that
// the static binary becomes inside a container or on another machine, Dial and
// Client are the harness's side of the one stream between them.
//
// Commands are run by package local, so they mean the same as everywhere: the
// server only adds the protocol, many requests over one stream with flow control
// for each. Output is capped where it is produced. The server needs nothing of the
// image; only scripts need a shell. Either side takes every length and every name
// the other sends for hostile, and no command can reach the stream.
//
// The package creates and removes nothing: that is the backend's part.
package inside

// Package procguard hides what this process holds from other processes of its user.
//
// Commands of agents in local sandboxes run as the user of the harness, and /proc shows
// every process of that user: its environment, arguments, memory, files and directory.
// The package protects this process only: not its ancestors, not files. Root can read
// the memory of any process whatever it does.
package procguard

import (
	"os"
	"strings"
)

// Protect makes this process unreadable for others and erases its secrets from what the
// kernel shows of it: the environment it was started with, and the values of arguments
// whose flag is secret. os.Environ and os.Args stay as they were. It must be called
// before anything else uses os.Args, in main. On systems other than Linux it does nothing.
func Protect(secret func(flag string) bool) error { return protect(secret) }

// ReadableByRoot reports whether commands of this process would run as root with the
// right to read the memory of any process, this one's included.
func ReadableByRoot() bool { return readableByRoot() }

// secretParts returns the parts of arguments that hold the values of secret flags, given
// as --flag=value or as --flag value. The parts share the memory of the arguments.
func secretParts(args []string, secret func(flag string) bool) []string {
	var parts []string
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		if flag := strings.TrimLeft(name, "-"); flag == name || !secret(flag) {
			continue
		}
		if !joined && i+1 < len(args) {
			i++
			value = args[i]
		}
		if value != "" {
			parts = append(parts, value)
		}
	}
	return parts
}

// cloneArguments gives os.Args memory of its own.
func cloneArguments() (original []string) {
	original = os.Args
	os.Args = make([]string, len(original))
	for i, a := range original {
		os.Args[i] = strings.Clone(a)
	}
	return original
}

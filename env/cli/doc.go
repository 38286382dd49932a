// Package cli is the command line of hermes-env and of every program that brings
// environments of its own: Main takes definitions of environments and gives them
// all commands.
//
// It reads flags and files, starts what a run needs, shows progress and turns the
// way a run ended into an exit code. What happens inside a run is env's business.
package cli

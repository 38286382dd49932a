// Package filelock takes locks on open files that the kernel gives back when their
// owner dies, however it dies.
//
// It tells apart a lock that somebody else holds and a place that has no locks;
// what to do about either is the caller's to decide. It never waits, never removes a
// file, and writes nothing into one.
package filelock

import "errors"

var (
	// ErrHeld: another process, or another open file of this one, has the lock.
	ErrHeld = errors.New("the lock is held")
	// ErrUnsupported: the operating system or the file system has no such locks.
	ErrUnsupported = errors.New("there are no file locks here")
)

package sandbox

import "errors"

// ErrClosed is returned by every method of a sandbox after Close.
var ErrClosed = errors.New("sandbox is closed")

// ErrUnsupported is wrapped by Create when a Spec asks for what the backend can't do.
var ErrUnsupported = errors.New("not supported by this sandbox backend")

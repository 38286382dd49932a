package sandbox

import "errors"

// ErrClosed is returned by every method of a sandbox after Close, and by calls
// that Close interrupts.
var ErrClosed = errors.New("sandbox is closed")

// ErrUnsupported is wrapped by Create when a Spec asks for what the backend can't do.
var ErrUnsupported = errors.New("not supported by this sandbox backend")

// ErrEndedInside is wrapped, with ErrLost, where what ran in the sandbox has ended it, or
// its server: that is no failure of the machine, and another try need not be better.
var ErrEndedInside = errors.New("the sandbox was ended by what ran in it")

// ErrRestarted is wrapped by transfers that the end of a Restarter broke off: the
// sandbox is usable again, and what was under way may be there in part.
var ErrRestarted = errors.New("sandbox was started again meanwhile")

// ErrInvalidCommand is wrapped by Exec when the Command contradicts itself or
// can't be started on any system: the caller's mistake, the sandbox is well.
var ErrInvalidCommand = errors.New("invalid command")

// ErrUnsafeArchive is wrapped by Upload and ExtractTar for an entry that would
// land outside the target directory, is neither file, directory nor link, or breaks a limit.
var ErrUnsafeArchive = errors.New("unsafe archive")

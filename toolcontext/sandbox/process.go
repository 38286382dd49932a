package sandbox

import (
	"context"
	"errors"
)

// ErrLost is wrapped by every call on a sandbox that is gone without having been
// closed: its machine, container or in-sandbox server has ended or can't be reached.
var ErrLost = errors.New("sandbox is lost")

// ErrEnded is wrapped by Process methods that need a running process.
var ErrEnded = errors.New("process has ended")

// Starter is implemented by sandboxes that can run a command in the background.
type Starter interface {
	// Start runs a command without waiting for its end. ctx bounds the start only; the
	// process ends by itself, by Command.Timeout, by Process.Kill, or by KillAll or
	// Close of the sandbox. A program that can't be started is a Process that has ended
	// with the exit code Exec would give. A nil Stdin means that input comes from
	// Process.Write; Session is refused.
	Start(ctx context.Context, c Command) (Process, error)
}

// Process is a command running in the background. Its methods may be called from
// many goroutines at once, also after its end.
type Process interface {
	// PID is the process id inside the sandbox; 0 when it could not be started.
	PID() int
	// Poll returns what is known now: the output kept so far and, once running is
	// false, how the command ended. It takes nothing away.
	Poll(ctx context.Context) (r Result, running bool, err error)
	// Write hands input to the command, in order. It waits while much of what was
	// written is unread, and says how much was taken. After the end, and after
	// CloseInput, it wraps ErrEnded.
	Write(ctx context.Context, p []byte) (int, error)
	// CloseInput ends the command's input when all that was written is read.
	CloseInput(ctx context.Context) error
	// Kill ends the command with all its descendants, and returns when they are gone.
	// The Result is then Cancelled. A process that has ended is left alone.
	Kill(ctx context.Context) error
	// Wait returns how the command ended. When ctx ends first it is ctx's error, and
	// the command runs on.
	Wait(ctx context.Context) (Result, error)
}

// Terminal is the size of a pseudo terminal in characters.
type Terminal struct {
	Rows, Cols uint16 // 0 means 30 rows, 120 columns
}

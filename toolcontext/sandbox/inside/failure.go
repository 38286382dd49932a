package inside

import (
	"context"
	"errors"
	"io/fs"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// failureKinds are the errors that keep their identity over the stream; a
// failure's kind is the index here. Only append: the order is the protocol.
var failureKinds = [...]error{
	0: nil, // anything else
	1: sandbox.ErrClosed,
	2: sandbox.ErrInvalidCommand,
	3: sandbox.ErrUnsafeArchive,
	4: fs.ErrNotExist,
	5: fs.ErrPermission,
	6: sandbox.ErrEnded,
	7: sandbox.ErrUnsupported,
	8: context.Canceled,
	9: sandbox.ErrEndedInside,
}

// failure is an error that came over the stream.
type failure struct {
	text string
	is   error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.is }

// encodeFailure makes a frame's payload of an error.
func encodeFailure(err error) []byte {
	var e encoder
	kind := 0
	for i, known := range failureKinds {
		if known != nil && errors.Is(err, known) {
			kind = i
			break
		}
	}
	text := err.Error()
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	e.uint(uint64(kind))
	e.string(text)
	return e.b
}

// decodeFailure never fails: what can't be read is a failure of its own.
func decodeFailure(payload []byte) error {
	d := decoder{b: payload}
	kind, text := d.uint(), d.raw()
	if err := d.end(); err != nil {
		return err
	}
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	f := &failure{text: string(text)}
	if kind < uint64(len(failureKinds)) {
		f.is = failureKinds[kind]
	}
	return f
}

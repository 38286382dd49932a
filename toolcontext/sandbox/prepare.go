package sandbox

import "context"

// Preparer is what a Provider also is when what sandboxes are made from (an image)
// has to be fetched or built first. Its methods may be called from many goroutines.
type Preparer interface {
	// Prepare gets what sandboxes of a spec are made from, and returns when it is
	// there. Create does the same, so that calling it is never necessary: it is for the
	// items that come next, while others run. Calls for the same thing share one effort;
	// it ends early only when the ctx of all of them have ended.
	Prepare(ctx context.Context, spec Spec) error
	// Retain keeps what sandboxes of a spec are made from until release is called, once
	// for each attempt that is still to come. Without it that may be removed, when space
	// runs out, as soon as no sandbox uses it. release may be called from anywhere and
	// does nothing the second time.
	Retain(spec Spec) (release func())
}

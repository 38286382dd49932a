package sandbox

import (
	"context"
	"io"
	"io/fs"
)

// What some sandboxes can do beyond Sandbox, found by type assertion. Each may also
// answer with ErrUnsupported, where the one behind it can't.

// Cleaner removes and makes directories without running anything of the sandbox's own, so
// that what an agent has replaced there has no say in it.
type Cleaner interface {
	// Clean makes path, which is absolute, an empty directory of that mode. What is there
	// is removed, links are not followed, and a link or file in the place of a directory
	// above it is replaced by a directory.
	Clean(ctx context.Context, path string, mode fs.FileMode) error
	// Remove removes path, which is absolute, with all below it; links are not followed.
	// One that is not there is no error.
	Remove(ctx context.Context, path string) error
}

// UserSwitcher lets other users into the same sandbox.
type UserSwitcher interface {
	// As returns a second way into the sandbox, for commands and transfers of another
	// user: a name or id, or "" for the image's own. It has the environment of the image
	// and the Spec. Closing it ends what was started through it; it ends with the sandbox.
	As(ctx context.Context, user string) (Sandbox, error)
}

// ChangeKind says how a path differs from the sandbox's image.
type ChangeKind string

// The ways a path can differ.
const (
	Added    ChangeKind = "added"
	Modified ChangeKind = "modified"
	Deleted  ChangeKind = "deleted"
)

// Change is a path that differs from the sandbox's image.
type Change struct {
	Path string     `json:"path"`
	Kind ChangeKind `json:"kind"`
}

// Changer knows what differs from the image a sandbox was made from.
type Changer interface {
	// Changes lists the differing paths, those in a directory after it.
	Changes(ctx context.Context) ([]Change, error)
	// Export writes changed paths as a tar stream with names relative to the root, with
	// owners and modes: files and links with their content, directories by themselves.
	Export(ctx context.Context, paths []Change, w io.Writer) error
	// Import unpacks what Export wrote below the root, with owners and modes, without
	// running anything of the sandbox's own.
	Import(ctx context.Context, tar io.Reader) error
}

// Snapshotter makes images of sandboxes.
type Snapshotter interface {
	// Snapshot makes an image of the sandbox's files as they are, for Spec.Image; no
	// process, mount or variable of the sandbox is in it. release removes the image, once
	// no sandbox uses it.
	Snapshot(ctx context.Context) (image string, release func(context.Context) error, err error)
}

// VolumeHolder has directories whose content belongs to no image: it is neither among
// the Changes of a sandbox nor in a Snapshot of it.
type VolumeHolder interface {
	// Volumes returns those that commands may write to, as absolute paths.
	Volumes(ctx context.Context) ([]string, error)
}

// DiskMeter knows how much a sandbox has written.
type DiskMeter interface {
	// Written returns the bytes of what differs from the image.
	Written(ctx context.Context) (int64, error)
}

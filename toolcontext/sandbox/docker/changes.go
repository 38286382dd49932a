package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

var (
	_ sandbox.Changer     = (*Sandbox)(nil)
	_ sandbox.Snapshotter = (*Sandbox)(nil)
	_ sandbox.DiskMeter   = (*Sandbox)(nil)

	_ sandbox.VolumeHolder = (*Sandbox)(nil)
)

// notTheAgents are what differs from the image in every container: the server, its
// scratch files, and what the engine puts there.
var notTheAgents = []string{binaryPath, "/proc", "/sys", "/dev", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/.dockerenv"}

func ownChange(name string) bool {
	for _, own := range notTheAgents {
		if name == own || strings.HasPrefix(name, own+"/") {
			return true
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".hermes-env-") {
			return true
		}
	}
	return false
}

// Changes lists what differs from the image; see sandbox.Changer.
func (s *box) Changes(ctx context.Context) ([]sandbox.Change, error) {
	list, err := s.provider.engine.changes(ctx, s.container)
	if err != nil {
		return nil, fmt.Errorf("list the changes of container %s: %w", s.info.ID, err)
	}
	list = slices.DeleteFunc(list, func(c sandbox.Change) bool { return ownChange(c.Path) })
	slices.SortFunc(list, func(a, b sandbox.Change) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// Export writes changed paths as a tar stream; see sandbox.Changer. A directory that
// is new is written with all that is in it, which is one call of the engine.
func (s *box) Export(ctx context.Context, paths []sandbox.Change, w io.Writer) error {
	out := tar.NewWriter(w)
	wanted := make(map[string]bool, len(paths))
	for _, c := range paths {
		wanted[c.Path] = c.Kind != sandbox.Deleted
	}
	done := make(map[string]bool)
	for _, c := range paths {
		if c.Kind == sandbox.Deleted || done[c.Path] {
			continue
		}
		if err := s.exportPath(ctx, c, wanted, done, out); err != nil {
			return fmt.Errorf("export %s: %w", c.Path, err)
		}
	}
	return out.Close()
}

// exportPath writes one path; of a directory that was there before only itself.
func (s *box) exportPath(ctx context.Context, c sandbox.Change, wanted, done map[string]bool, out *tar.Writer) error {
	stream, _, err := s.provider.engine.copyOut(ctx, s.container, c.Path)
	if errors.Is(err, fs.ErrNotExist) || err != nil && strings.Contains(err.Error(), "too many links") {
		return nil // removed since it was listed; or a link that leads to itself, which no program can follow
	}
	if err != nil {
		return err
	}
	defer stream.Close()
	in := tar.NewReader(stream)
	parent := path.Dir(c.Path)
	for first := true; ; first = false {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := path.Join(parent, h.Name)
		if first {
			at = c.Path // the archive of a link may be named after what it leads to
		}
		if !wanted[at] || done[at] {
			continue // what is in a new directory is listed as new as well
		}
		done[at] = true
		whole := *h
		whole.Name = strings.TrimPrefix(at, "/")
		if h.Typeflag == tar.TypeDir {
			whole.Name += "/"
		}
		if h.Typeflag == tar.TypeLink {
			whole.Linkname = strings.TrimPrefix(path.Join(parent, h.Linkname), "/")
		}
		if err := out.WriteHeader(&whole); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
		if first && h.Typeflag == tar.TypeDir && c.Kind == sandbox.Modified {
			return nil
		}
	}
}

// Import unpacks what Export wrote; see sandbox.Changer.
func (s *box) Import(ctx context.Context, tar io.Reader) error {
	if err := s.provider.engine.copyInAll(ctx, s.container, tar); err != nil {
		return fmt.Errorf("import files into container %s: %w", s.info.ID, err)
	}
	return nil
}

// labelSnapshot marks images that Snapshot makes, which Reap removes with their owner.
const labelSnapshot = "hermes-env.snapshot"

// Snapshot makes an image of the container's files; see sandbox.Snapshotter. It has
// the environment, user and directory of the container's own image.
func (s *box) Snapshot(ctx context.Context) (string, func(context.Context) error, error) {
	e := s.provider.engine
	user, err := e.imageUser(ctx, s.container)
	if err != nil {
		return "", nil, fmt.Errorf("ask for the image's user: %w", err)
	}
	if user == "" {
		user = "root"
	}
	id, err := e.commit(ctx, s.container, []string{"USER " + user, "ENTRYPOINT []", "LABEL " + labelSnapshot + "=1"})
	if err != nil {
		return "", nil, fmt.Errorf("make an image of container %s: %w", s.info.ID, err)
	}
	return id, func(ctx context.Context) error {
		if err := e.removeImage(ctx, id); err != nil {
			return fmt.Errorf("remove the image made of container %s: %w", s.info.ID, err)
		}
		return nil
	}, nil
}

// Written returns the size of what differs from the image; see sandbox.DiskMeter.
func (s *box) Written(ctx context.Context) (int64, error) {
	n, err := s.provider.engine.written(ctx, s.container)
	if err != nil {
		return 0, fmt.Errorf("ask for what container %s has written: %w", s.info.ID, err)
	}
	return n, nil
}

// Clean makes an empty directory; see sandbox.Cleaner.
func (s *box) Clean(ctx context.Context, path string, mode fs.FileMode) error {
	if c, ok := s.driver.(sandbox.Cleaner); ok {
		return c.Clean(ctx, path, mode)
	}
	return fmt.Errorf("clean %s without the server in the container: %w", path, sandbox.ErrUnsupported)
}

// Remove removes a path; see sandbox.Cleaner.
func (s *box) Remove(ctx context.Context, path string) error {
	if c, ok := s.driver.(sandbox.Cleaner); ok {
		return c.Remove(ctx, path)
	}
	return fmt.Errorf("remove %s without the server in the container: %w", path, sandbox.ErrUnsupported)
}

// reapSnapshots removes the images of sandboxes whose owner on this machine is dead.
func (p *Provider) reapSnapshots(ctx context.Context) error {
	found, err := p.engine.listImages(ctx, labelSnapshot+"=1")
	if err != nil {
		return fmt.Errorf("look for abandoned images of sandboxes: %w", err)
	}
	var errs []error
	for _, image := range found {
		if image.Labels[labelPlace] != p.owner.Place || !p.abandoned(image.Labels) {
			continue
		}
		if err := p.engine.removeImage(ctx, image.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove the abandoned image of a sandbox: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Volumes returns where the container has volumes: what VOLUME of its image names, and
// those of a compose file; see sandbox.VolumeHolder.
func (s *box) Volumes(ctx context.Context) ([]string, error) {
	list, err := s.provider.engine.volumes(ctx, s.container)
	if err != nil {
		return nil, fmt.Errorf("ask for the volumes of container %s: %w", s.info.ID, err)
	}
	return list, nil
}

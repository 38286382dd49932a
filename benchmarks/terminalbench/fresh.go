package terminalbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// freshBox makes a sandbox from the agent's files for the tests to run in, so that
// nothing but files survives: no process, mount, variable or open file.
func (v *verification) freshBox(ctx context.Context) error {
	var fresh sandbox.Sandbox
	apart, err := v.volumes(ctx)
	if err != nil {
		return err
	}
	if apart != "" {
		return failure(classNoFresh, "the tests have to run in a fresh container, which can't be given what is in %s: the image keeps it in a volume", apart)
	}
	undo := v.toUndo()
	switch {
	case v.where == verifyClean:
		undo = outsideWork(v.task, v.changes)
		fresh, err = v.restored(ctx, undo)
		v.report.LeftOut = leftOut(v.changes, undo)
	case len(undo) > 0:
		fresh, err = v.restored(ctx, undo)
		v.report.Notes = append(v.report.Notes, fmt.Sprintf("%d changes of what the verifier relies on were undone before the tests", len(undo)))
	default:
		fresh, err = v.copied(ctx)
	}
	if err != nil {
		return err
	}
	v.box, v.undone, v.report.In = fresh, undo, v.where
	if v.where == verifySame {
		v.report.In = verifyFresh
	}
	return nil
}

// volumes names the directories that no copy of the agent's files has, "" for none.
func (v *verification) volumes(ctx context.Context) (string, error) {
	holder, ok := v.box.(sandbox.VolumeHolder)
	if !ok {
		return "", nil
	}
	list, err := holder.Volumes(ctx)
	if err != nil {
		return "", infra("ask for the sandbox's volumes", err)
	}
	return strings.Join(list, ", "), nil
}

// copied makes a sandbox with all files as the agent left them.
func (v *verification) copied(ctx context.Context) (sandbox.Sandbox, error) {
	s, ok := v.box.(sandbox.Snapshotter)
	if !ok {
		return nil, v.noFresh(sandbox.ErrUnsupported)
	}
	image, release, err := s.Snapshot(ctx)
	if errors.Is(err, sandbox.ErrUnsupported) {
		return nil, v.noFresh(err)
	}
	if err != nil {
		return nil, infra("make an image of the agent's files", err)
	}
	v.closers = append(v.closers, release)
	box, err := v.boxOf(ctx, image)
	if err != nil {
		return nil, err
	}
	v.closers = append(v.closers, box.Close)
	return box, nil
}

// boxOf makes a sandbox of an image of the agent's files.
func (v *verification) boxOf(ctx context.Context, image string) (sandbox.Sandbox, error) {
	return v.tc.Another(ctx, func(s *sandbox.Spec) {
		s.Image, s.Build, s.BuildOptions, s.Compose, s.Healthcheck = image, "", sandbox.BuildOptions{}, nil, nil
		s.Network, s.AllowedHosts = v.task.verifierNetwork(v.part, s.Network, s.AllowedHosts)
	})
}

// restored makes a sandbox from the task's own image with the agent's changes, but
// for those to undo.
func (v *verification) restored(ctx context.Context, undo map[string]bool) (sandbox.Sandbox, error) {
	wanted := slices.DeleteFunc(slices.Clone(v.changes), func(c sandbox.Change) bool { return undo[c.Path] })
	from := v.box.(sandbox.Changer) // inspect has asked it
	box, err := v.tc.Another(ctx, func(s *sandbox.Spec) {
		s.Healthcheck = nil
		s.Network, s.AllowedHosts = v.task.verifierNetwork(v.part, s.Network, s.AllowedHosts)
	})
	if err != nil {
		return nil, err
	}
	v.closers = append(v.closers, box.Close)
	r, w := io.Pipe()
	exported := make(chan error, 1)
	go func() {
		err := from.Export(ctx, wanted, w)
		_ = w.CloseWithError(err) // nil means end of file
		exported <- err
	}()
	err = applyChanges(ctx, box, wanted, r)
	_ = r.CloseWithError(errStopped)
	if own := <-exported; own != nil && !errors.Is(own, errStopped) {
		return nil, infra("read the agent's files", own)
	}
	if err != nil {
		return nil, infra("put the agent's files into a fresh sandbox", err)
	}
	return box, nil
}

// applyChanges makes a fresh sandbox's files those of another: first what was
// deleted goes, then content comes.
func applyChanges(ctx context.Context, box sandbox.Sandbox, changes []sandbox.Change, content io.Reader) error {
	changer, ok := box.(sandbox.Changer)
	if !ok {
		return fmt.Errorf("the %s backend: %w", box.Info().Backend, sandbox.ErrUnsupported)
	}
	cleaner := box
	if !canClean(ctx, box) {
		root, err := openAs(ctx, box, "0")
		if err != nil {
			return err
		}
		defer func() { _ = root.Close(ctx) }() // it goes with its sandbox
		cleaner = root
	}
	for _, c := range changes {
		if c.Kind != sandbox.Deleted {
			continue
		}
		remover, ok := cleaner.(sandbox.Cleaner)
		if !ok {
			return fmt.Errorf("the %s backend: %w", box.Info().Backend, sandbox.ErrUnsupported)
		}
		if err := remover.Remove(ctx, c.Path); err != nil {
			return fmt.Errorf("remove %s: %w", c.Path, err)
		}
	}
	return changer.Import(ctx, content)
}

func (v *verification) noFresh(err error) error {
	return infra("verify in a fresh sandbox", fmt.Errorf("the %s backend: %w; set env.verify_in to same", v.box.Info().Backend, err))
}

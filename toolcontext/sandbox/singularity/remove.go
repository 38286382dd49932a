package singularity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hermes-env/hermes-env/internal/owner"
)

// remove stops an instance and removes its directory, also when ctx has ended.
func (p *Provider) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), p.config.CloseLimit, fmt.Errorf("it took longer than %v", p.config.CloseLimit))
	defer cancel()
	if _, err := p.run(ctx, "instance", "stop", "--force", name); err != nil {
		// One that never was or has ended can't be stopped, which is fine.
		running, listErr := p.instances(ctx)
		if listErr != nil || slices.Contains(running, name) {
			return fmt.Errorf("stop the instance %s: %w; stop it by hand (%s instance stop %s) or later with hermes-env cleanup", name, errors.Join(err, listErr), filepath.Base(p.config.Command), name)
		}
	}
	if err := removeTree(filepath.Join(p.config.BaseDir, name)); err != nil {
		return fmt.Errorf("remove the directory of the instance %s: %w", name, err)
	}
	return nil
}

// removeTree removes a directory and all in it, also what has no permissions.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	walk := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return errors.Join(err, walk)
	}
	return nil
}

// Reap stops the instances and removes the directories whose owner is dead.
func (p *Provider) Reap(ctx context.Context) (int, error) {
	names, err := p.left(ctx)
	if err != nil {
		return 0, err
	}
	var (
		reaped int
		errs   []error
	)
	for _, name := range names {
		o, err := owner.ParseName(name)
		if err != nil || o.Alive() {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return reaped, errors.Join(append(errs, err)...)
		}
		if err := p.remove(ctx, name); err != nil {
			errs = append(errs, err)
			continue
		}
		reaped++
	}
	return reaped, errors.Join(errs...)
}

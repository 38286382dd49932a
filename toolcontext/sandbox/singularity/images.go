package singularity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// image returns the file or directory of a spec's image, which is fetched where it
// comes from a registry and is not there yet. A reference is fetched once, by
// one rollout at a time.
func (p *Provider) image(ctx context.Context, spec sandbox.Spec) (path string, err error) {
	ref := p.reference(spec)
	if ref == "" {
		return "", errors.New("neither the item nor the configuration names an image; set env.singularity_image (--env.singularity_image IMAGE)")
	}
	ref, registry := resolve(ref)
	if !registry {
		if _, err := os.Stat(ref); err != nil {
			return "", fmt.Errorf("find the image: %w", err)
		}
		return filepath.Abs(ref)
	}
	path = p.imageFile(ref)
	select {
	case p.fetching <- struct{}{}:
		defer func() { <-p.fetching }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.ImageLimit, fmt.Errorf("it took longer than %v", p.config.ImageLimit))
	defer cancel()
	if err := p.fetch(ctx, ref, path); err != nil {
		return "", fmt.Errorf("fetch the image %s: %w; check the name and the network, or fetch it by hand (%s pull) and name the file", ref, err, filepath.Base(p.config.Command))
	}
	return path, nil
}

// imageFile is where a reference is kept once it is fetched.
func (p *Provider) imageFile(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return filepath.Join(p.config.ImageDir, hex.EncodeToString(sum[:16])+".sif")
}

// reference is the image of a spec as the user names it.
func (p *Provider) reference(spec sandbox.Spec) string {
	if spec.Image != "" {
		return spec.Image
	}
	return p.config.Image
}

// resolve tells files from references. A plain name that is no file is Docker's.
func resolve(ref string) (resolved string, registry bool) {
	if strings.Contains(ref, "://") {
		return ref, true
	}
	if strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, ".") || strings.HasSuffix(ref, ".sif") {
		return ref, false
	}
	if _, err := os.Stat(ref); err == nil {
		return ref, false
	}
	return "docker://" + ref, true
}

// fetch makes a SIF file of a reference. Processes that fetch the same one at once
// do the work twice and no harm.
func (p *Provider) fetch(ctx context.Context, ref, path string) error {
	p.config.Progress(ref, "fetching; this can take minutes")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	part := path + "." + rand.Text() + ".part"
	_, err := p.run(ctx, "pull", "--disable-cache", part, ref)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		if gone := os.Remove(part); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		return err
	}
	p.config.Progress(ref, "fetched")
	return nil
}

package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
)

// describe fills what the engine says of itself and of what it can limit.
func (e *engine) describe(ctx context.Context, r *Report) error {
	info, err := e.api.Info(ctx)
	if err != nil {
		return fmt.Errorf("ask the engine what it can do: %w", err)
	}
	version, err := e.api.ServerVersion(ctx)
	if err != nil {
		return fmt.Errorf("ask the engine for its version: %w", err)
	}
	r.Version, r.APIVersion = info.ServerVersion, version.APIVersion
	for _, c := range version.Components {
		r.Podman = r.Podman || strings.HasPrefix(c.Name, "Podman")
	}
	r.OS, r.Arch = info.OSType, goArch(info.Architecture)
	r.StorageDriver, r.BackingFS, r.Root = info.Driver, e.info.Backing, info.DockerRootDir
	r.CgroupVersion, r.CgroupDriver = info.CgroupVersion, info.CgroupDriver
	r.MemoryLimit, r.SwapLimit, r.PIDsLimit, r.CPULimit = info.MemoryLimit, info.SwapLimit, info.PidsLimit, info.CPUCfsQuota
	r.Images = info.Images
	for _, option := range info.SecurityOptions {
		name, _, _ := strings.Cut(strings.TrimPrefix(option, "name="), ",")
		switch name {
		case "seccomp":
			r.Seccomp = !strings.Contains(option, "profile=unconfined")
		case "userns":
			r.UserNamespace = true
		case "rootless":
			r.Rootless = true
		}
	}
	return nil
}

// bridge returns the address ranges of the network that sandboxes share; none where
// the engine has no such network.
func (e *engine) bridge(ctx context.Context) ([]string, error) {
	name, err := e.networkID(ctx)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = defaultBridge // as long as no sandbox needed one; its ranges come from the same pool
	}
	found, err := e.api.NetworkInspect(ctx, name, network.InspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the network %s: %w", name, err)
	}
	var ranges []string
	for _, c := range found.IPAM.Config {
		ranges = append(ranges, c.Subnet)
	}
	return ranges, nil
}

// countImages counts the images with a label.
func (e *engine) countImages(ctx context.Context, label string) (int, error) {
	found, err := e.api.ImageList(ctx, image.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label))})
	if err != nil {
		return 0, fmt.Errorf("look for the images labelled %s: %w", label, err)
	}
	return len(found), nil
}

// importEmpty makes an image without any file and returns its id.
func (e *engine) importEmpty(ctx context.Context, label string) (string, error) {
	var b bytes.Buffer
	if err := tar.NewWriter(&b).Close(); err != nil {
		return "", err
	}
	body, err := e.api.ImageImport(ctx, image.ImportSource{Source: &b, SourceName: "-"}, "", image.ImportOptions{Changes: []string{"LABEL " + label + "=1"}})
	if err != nil {
		return "", err
	}
	defer body.Close()
	id := ""
	for d := json.NewDecoder(body); d.More(); {
		var m jsonMessage
		if err := d.Decode(&m); err != nil {
			return "", fmt.Errorf("read the engine's progress: %w", err)
		}
		if m.Error != "" {
			return "", errors.New(strings.TrimSpace(m.Error))
		}
		if strings.HasPrefix(m.Status, "sha256:") {
			id = m.Status
		}
	}
	if id == "" {
		return "", errors.New("the engine does not say what it made")
	}
	return id, nil
}

// removeImage removes an image and the layers only it has.
func (e *engine) removeImage(ctx context.Context, id string) error {
	_, err := e.api.ImageRemove(ctx, id, image.RemoveOptions{Force: true, PruneChildren: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

package docker

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// changes lists what differs in a container from its image.
func (e *engine) changes(ctx context.Context, id string) ([]sandbox.Change, error) {
	found, err := e.api.ContainerDiff(ctx, id)
	if err != nil {
		return nil, translate(err)
	}
	list := make([]sandbox.Change, len(found))
	for i, c := range found {
		list[i].Path = c.Path
		switch c.Kind {
		case container.ChangeAdd:
			list[i].Kind = sandbox.Added
		case container.ChangeDelete:
			list[i].Kind = sandbox.Deleted
		default:
			list[i].Kind = sandbox.Modified
		}
	}
	return list, nil
}

// imageUser returns the user that a container's image names, "" for root.
func (e *engine) imageUser(ctx context.Context, id string) (string, error) {
	found, err := e.api.ContainerInspect(ctx, id)
	if err != nil {
		return "", translate(err)
	}
	if found.ContainerJSONBase == nil {
		return "", fmt.Errorf("the engine says nothing of container %s", id)
	}
	info, err := e.image(ctx, found.Image)
	return info.User, err
}

// volumes returns where a container has volumes that can be written to.
func (e *engine) volumes(ctx context.Context, id string) ([]string, error) {
	found, err := e.api.ContainerInspect(ctx, id)
	if err != nil {
		return nil, translate(err)
	}
	var list []string
	for _, m := range found.Mounts {
		if m.Type == mount.TypeVolume && m.RW {
			list = append(list, m.Destination)
		}
	}
	slices.Sort(list)
	return list, nil
}

// written returns the bytes of a container's own layer.
func (e *engine) written(ctx context.Context, id string) (int64, error) {
	found, _, err := e.api.ContainerInspectWithRaw(ctx, id, true)
	if err != nil {
		return 0, translate(err)
	}
	if found.ContainerJSONBase == nil || found.SizeRw == nil {
		return 0, fmt.Errorf("the engine does not say how large container %s is", id)
	}
	return *found.SizeRw, nil
}

// commit makes an image of a container's files; instructions are those of a Dockerfile.
func (e *engine) commit(ctx context.Context, id string, instructions []string) (string, error) {
	made, err := e.api.ContainerCommit(ctx, id, container.CommitOptions{Pause: true, Changes: instructions})
	return made.ID, translate(err)
}

// copyInAll unpacks a tar stream below the root with the owners it names; a file may
// take the place of a directory and the other way round.
func (e *engine) copyInAll(ctx context.Context, id string, tar io.Reader) error {
	return translate(e.api.CopyToContainer(ctx, id, "/", tar, container.CopyToContainerOptions{AllowOverwriteDirWithFile: true, CopyUIDGID: false}))
}

package docker

import (
	"context"
	"errors"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
)

// belonging is a network or a volume of a compose project.
type belonging struct {
	ID      string
	Labels  map[string]string
	network bool
}

// belongings returns the networks and volumes that carry a label.
func (e *engine) belongings(ctx context.Context, label string) ([]belonging, error) {
	filter := filters.NewArgs(filters.Arg("label", label))
	var list []belonging
	networks, err := e.api.NetworkList(ctx, network.ListOptions{Filters: filter})
	for _, n := range networks {
		list = append(list, belonging{n.ID, n.Labels, true})
	}
	volumes, volumesErr := e.api.VolumeList(ctx, volume.ListOptions{Filters: filter})
	for _, v := range volumes.Volumes {
		list = append(list, belonging{v.Name, v.Labels, false})
	}
	return list, errors.Join(err, volumesErr)
}

// drop removes a network or a volume; one that is gone is no error.
func (e *engine) drop(ctx context.Context, b belonging) error {
	var err error
	if b.network {
		err = e.api.NetworkRemove(ctx, b.ID)
	} else {
		err = e.api.VolumeRemove(ctx, b.ID, true)
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// health is how a container of a project is: running, healthy or what else, and
// whether that may still change for the better.
type health struct {
	Ready  bool
	Failed bool
	Text   string
}

// health asks how a container is. One that ended well has done its work.
func (e *engine) health(ctx context.Context, id string) (health, error) {
	found, err := e.api.ContainerInspect(ctx, id)
	if err != nil {
		return health{}, translate(err)
	}
	if found.ContainerJSONBase == nil || found.State == nil {
		return health{}, errors.New("the engine says nothing of its state")
	}
	s := found.State
	switch {
	case s.Status == "exited" && s.ExitCode == 0:
		return health{Ready: true, Text: "ended"}, nil
	case s.Status == "exited" || s.Status == "dead":
		return health{Failed: true, Text: describe(state{ExitCode: s.ExitCode, OOMKilled: s.OOMKilled, Error: s.Error}, nil)}, nil
	case !s.Running:
		return health{Text: s.Status}, nil
	case s.Health == nil || s.Health.Status == "none" || s.Health.Status == "healthy":
		return health{Ready: true, Text: "running"}, nil
	case s.Health.Status == "unhealthy":
		text := "it is unhealthy"
		if n := len(s.Health.Log); n > 0 {
			text += ": " + cut(s.Health.Log[n-1].Output)
		}
		return health{Failed: true, Text: text}, nil
	}
	return health{Text: "its health is " + s.Health.Status}, nil
}

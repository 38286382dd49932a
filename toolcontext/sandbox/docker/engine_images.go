package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/api/types/versions"
)

// imageInfo is what matters of an image.
type imageInfo struct {
	ID      string // digest of its configuration
	Digest  string // digest a registry knows it by; ID where it came from none
	Arch    string
	WorkDir string
	User    string
	Env     []string
	Size    int64 // bytes of its layers, those it shares with others included
}

func (e *engine) image(ctx context.Context, ref string) (imageInfo, error) {
	found, err := e.api.ImageInspect(ctx, ref)
	if err != nil {
		if errdefs.IsNotFound(err) {
			err = fmt.Errorf("%w: %w", errNoImage, err)
		}
		return imageInfo{}, err
	}
	info := imageInfo{ID: found.ID, Digest: found.ID, Arch: found.Architecture, Size: found.Size}
	for _, d := range found.RepoDigests {
		if _, digest, ok := strings.Cut(d, "@"); ok {
			info.Digest = digest
			break
		}
	}
	if found.Config != nil {
		info.WorkDir, info.User, info.Env = found.Config.WorkingDir, found.Config.User, found.Config.Env
	}
	return info, nil
}

// pull fetches an image; progress gets each state of each layer.
func (e *engine) pull(ctx context.Context, ref, auth string, progress func(jsonMessage)) error {
	body, err := e.api.ImagePull(ctx, ref, image.PullOptions{RegistryAuth: auth})
	if err != nil {
		return err
	}
	defer body.Close()
	return readMessages(body, progress)
}

// buildRequest is an image to be built.
type buildRequest struct {
	Context    io.Reader // tar stream
	Dockerfile string    // its path in the stream
	Tag        string
	Args       map[string]string
	Target     string
	Labels     map[string]string
	Logins     map[string]login // by registry, for the images it starts from
	NoCache    bool
	BuildKit   bool // with BuildKit instead of the classic builder
}

// build builds a folder into an image.
func (e *engine) build(ctx context.Context, r buildRequest, progress func(jsonMessage)) error {
	o := build.ImageBuildOptions{
		Tags: []string{r.Tag}, Dockerfile: r.Dockerfile, Target: r.Target, Labels: r.Labels, NoCache: r.NoCache,
		Remove: true, ForceRemove: true, Version: build.BuilderV1,
		BuildArgs: make(map[string]*string, len(r.Args)), AuthConfigs: make(map[string]registry.AuthConfig, len(r.Logins)),
	}
	if r.BuildKit {
		o.Version = build.BuilderBuildKit
	}
	for name, value := range r.Args {
		o.BuildArgs[name] = &value
	}
	for name, l := range r.Logins {
		o.AuthConfigs[name] = registry.AuthConfig{Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken, RegistryToken: l.RegistryToken, ServerAddress: l.Server}
	}
	answer, err := e.api.ImageBuild(ctx, r.Context, o)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return readMessages(answer.Body, progress)
}

// hasBuildKit reports whether the engine may have BuildKit; only trying tells.
func (e *engine) hasBuildKit() bool {
	return e.info.OS == "linux" && versions.GreaterThanOrEqualTo(e.api.ClientVersion(), "1.39")
}

// untag removes a name of an image, and the image with it when it has no other; one
// that a container uses is left alone, with an error.
func (e *engine) untag(ctx context.Context, ref string) error {
	_, err := e.api.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// builtImage is an image found by its labels.
type builtImage struct {
	Tag    string // "" where it lost its name
	ID     string
	Size   int64
	Labels map[string]string
}

// listImages returns the images that carry a label.
func (e *engine) listImages(ctx context.Context, label string) ([]builtImage, error) {
	found, err := e.api.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", label))})
	if err != nil {
		return nil, err
	}
	list := make([]builtImage, len(found))
	for i, f := range found {
		list[i] = builtImage{ID: f.ID, Size: f.Size, Labels: f.Labels}
		if len(f.RepoTags) > 0 && f.RepoTags[0] != "<none>:<none>" {
			list[i].Tag = f.RepoTags[0]
		}
	}
	return list, nil
}

// jsonMessage is one message of the engine's progress.
type jsonMessage struct {
	Stream   string          `json:"stream"`
	Status   string          `json:"status"`
	ID       string          `json:"id"`
	Error    string          `json:"error"`
	Aux      json.RawMessage `json:"aux"`
	Progress struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
}

// maxMessage bounds one message of the engine's progress.
const maxMessage = 16 << 20

// readMessages reads the engine's progress to its end; an error comes as a message.
func readMessages(r io.Reader, progress func(jsonMessage)) error {
	bounded := &io.LimitedReader{R: r, N: maxMessage}
	d := json.NewDecoder(bounded)
	for {
		var m jsonMessage
		if err := d.Decode(&m); err != nil {
			switch {
			case bounded.N <= 0:
				return fmt.Errorf("read the engine's progress: a message is longer than %d bytes", maxMessage)
			case errors.Is(err, io.EOF):
				return nil
			}
			return fmt.Errorf("read the engine's progress: %w", err)
		}
		bounded.N = maxMessage
		if m.Error != "" {
			return errors.New(strings.TrimSpace(m.Error))
		}
		if progress != nil {
			progress(m)
		}
	}
}

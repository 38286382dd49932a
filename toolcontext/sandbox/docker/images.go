package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// images gets images for sandboxes: each is pulled or built once, however many
// rollouts want it at the same time.
type images struct {
	engine *engine
	config Config
	life   context.Context // pulls and builds end with it, not with the caller that asked first
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	known   map[string]imageInfo
	flights map[string]*flight
	hasTemp map[string]bool // image id → whether it has a /tmp
}

func newImages(life context.Context, e *engine, c Config) *images {
	i := &images{engine: e, config: c, known: map[string]imageInfo{}, flights: map[string]*flight{}, hasTemp: map[string]bool{}}
	i.life, i.stop = context.WithCancel(life)
	return i
}

func (i *images) wait() { i.work.Wait() }

// named returns an image that the engine has, or pulls it.
func (i *images) named(ctx context.Context, ref string) (imageInfo, error) {
	return i.once(ctx, "image\x00"+ref, func(ctx context.Context) (imageInfo, error) {
		info, err := i.engine.image(ctx, ref)
		if !errors.Is(err, errNoImage) {
			if err != nil {
				err = fmt.Errorf("look for the image %s: %w", ref, err)
			}
			return info, err
		}
		i.config.Progress(ref, "pulling")
		err = i.engine.pull(ctx, ref, registryAuth(i.config, ref), i.report(ref))
		if err != nil {
			return imageInfo{}, fmt.Errorf("pull the image %s: %w; check the name and the network, docker login where it is private, or load it by hand (docker load, docker import)", ref, err)
		}
		i.config.Progress(ref, "pulled")
		if info, err = i.engine.image(ctx, ref); err != nil {
			err = fmt.Errorf("look for the image %s after pulling it: %w", ref, err)
		}
		return info, err
	})
}

// built returns the image built from a folder. Its name carries the digest of the
// folder's content, so that a folder that did not change is not built again.
func (i *images) built(ctx context.Context, dir string) (imageInfo, error) {
	folder, err := readBuildFolder(dir)
	if err != nil {
		return imageInfo{}, fmt.Errorf("read the folder %s to build an image from: %w", dir, err)
	}
	tag := "hermes-env-build:" + folder.digest[:32]
	return i.once(ctx, "build\x00"+tag, func(ctx context.Context) (imageInfo, error) {
		info, err := i.engine.image(ctx, tag)
		if err == nil || !errors.Is(err, errNoImage) {
			return info, err
		}
		i.config.Progress(tag, "building "+dir)
		var last []string
		report := i.report(tag)
		stream := folder.stream(ctx)
		err = i.engine.build(ctx, stream, tag, map[string]string{"hermes-env.build": folder.digest}, func(m jsonMessage) {
			if line := strings.TrimSpace(m.Stream); line != "" {
				last = append(last, line)
				last = last[max(0, len(last)-20):]
			}
			report(m)
		})
		_ = stream.Close() // ends its writer, also after a failure
		if err != nil {
			return imageInfo{}, fmt.Errorf("build an image from %s: %w\nlast lines of the build:\n  %s", dir, err, strings.Join(last, "\n  "))
		}
		i.config.Progress(tag, "built")
		return i.engine.image(ctx, tag)
	})
}

// report passes the engine's progress on, one line for each change of state.
func (i *images) report(name string) func(jsonMessage) {
	states := map[string]string{}
	return func(m jsonMessage) {
		line := strings.TrimSpace(m.Stream)
		if line == "" && m.Status != "" && states[m.ID] != m.Status {
			states[m.ID] = m.Status
			line = strings.TrimSpace(m.ID + " " + m.Status)
		}
		if line != "" {
			i.config.Progress(name, line)
		}
	}
}

// flight is one pull or build under way.
type flight struct {
	done chan struct{}
	info imageInfo
	err  error
}

// once runs get for a key unless its result is known or on its way. Failures are
// not kept. What was begun goes on when the caller that asked first gives up.
func (i *images) once(ctx context.Context, key string, get func(context.Context) (imageInfo, error)) (imageInfo, error) {
	i.mu.Lock()
	if info, ok := i.known[key]; ok {
		i.mu.Unlock()
		return info, nil
	}
	f, ok := i.flights[key]
	if !ok {
		f = &flight{done: make(chan struct{})}
		i.flights[key] = f
		i.work.Add(1)
		go i.fly(f, key, get)
	}
	i.mu.Unlock()
	select {
	case <-f.done:
		return f.info, f.err
	case <-ctx.Done():
		return imageInfo{}, context.Cause(ctx)
	}
}

func (i *images) fly(f *flight, key string, get func(context.Context) (imageInfo, error)) {
	defer i.work.Done()
	defer close(f.done)
	ctx, cancel := context.WithTimeout(i.life, i.config.ImageLimit)
	defer cancel()
	f.info, f.err = get(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.flights, key)
	if f.err == nil {
		i.known[key] = f.info
	}
}

// forget makes the next use of an image look for it again: it was removed meanwhile.
func (i *images) forget(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for key, info := range i.known {
		if info.ID == id {
			delete(i.known, key)
		}
	}
}

// registryAuth returns what the docker command stored for an image's registry, in
// the form the engine takes; "" where there is nothing. Credential helpers are not asked.
func registryAuth(c Config, ref string) string {
	registry := "https://index.docker.io/v1/"
	if first, _, ok := strings.Cut(ref, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		registry = first
	}
	entry, ok := readClientConfig(configDir(c.Getenv)).Auths[registry]
	if !ok {
		return ""
	}
	pair, err := base64.StdEncoding.DecodeString(entry.Auth)
	if err != nil {
		return ""
	}
	user, password, ok := strings.Cut(string(pair), ":")
	if !ok {
		return ""
	}
	data, err := json.Marshal(struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Server   string `json:"serveraddress"`
	}{user, password, registry})
	if err != nil {
		return ""
	}
	return base64.URLEncoding.EncodeToString(data)
}

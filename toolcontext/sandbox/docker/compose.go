package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

const (
	// labelProject is carried by all that belongs to a compose project.
	labelProject = "hermes-env.project"
	// composeService is what compose itself notes on containers.
	composeService = "com.docker.compose.service"
	mainService    = "main"
	// composeWait bounds the wait for a project where its spec does not.
	composeWait = 10 * time.Minute
)

// project is a compose project that is a sandbox's.
type project struct {
	provider *Provider
	name     string
	service  string // whose container commands run in
	spec     sandbox.Spec
	file     *composeFile
	images   map[string]imageInfo // by service
	// served: the server is the service's first process, because the file gives it none.
	served   bool
	user     string
	keepHome bool
	reserve  []string // capabilities of the server alone
}

// createComposed starts a compose project and the server in its main container.
func (p *Provider) createComposed(ctx context.Context, spec sandbox.Spec) (*box, error) {
	j, err := p.newProject(spec)
	if err != nil {
		return nil, err
	}
	tool, err := p.composeTool(ctx)
	if err != nil {
		return nil, err
	}
	if err := j.getImages(ctx); err != nil {
		return nil, err
	}
	if err := p.starts.acquire(ctx); err != nil {
		return nil, err
	}
	s, err := j.start(ctx, tool)
	p.starts.release(err == nil || context.Cause(ctx) != nil)
	return s, err
}

// newProject reads and checks a project.
func (p *Provider) newProject(spec sandbox.Spec) (*project, error) {
	switch {
	case p.config.PlainExec:
		return nil, errors.New("compose projects need the server in their main container, and commands go through the engine's exec call here")
	case orElse(spec.Network, p.config.Network) == sandbox.NetworkAllowlist:
		return nil, fmt.Errorf("a compose project with a list of allowed hosts: %w; the networks none and bridge are", sandbox.ErrUnsupported)
	}
	j := &project{provider: p, name: newName(), service: orElse(spec.Compose.Service, mainService), spec: spec, images: map[string]imageInfo{}}
	var err error
	if j.file, err = readCompose(*spec.Compose); err != nil {
		return nil, err
	}
	services := find(j.file.top, "services")
	if find(services, j.service) == nil {
		return nil, fmt.Errorf("the compose file %s has no service %s, in which commands would run", j.file.path, j.service)
	}
	if _, err := j.render(nil); err != nil { // refused before anything is pulled
		return nil, err
	}
	return j, nil
}

// getImages pulls and builds the images of all services.
func (j *project) getImages(ctx context.Context) error {
	for name, service := range pairs(find(j.file.top, "services")) {
		spec, err := j.imageSpec(name.Value, service)
		if err != nil {
			return err
		}
		info, err := j.provider.images.of(ctx, spec)
		if err != nil {
			return fmt.Errorf("the service %s of %s: %w", name.Value, j.file.path, err)
		}
		j.images[name.Value] = info
	}
	return nil
}

// retain keeps the images of all services until the returned function is called.
func (j *project) retain() (release func()) {
	var releases []func()
	for name, service := range pairs(find(j.file.top, "services")) {
		if spec, err := j.imageSpec(name.Value, service); err == nil { // else it is refused when it is started
			releases = append(releases, j.provider.Retain(spec))
		}
	}
	return func() {
		for _, f := range releases {
			f()
		}
	}
}

// imageSpec says which image a service has.
func (j *project) imageSpec(name string, service *yaml.Node) (sandbox.Spec, error) {
	build, image := find(service, "build"), find(service, "image")
	if build == nil && image != nil {
		return sandbox.Spec{Image: image.Value}, nil
	}
	if build == nil {
		if name != j.service {
			return sandbox.Spec{}, fmt.Errorf("the compose file %s, line %d: the service %s names neither an image nor a build", j.file.path, service.Line, name)
		}
		return sandbox.Spec{Image: j.spec.Image, ImageHint: j.spec.ImageHint, Build: j.spec.Build, BuildOptions: j.spec.BuildOptions}, nil
	}
	spec := sandbox.Spec{Build: build.Value, BuildOptions: sandbox.BuildOptions{Force: j.spec.BuildOptions.Force, Timeout: j.spec.BuildOptions.Timeout}}
	for key, v := range pairs(build) {
		switch key.Value {
		case "context":
			spec.Build = v.Value
		case "dockerfile":
			spec.BuildOptions.Dockerfile = v.Value
		case "target":
			spec.BuildOptions.Target = v.Value
		case "args":
			spec.BuildOptions.Args = map[string]string{}
			for k, value := range pairs(v) {
				spec.BuildOptions.Args[k.Value] = value.Value
			}
			for _, item := range v.Content {
				if k, value, ok := strings.Cut(item.Value, "="); ok && v.Kind == yaml.SequenceNode {
					spec.BuildOptions.Args[k] = value
				}
			}
		case "cache_from", "cache_to", "labels", "pull", "no_cache", "tags", "platforms":
		default:
			return sandbox.Spec{}, fmt.Errorf("the compose file %s, line %d: services.%s.build.%s is not supported", j.file.path, key.Line, name, key.Value)
		}
	}
	folder, err := j.file.within(orElse(spec.Build, "."))
	if err != nil {
		return sandbox.Spec{}, fmt.Errorf("the compose file %s, line %d: services.%s.build: %s: %w", j.file.path, build.Line, name, spec.Build, err)
	}
	spec.Build = folder
	return spec, spec.Validate()
}

// render returns the compose file that is run: without what is not safe or would
// collide, with the images as they are now, with labels and limits.
func (j *project) render(labels map[string]string) ([]byte, error) {
	config := j.provider.config
	c := &composeChecker{file: j.file, unsafe: config.ComposeUnsafe, capabilities: config.Capabilities, newPrivileges: config.AllowNewPrivileges}
	none := orElse(j.spec.Network, j.provider.config.Network) == sandbox.NetworkNone
	networks, volumes, err := c.top(labels, none)
	if err != nil {
		return nil, err
	}
	services := mapping()
	for name, given := range pairs(find(j.file.top, "services")) {
		if _, err := j.imageSpec(name.Value, given); err != nil {
			return nil, err
		}
		s, err := c.service(name.Value, given)
		if err != nil {
			return nil, err
		}
		set(s, "image", text(j.images[name.Value].ID))
		set(s, "labels", labelNode(labels))
		j.confine(s, given)
		if name.Value == j.service {
			j.makeMain(s)
		}
		set(services, name.Value, s)
	}
	top := mapping()
	if v := find(j.file.top, "version"); v != nil {
		set(top, "version", v)
	}
	set(top, "services", services)
	set(top, "networks", networks)
	if len(volumes.Content) > 0 {
		set(top, "volumes", volumes)
	}
	return yaml.Marshal(escaped(top))
}

// confine gives a service the limits of all sandboxes.
func (j *project) confine(s, given *yaml.Node) {
	c := j.provider.config
	if !c.ComposeUnsafe || find(given, "cap_add") == nil {
		add, drop := c.Capabilities.Lists()
		if c.Capabilities.Base == sandbox.CapabilitiesEngine { // as the file would have it without hermes-env
			add, drop = union(add, values(find(given, "cap_add"))), union(drop, values(find(given, "cap_drop")))
		}
		set(s, "cap_drop", list(drop...))
		set(s, "cap_add", list(add...))
	}
	if find(s, "security_opt") == nil && !c.AllowNewPrivileges {
		set(s, "security_opt", list(noNewPrivileges))
	}
	logs, options := mapping(), mapping()
	set(options, "max-size", text("10m")) // output must not fill the host's disk
	set(logs, "driver", text("json-file"))
	set(logs, "options", options)
	set(s, "logging", logs)
	if c.PIDs > 0 && find(s, "pids_limit") == nil {
		set(s, "pids_limit", plainValue(strconv.FormatInt(c.PIDs, 10), "!!int"))
	}
	if c.MemoryBytes > 0 && find(s, "mem_limit") == nil {
		set(s, "mem_limit", plainValue(strconv.FormatInt(c.MemoryBytes, 10), "!!int"))
	}
	if c.CPUs > 0 && find(s, "cpus") == nil {
		set(s, "cpus", text(fmt.Sprint(min(c.CPUs, float64(j.provider.engine.info.CPUs)))))
	}
}

// makeMain gives the container that commands run in what the spec says, and the
// server.
func (j *project) makeMain(s *yaml.Node) {
	p, spec := j.provider, j.spec
	environment := find(s, "environment")
	for _, pair := range containerEnv(spec) {
		name, value, _ := strings.Cut(pair, "=")
		if _, asked := spec.Env[name]; asked || find(environment, name) == nil {
			set(environment, name, text(value))
		}
	}
	if spec.User != "" {
		set(s, "user", text(spec.User))
	}
	if v := find(s, "user"); v != nil {
		j.user = v.Value
	}
	if spec.Dir != "" {
		set(s, "working_dir", text(workDir(spec, j.images[j.service])))
	}
	if spec.CPUs > 0 {
		set(s, "cpus", text(fmt.Sprint(min(spec.CPUs, float64(p.engine.info.CPUs)))))
	}
	if spec.MemoryBytes > 0 {
		set(s, "mem_limit", plainValue(strconv.FormatInt(spec.MemoryBytes, 10), "!!int"))
	}
	if spec.PIDs > 0 {
		set(s, "pids_limit", plainValue(strconv.FormatInt(spec.PIDs, 10), "!!int"))
	}
	j.keepHome = find(environment, "HOME") != nil
	j.served = find(s, "command") == nil && find(s, "entrypoint") == nil
	j.reserve = nil
	if j.served { // another first process would have them as well
		j.reserve = p.reserved()
		set(s, "cap_add", list(union(values(find(s, "cap_add")), j.reserve)...))
	}
	if j.served {
		server := ""
		if user := orElse(j.user, j.images[j.service].User); !isRoot(user) { // see Provider.plan
			server = user
			set(s, "user", text("0:0"))
		}
		set(s, "entrypoint", list(p.entrypoint(j.reserve, server, j.keepHome)...))
		set(s, "stdin_open", plainValue("true", "!!bool"))
		set(s, "tty", plainValue("false", "!!bool"))
	}
	if !j.uploads() {
		mounts := find(s, "volumes")
		if mounts == nil {
			mounts = list()
			set(s, "volumes", mounts)
		}
		mount := mapping()
		set(mount, "type", text("bind"))
		set(mount, "source", text(p.binary.Path))
		set(mount, "target", text(binaryPath))
		set(mount, "read_only", plainValue("true", "!!bool"))
		mounts.Content = append(mounts.Content, mount)
	}
}

// uploads reports whether the server is copied into the container.
func (j *project) uploads() bool {
	p := j.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.upload || !p.local
}

// union is a with what of b it lacks.
func union(a, b []string) []string {
	for _, item := range b {
		if !slices.Contains(a, item) {
			a = append(a, item)
		}
	}
	return a
}

// labels are what everything of the project carries.
func (j *project) labels() map[string]string {
	l := maps.Clone(j.provider.labels(j.spec.Rollout))
	l[labelProject] = j.name
	return l
}

// start brings the project up. As with single containers, what was begun is finished
// and removed when ctx ends first.
func (j *project) start(ctx context.Context, tool composeTool) (*box, error) {
	limit := orElse(j.spec.Compose.Timeout, composeWait)
	bounded, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, fmt.Errorf("the compose project %s was not ready within %v", j.file.path, limit))
	defer cancel()
	share := j.provider.serverShare()
	s, err := j.up(bounded, tool)
	for err != nil && refusesCapabilities(err) && share < noneOfServer {
		share++
		j.provider.reserveLess(share, err)
		if downErr := j.down(ctx); downErr != nil {
			return nil, errors.Join(err, downErr)
		}
		s, err = j.up(bounded, tool)
	}
	if err == nil && context.Cause(ctx) != nil {
		return nil, errors.Join(context.Cause(ctx), s.Close(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, j.down(ctx))
	}
	return s, nil
}

func (j *project) up(ctx context.Context, tool composeTool) (*box, error) {
	content, err := j.render(j.labels())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "hermes-env-compose-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the compose file: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "compose.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return nil, err
	}
	args := []string{"-f", path, "--project-directory", dir, "-p", j.name, "up", "--no-build"}
	var conn *hijacked
	if j.uploads() || j.served {
		if err := tool.run(ctx, dir, append(slices.Clone(args), "--no-start")...); err != nil {
			return nil, j.explain(err)
		}
		if conn, err = j.beforeStart(ctx); err != nil {
			return nil, err
		}
	}
	err = tool.run(ctx, dir, append(slices.Clone(args), "--detach", "--no-recreate")...)
	if err != nil {
		err = j.explain(err)
	} else {
		err = j.awaitReady(ctx)
	}
	if err != nil {
		if conn != nil {
			_ = conn.conn.Close() // nothing was said yet
		}
		return nil, err
	}
	return j.connect(ctx, conn)
}

// beforeStart puts the server into the main container and attaches to it, where that
// has to come before its start.
func (j *project) beforeStart(ctx context.Context) (*hijacked, error) {
	id, err := j.main(ctx)
	if err != nil {
		return nil, err
	}
	if j.uploads() {
		if err := j.provider.uploadBinary(ctx, id); err != nil {
			return nil, fmt.Errorf("copy the server into the container of %s: %w", j.service, err)
		}
	}
	if !j.served {
		return nil, nil
	}
	conn, err := j.provider.engine.attach(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("attach to the container of %s: %w", j.service, err)
	}
	return conn, nil
}

// explain adds to a failure of compose what is known about it.
func (j *project) explain(err error) error {
	if strings.Contains(err.Error(), "address pools") {
		return fmt.Errorf("start the compose project %s: %w; each project needs a network of its own: run fewer at once (max_eval_workers), or give the engine more ranges (default-address-pools in daemon.json)", j.file.path, err)
	}
	return fmt.Errorf("start the compose project %s: %w", j.file.path, err)
}

// main returns the container that commands run in.
func (j *project) main(ctx context.Context) (string, error) {
	found, err := j.provider.engine.list(ctx, labelProject+"="+j.name)
	if err != nil {
		return "", err
	}
	for _, c := range found {
		if c.Labels[composeService] == j.service {
			return c.ID, nil
		}
	}
	return "", fmt.Errorf("compose made no container for the service %s; does it have a profile?", j.service)
}

// awaitReady waits until every container of the project runs and is healthy, or has
// ended well.
func (j *project) awaitReady(ctx context.Context) error {
	e := j.provider.engine
	for {
		found, err := e.list(ctx, labelProject+"="+j.name)
		if err != nil {
			return fmt.Errorf("look at the containers of the project: %w", err)
		}
		waiting := ""
		for _, c := range found {
			h, err := e.health(ctx, c.ID)
			if err != nil {
				return fmt.Errorf("look at the container of %s: %w", c.Labels[composeService], err)
			}
			if h.Failed {
				return fmt.Errorf("the service %s of the compose project %s: %s", c.Labels[composeService], j.file.path, h.Text)
			}
			if !h.Ready {
				waiting = fmt.Sprintf("; the service %s: %s", c.Labels[composeService], h.Text)
			}
		}
		if waiting == "" {
			return nil
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("%w%s", err, waiting)
		}
	}
}

// connect reaches the server in the main container: its first process, over conn, or
// one that is started beside that.
func (j *project) connect(ctx context.Context, conn *hijacked) (*box, error) {
	p := j.provider
	id, err := j.main(ctx)
	image := j.images[j.service]
	if err == nil {
		err = j.needTemp(ctx, id, image)
	}
	var at *stream
	if conn != nil {
		at = newStream(conn)
	} else if err == nil {
		at, err = j.execServer(ctx, id)
	}
	if err != nil {
		if at != nil {
			_ = at.Close() // the cause is known
		}
		return nil, fmt.Errorf("reach the container of %s: %w", j.service, err)
	}
	s := &box{provider: p, container: id, info: sandbox.Info{
		Backend: Name, ID: j.name, Image: j.file.path, Digest: image.Digest, TempDir: "/tmp",
	}, reserve: j.reserve, keepHome: j.keepHome, uploaded: j.uploads()}
	if !j.served {
		s.again = func(ctx context.Context) (*stream, error) { return j.execServer(ctx, id) }
	}
	if err := s.serve(ctx, at, j.spec, image, max(orElse(j.spec.DiskBytes, p.config.DiskBytes), 0)); err != nil {
		return nil, err
	}
	s.teardown = j.down
	return s, nil
}

// execServer starts the server beside the first process of a container.
func (j *project) execServer(ctx context.Context, id string) (*stream, error) {
	user := orElse(j.user, j.images[j.service].User)
	exec, conn, err := j.provider.engine.exec(ctx, id, j.provider.serverExec(nil, user, j.keepHome, containerEnv(j.spec)))
	if err != nil {
		return nil, err
	}
	at := newStream(conn)
	at.exec = exec
	return at, nil
}

// needTemp makes /tmp where the image has none.
func (j *project) needTemp(ctx context.Context, id string, image imageInfo) error {
	has, err := j.provider.images.temp(ctx, image.ID, id, workDir(j.spec, image))
	if err == nil && !has {
		err = j.provider.makeShared(ctx, id, "tmp")
	}
	if err != nil {
		return fmt.Errorf("make /tmp: %w", err)
	}
	return nil
}

// down removes everything of the project, also when ctx has ended.
func (j *project) down(ctx context.Context) error {
	if err := j.provider.removeProject(ctx, labelProject+"="+j.name); err != nil {
		return fmt.Errorf("remove the compose project %s: %w; remove it by hand or later with hermes-env cleanup", j.name, err)
	}
	return nil
}

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
)

// engine is a connection to a container engine. Only the engine*.go files know the
// client library, which lives on as github.com/moby/moby/client: moving there is a
// change of those.
type engine struct {
	api  *client.Client
	info engineInfo
}

// engineInfo is what the engine says of itself.
type engineInfo struct {
	Version, API    string
	OS, Arch        string // Arch as Go names it
	Host            string // name of the machine the engine runs on
	Driver, Backing string // storage driver and the file system below it
	Root            string // directory of the engine's data; no two engines of a machine share one
	Endpoint        string
	CPUs            int
	CPULimit, PIDs  bool // whether these can be limited
	MemLimit        bool
}

// errNoImage says that the engine does not have an image.
var errNoImage = errors.New("no such image")

// errNoContainer says that a container is gone.
var errNoContainer = errors.New("no such container")

// connect opens the engine at an endpoint and asks what it is.
func connect(ctx context.Context, at endpoint) (*engine, error) {
	options, err := at.clientOptions()
	if err != nil {
		return nil, fmt.Errorf("use %s (%s): %w", at.host, at.from, err)
	}
	api, err := client.NewClientWithOpts(options...)
	if err != nil {
		return nil, fmt.Errorf("use %s: %w", at.host, err)
	}
	e := &engine{api: api}
	info, err := api.Info(ctx)
	if err != nil {
		_ = api.Close() // nothing is open yet
		return nil, fmt.Errorf("ask the engine at %s (%s): %w", at.host, at.from, err)
	}
	e.info = engineInfo{
		Version: info.ServerVersion, API: api.ClientVersion(), OS: info.OSType, Arch: goArch(info.Architecture),
		Host: info.Name, Driver: info.Driver, Root: info.DockerRootDir, Endpoint: at.host, CPUs: info.NCPU,
		CPULimit: info.CPUCfsQuota, PIDs: info.PidsLimit, MemLimit: info.MemoryLimit,
	}
	for _, pair := range info.DriverStatus {
		if pair[0] == "Backing Filesystem" {
			e.info.Backing = pair[1]
		}
	}
	return e, nil
}

// goArch turns the kernel's name of an architecture into Go's.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "armv7l", "armv6l":
		return "arm"
	case "i386", "i686":
		return "386"
	}
	return machine
}

func (e *engine) close() error { return e.api.Close() }

// translate gives errors that callers tell apart their own names.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errdefs.IsNotFound(err) && strings.Contains(err.Error(), "No such image"):
		return fmt.Errorf("%w: %w", errNoImage, err)
	case errdefs.IsNotFound(err) && strings.Contains(err.Error(), "ontainer"):
		return fmt.Errorf("%w: %w", errNoContainer, err)
	}
	return err
}

// plan is a container to be made.
type plan struct {
	Name       string
	Image      string
	Entrypoint []string
	User       string
	Dir        string
	Env        []string
	Labels     map[string]string
	Init       bool // an init of the engine's comes first
	Binary     string
	BinaryAt   string
	Network    string
	CPUs       float64
	Memory     int64
	PIDs       int64
	OpenFiles  int64
	Processes  int64 // of one user over all containers; 0 leaves it to the engine
	FileSize   int64
	Disk       int64 // size of the writable layer
	DiskAsked  bool  // somebody will miss it
	CapAdd     []string
	CapDrop    []string
	Reserve    []string // of CapAdd, for the server alone
	KeepHome   bool     // HOME is in the environment
	NoNewPrivs bool
}

// noNewPrivileges is the engine's option that makes set-user-id programs do nothing.
const noNewPrivileges = "no-new-privileges"

func (e *engine) create(ctx context.Context, p plan) (string, error) {
	limits := []*container.Ulimit{{Name: "core", Soft: 0, Hard: 0}}
	if p.OpenFiles > 0 {
		limits = append(limits, &container.Ulimit{Name: "nofile", Soft: p.OpenFiles, Hard: p.OpenFiles})
	}
	if p.Processes > 0 {
		limits = append(limits, &container.Ulimit{Name: "nproc", Soft: p.Processes, Hard: p.Processes})
	}
	if p.FileSize > 0 {
		limits = append(limits, &container.Ulimit{Name: "fsize", Soft: p.FileSize, Hard: p.FileSize})
	}
	host := &container.HostConfig{
		NetworkMode: container.NetworkMode(p.Network),
		CapDrop:     p.CapDrop,
		CapAdd:      p.CapAdd,
		LogConfig:   container.LogConfig{Type: "none"}, // output must not fill the host's disk
		IpcMode:     "private",
		Resources: container.Resources{
			NanoCPUs: int64(p.CPUs * 1e9), Memory: p.Memory, MemorySwap: p.Memory, Ulimits: limits,
		},
	}
	if p.NoNewPrivs {
		host.SecurityOpt = []string{noNewPrivileges}
	}
	if p.PIDs > 0 {
		host.PidsLimit = &p.PIDs
	}
	if p.Binary != "" {
		host.Mounts = []mount.Mount{{Type: mount.TypeBind, Source: p.Binary, Target: p.BinaryAt, ReadOnly: true}}
	}
	if p.Disk > 0 {
		host.StorageOpt = map[string]string{"size": fmt.Sprint(p.Disk)}
	}
	made, err := e.api.ContainerCreate(ctx, &container.Config{
		Image: p.Image, Entrypoint: p.Entrypoint, User: p.User, WorkingDir: p.Dir, Env: p.Env, Labels: p.Labels,
		OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, // the harness checks by itself, when asked to
	}, host, nil, nil, p.Name)
	return made.ID, translate(err)
}

// attach connects to the standard streams of a container that is not yet started.
func (e *engine) attach(ctx context.Context, id string) (*hijacked, error) {
	r, err := e.api.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, translate(err)
	}
	return &hijacked{conn: r.Conn, reader: r.Reader, closeWrite: r.CloseWrite}, nil
}

// hijacked is a connection to the streams of a process.
type hijacked struct {
	conn       net.Conn
	reader     io.Reader
	closeWrite func() error
}

func (e *engine) start(ctx context.Context, id string) error {
	return translate(e.api.ContainerStart(ctx, id, container.StartOptions{}))
}

// remove kills a container and removes it with its volumes; one that is gone is no error.
func (e *engine) remove(ctx context.Context, id string) error {
	err := e.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// state is how a container is.
type state struct {
	Running   bool
	Status    string
	OOMKilled bool
	ExitCode  int
	Error     string
	Finished  time.Time // zero where it did not, or the engine does not say
}

func (e *engine) inspect(ctx context.Context, id string) (state, error) {
	found, err := e.api.ContainerInspect(ctx, id)
	if err != nil {
		return state{}, translate(err)
	}
	if found.ContainerJSONBase == nil || found.State == nil {
		return state{}, fmt.Errorf("the engine says nothing of the state of container %s", id)
	}
	s := found.State
	finished, err := time.Parse(time.RFC3339Nano, s.FinishedAt)
	if err != nil || finished.Year() < 1970 {
		finished = time.Time{}
	}
	return state{Running: s.Running, Status: s.Status, OOMKilled: s.OOMKilled, ExitCode: s.ExitCode, Error: s.Error, Finished: finished}, nil
}

// labelled is a container found by its labels.
type labelled struct {
	ID     string
	Labels map[string]string
	State  string
}

// list returns the containers, running or not, that carry a label.
func (e *engine) list(ctx context.Context, label string) ([]labelled, error) {
	found, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label))})
	if err != nil {
		return nil, err
	}
	list := make([]labelled, len(found))
	for i, c := range found {
		list[i] = labelled{ID: c.ID, Labels: c.Labels, State: c.State}
	}
	return list, nil
}

// stat returns the mode of a path in a container, or an error that wraps fs.ErrNotExist.
func (e *engine) stat(ctx context.Context, id, path string) (fs.FileMode, error) {
	info, err := e.api.ContainerStatPath(ctx, id, path)
	if errdefs.IsNotFound(err) {
		return 0, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return info.Mode, err
}

// copyIn unpacks a tar stream below a directory that exists in the container.
func (e *engine) copyIn(ctx context.Context, id, dir string, tar io.Reader) error {
	return translate(e.api.CopyToContainer(ctx, id, dir, tar, container.CopyToContainerOptions{}))
}

// copyOut returns a path of a container as a tar stream; target is where it leads
// when it is a link.
func (e *engine) copyOut(ctx context.Context, id, name string) (stream io.ReadCloser, target string, err error) {
	stream, stat, err := e.api.CopyFromContainer(ctx, id, name)
	if err != nil {
		if errdefs.IsNotFound(err) && !strings.Contains(err.Error(), "No such container") {
			err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		return nil, "", translate(err)
	}
	if stat.Mode&fs.ModeSymlink != 0 {
		target = stat.LinkTarget
	}
	return stream, target, nil
}

// execRequest is a process to be started in a running container.
type execRequest struct {
	Args []string
	User string
	Dir  string
	Env  []string
}

// exec starts a process and returns its id and streams.
func (e *engine) exec(ctx context.Context, id string, r execRequest) (string, *hijacked, error) {
	made, err := e.api.ContainerExecCreate(ctx, id, container.ExecOptions{
		User: r.User, WorkingDir: r.Dir, Env: r.Env, Cmd: r.Args, AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return "", nil, translate(err)
	}
	streams, err := e.api.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return "", nil, translate(err)
	}
	return made.ID, &hijacked{conn: streams.Conn, reader: streams.Reader, closeWrite: streams.CloseWrite}, nil
}

// execEnd returns the exit code of a process that exec started, once it has ended.
func (e *engine) execEnd(ctx context.Context, execID string) (running bool, code int, err error) {
	found, err := e.api.ContainerExecInspect(ctx, execID)
	return found.Running, found.ExitCode, translate(err)
}

// refusesStorageSize reports whether create failed because the storage driver
// can't bound the writable layer.
func refusesStorageSize(err error) bool {
	text := err.Error()
	return strings.Contains(text, "storage-opt") || strings.Contains(text, "StorageOpt") || strings.Contains(text, "Storage Option")
}

// refusesMount reports whether create failed because the engine does not see this
// machine's files.
func refusesMount(err error) bool {
	return strings.Contains(err.Error(), "bind source path does not exist") || strings.Contains(err.Error(), "invalid mount config") ||
		strings.Contains(err.Error(), "statfs")
}

// refusesLimits reports whether start failed because the engine may not raise a
// limit beyond its own.
func refusesLimits(err error) bool { return strings.Contains(err.Error(), "rlimit") }

// refusesCapabilities reports whether create or start failed because the engine has no
// such capability to give.
func refusesCapabilities(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "capabilit") || strings.Contains(text, "apply caps")
}

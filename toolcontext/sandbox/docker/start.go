package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Where the server's binary is inside containers: below the root itself, because a
// directory around it could be renamed, and another program put in its place.
const binaryPath = "/.hermes-env"

// startSandbox makes and starts a container. Calls to the engine are not cancelled
// with ctx but bounded by StartLimit: an engine goes on with a call whose caller
// has left, and would make a container after it was looked for to be removed.
func (p *Provider) startSandbox(ctx context.Context, spec sandbox.Spec, image imageInfo) (*box, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.StartLimit)
	defer cancel()
	var (
		s    *box
		name string
		err  error
	)
	for range 6 { // once more for each thing that can be mended
		name = newName()
		files, share := p.filesLevel(), p.serverShare()
		s, err = p.startNamed(bounded, name, spec, image)
		if err == nil || !p.mend(bounded, err, files, share) {
			break
		}
		if removeErr := p.removeContainer(ctx, name); removeErr != nil {
			return nil, errors.Join(err, removeErr)
		}
	}
	if err == nil && context.Cause(ctx) != nil {
		return nil, errors.Join(context.Cause(ctx), s.Close(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, p.removeContainer(ctx, name))
	}
	return s, nil
}

// mend changes what made a start fail, where that can be done. files and share are how many
// open files and which capabilities of the server's own the container was to have.
func (p *Provider) mend(ctx context.Context, err error, files filesLevel, share serverShare) bool {
	switch {
	case refusesCapabilities(err) && share < noneOfServer:
		p.reserveLess(share+1, err)
	case refusesLimits(err) && files < fewFiles:
		p.lowerFiles(files + 1)
	case errors.Is(err, errNotCovered):
	case refusesNetwork(err):
		p.forgetNetwork(ctx) // somebody cleaned up
	default:
		return false
	}
	return true
}

// newName returns the name of a container, which no other has.
func newName() string { return "hermes-env-" + strings.ToLower(rand.Text()[:16]) }

// filesLevel is how many open files containers get.
type filesLevel int

const (
	configuredFiles filesLevel = iota
	engineFiles                // as many as the engine has itself: Docker's choice without a limit
	fewFiles                   // so few that any engine may have them: podman asks for more than it has
)

// What a container gets at an engine that may not have its own defaults: open files, and
// processes of a user in all containers (how many one may have is said apart).
const (
	someFiles     = 4096
	someProcesses = 32768
)

func (p *Provider) filesLevel() filesLevel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.files
}

// lowerFiles makes containers live with fewer open files.
func (p *Provider) lowerFiles(to filesLevel) {
	p.mu.Lock()
	p.files = max(p.files, to)
	p.mu.Unlock()
	p.warnOnce(fmt.Sprintf("the engine may not open %d files itself, so containers get fewer; raise its limit (LimitNOFILE in docker.service or podman.service)", p.config.OpenFiles))
}

func (p *Provider) startNamed(ctx context.Context, name string, spec sandbox.Spec, image imageInfo) (*box, error) {
	plan := p.plan(name, spec, image)
	network, err := p.networkMode(ctx, orElse(spec.Network, p.config.Network))
	if err != nil {
		return nil, fmt.Errorf("find the network of the containers: %w", err)
	}
	plan.Network = network
	id, err := p.createContainer(ctx, &plan, image)
	if err != nil {
		return nil, fmt.Errorf("create a container from the image %s: %w", p.reference(spec), err)
	}
	layer := p.coverLayer(ctx, id, plan)
	if err := p.prepare(ctx, id, plan, image); err != nil {
		return nil, fmt.Errorf("prepare the container: %w", err)
	}
	s := &box{provider: p, container: id, info: sandbox.Info{
		Backend: Name, ID: name, Image: p.reference(spec), Digest: image.Digest, TempDir: "/tmp",
	}, reserve: plan.Reserve, keepHome: plan.KeepHome, uploaded: plan.Binary == "" && !p.config.PlainExec}
	at, err := p.startAttached(ctx, id)
	if err != nil {
		return nil, err
	}
	watched := int64(0)
	if plan.Disk == 0 {
		watched = plan.FileSize // the same limit
	}
	if s.layer = layer; layer != "" {
		watched = looser(watched)
	}
	if err := s.serve(ctx, at, spec, image, watched); err != nil {
		return nil, err
	}
	return s, p.checkLayer(s, plan.FileSize)
}

// startAttached starts a container and returns the stream to its first process.
func (p *Provider) startAttached(ctx context.Context, id string) (*stream, error) {
	conn, err := p.engine.attach(ctx, id)
	if err != nil && strings.Contains(err.Error(), "received 409") { // the client has no type for it
		return p.attachStarted(ctx, id)
	}
	if err != nil {
		return nil, fmt.Errorf("attach to the container: %w", err)
	}
	at := newStream(conn)
	if err := p.engine.start(ctx, id); err != nil {
		_ = at.Close() // nothing was said yet
		return nil, fmt.Errorf("start the container: %w", err)
	}
	return at, nil
}

// attachStarted is for podman, which lets nobody attach to a container before its
// start. Nothing is missed: the server says nothing before it is greeted.
func (p *Provider) attachStarted(ctx context.Context, id string) (*stream, error) {
	if err := p.engine.start(ctx, id); err != nil {
		return nil, fmt.Errorf("start the container: %w", err)
	}
	conn, err := p.engine.attach(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("attach to the container: %w", err)
	}
	return newStream(conn), nil
}

// reference names the image of a spec as people know it.
func (p *Provider) reference(spec sandbox.Spec) string {
	switch {
	case spec.Build != "":
		return spec.Build
	case spec.Image != "":
		return spec.Image
	}
	return p.config.Image
}

// plan decides what a container of a spec is.
func (p *Provider) plan(name string, spec sandbox.Spec, image imageInfo) plan {
	c := p.config
	pl := plan{
		Name:       name,
		Image:      image.ID,
		User:       spec.User,
		Dir:        workDir(spec, image),
		Env:        containerEnv(spec),
		Labels:     p.labels(spec.Rollout),
		CPUs:       orElse(spec.CPUs, c.CPUs),
		Memory:     max(orElse(spec.MemoryBytes, c.MemoryBytes), 0),
		PIDs:       max(orElse(spec.PIDs, c.PIDs), 0),
		OpenFiles:  c.OpenFiles,
		Disk:       max(orElse(spec.DiskBytes, c.DiskBytes), 0),
		NoNewPrivs: !c.AllowNewPrivileges,
	}
	pl.CapAdd, pl.CapDrop = c.Capabilities.Lists()
	pl.Reserve = p.reserved()
	pl.CapAdd = append(pl.CapAdd, pl.Reserve...)
	if n := float64(p.engine.info.CPUs); pl.CPUs > n {
		pl.CPUs = n // the engine refuses more than it has
	}
	pl.FileSize, pl.DiskAsked = pl.Disk, spec.DiskBytes > 0 || c.diskAsked
	p.mu.Lock()
	noQuota := p.noQuota
	switch p.files {
	case engineFiles:
		pl.OpenFiles = 0
	case fewFiles:
		pl.OpenFiles, pl.Processes = min(pl.OpenFiles, someFiles), someProcesses
	}
	upload := p.upload
	p.mu.Unlock()
	if noQuota {
		p.warnOfDisk(pl)
		pl.Disk = 0
	}
	// A container of another user's would leave nobody in it who could clean up after
	// the agent: with no-new-privileges an engine gives capabilities to root in a
	// container only when root started it. The server gives them up by itself.
	server := ""
	if user := orElse(spec.User, image.User); !c.PlainExec && !isRoot(user) {
		server, pl.User = user, "0:0"
	}
	hasHome := func(entry string) bool { return strings.HasPrefix(entry, "HOME=") }
	pl.KeepHome = slices.ContainsFunc(image.Env, hasHome) || slices.ContainsFunc(pl.Env, hasHome)
	pl.Entrypoint = p.firstProcess(pl.Reserve, server, pl.KeepHome)
	pl.Init = c.PlainExec
	if !upload && !c.PlainExec {
		pl.Binary, pl.BinaryAt = p.binary.Path, binaryPath
	}
	return pl
}

// orElse returns v, or standard where v is nothing.
func orElse[T comparable](v, standard T) T {
	var zero T
	if v == zero {
		return standard
	}
	return v
}

// workDir is the directory commands start in. The engine makes it.
func workDir(spec sandbox.Spec, image imageInfo) string {
	base := image.WorkDir
	if base == "" {
		base = "/"
	}
	switch {
	case spec.Dir == "":
		return base
	case strings.HasPrefix(spec.Dir, "/"):
		return spec.Dir
	}
	return strings.TrimSuffix(base, "/") + "/" + spec.Dir
}

// containerEnv is what commands find in their environment beyond the image's own.
// Nothing of it comes from the harness's.
func containerEnv(spec sandbox.Spec) []string {
	env := map[string]string{"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb"}
	maps.Copy(env, spec.Env)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// createContainer creates the container, and again without what the engine refuses
// and sandboxes can do without; the engine is not asked for that a second time.
func (p *Provider) createContainer(ctx context.Context, pl *plan, image imageInfo) (string, error) {
	for {
		id, err := p.engine.create(ctx, *pl)
		switch {
		case err == nil:
			return id, nil
		case pl.Disk > 0 && refusesStorageSize(err):
			p.mu.Lock()
			p.noQuota = true
			p.mu.Unlock()
			p.warnOfDisk(*pl)
			pl.Disk = 0
		case pl.Binary != "" && refusesMount(err):
			p.mu.Lock()
			p.upload = true
			p.mu.Unlock()
			p.warnOnce("the engine does not see this machine's files: the server is copied into every container, which takes longer to start")
			pl.Binary = ""
		case errors.Is(err, errNoImage):
			p.images.forget(image.ID)
			return "", err
		default:
			return "", err
		}
	}
}

// warnOfDisk says that a limit somebody asked for is not in force.
func (p *Provider) warnOfDisk(pl plan) {
	// The server in the container watches what the storage can't bound.
	if pl.DiskAsked && pl.Disk > 0 && p.config.PlainExec {
		p.warnOnce(fmt.Sprintf("the engine's storage (%s on %s) can't bound what a container writes, and no server in it watches: only the size of each file is bounded; overlay2 on xfs with pquota, btrfs and zfs can", p.engine.info.Driver, p.engine.info.Backing))
	}
}

// prepare puts into a container that has not started what it lacks.
func (p *Provider) prepare(ctx context.Context, id string, pl plan, image imageInfo) error {
	has, err := p.images.temp(ctx, image.ID, id, pl.Dir)
	if err != nil {
		return fmt.Errorf("look for /tmp: %w", err)
	}
	if !has {
		if err := p.makeShared(ctx, id, "tmp"); err != nil {
			return fmt.Errorf("make /tmp: %w", err)
		}
	}
	if p.config.PlainExec {
		// A user other than root could make none in most images.
		if err := p.makeShared(ctx, id, strings.TrimPrefix(plainDir, "/")); err != nil {
			return fmt.Errorf("make %s: %w", plainDir, err)
		}
	}
	if pl.Binary != "" || p.config.PlainExec {
		return nil
	}
	if err := p.uploadBinary(ctx, id); err != nil {
		return fmt.Errorf("copy the server into it: %w", err)
	}
	return nil
}

// makeShared makes a directory below the root of a container that everybody may
// write to, as /tmp is.
func (p *Provider) makeShared(ctx context.Context, id, name string) error {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	if err := errors.Join(tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o1777}), tw.Close()); err != nil {
		return err
	}
	return p.engine.copyIn(ctx, id, "/", &b)
}

// temp reports whether an image has a /tmp, by the first container made from it.
// Where commands start below /tmp the engine has made it, for root alone, so it only
// counts if everybody may write to it.
func (i *images) temp(ctx context.Context, image, container, dir string) (bool, error) {
	i.mu.Lock()
	has, known := i.hasTemp[image]
	i.mu.Unlock()
	if known {
		return has, nil
	}
	mode, err := i.engine.stat(ctx, container, "/tmp")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	has = err == nil
	if dir = path.Clean(dir); dir == "/tmp" || strings.HasPrefix(dir, "/tmp/") {
		return has && (mode.Perm()&0o002 != 0 || !mode.IsDir()), nil
	}
	i.mu.Lock()
	i.hasTemp[image] = has
	i.mu.Unlock()
	return has, nil
}

// uploadBinary copies the server into a container.
func (p *Provider) uploadBinary(ctx context.Context, id string) error {
	f, err := os.Open(p.binary.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(binaryPath, "/"), Mode: 0o555, Size: info.Size()})
		if err == nil {
			_, err = io.CopyN(tw, f, info.Size())
		}
		if err == nil {
			err = tw.Close()
		}
		_ = w.CloseWithError(err) // nil means end of file
	}()
	err = p.engine.copyIn(ctx, id, "/", r)
	_ = r.Close() // ends the writer when the engine did not read to the end
	return err
}

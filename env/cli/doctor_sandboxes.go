package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/internal/procguard"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
)

// local runs a command in a local sandbox and looks at what that rests on.
func (d *doctor) local(ctx context.Context) []finding {
	p, err := local.New(local.Config{})
	if err != nil {
		fix := "set TMPDIR to a directory you can write to"
		if strings.Contains(err.Error(), "shell") {
			fix = "install bash"
		}
		return []finding{{Check: "start", Level: levelProblem, Found: err.Error(), Fix: fix}}
	}
	defer func() { _ = closeProvider(p) }() // what is open was tried to be closed, and said
	r, err := p.Report()
	if err != nil {
		return []finding{{Check: "start", Level: levelProblem, Found: err.Error(), Fix: "set TMPDIR to a directory you can read"}}
	}
	found := []finding{tryLocal(ctx, p, r.BaseDir), localShell(r.Shell)}
	groups := finding{Check: "control groups", Level: levelOK, Found: "each sandbox gets a group of its own, so its processes are ended in one step"}
	switch {
	case runtime.GOOS != "linux":
		groups.Found = "there are none on " + runtime.GOOS + "; processes of a sandbox are searched"
	case !r.ControlGroups:
		groups = finding{Check: "control groups", Level: levelWarning, Found: "version 2 is not there or not delegated to this user: processes of a sandbox are searched, which takes longer to end them",
			Fix: "start with systemd-run --user --scope -p Delegate=yes " + d.typed("…") + "; on a system with version 1, boot with systemd.unified_cgroup_hierarchy=1"}
	}
	return append(found, groups, d.keys(), d.leftovers(r.Held, r.Abandoned, "sandbox", "sandboxes"),
		d.spaceFinding(r.BaseDir, "remove files, or set TMPDIR to a larger disk"))
}

// keys says whether a command in a local sandbox could read the keys of this program.
func (d *doctor) keys() finding {
	const fix = "use another backend, or start as a user who is not root"
	switch {
	case d.app.exposed != nil:
		return finding{Check: "keys", Level: levelWarning, Found: "commands can read the keys of this program: " + d.app.exposed.Error(), Fix: fix}
	case runtime.GOOS != "linux":
		return finding{Check: "keys", Level: levelWarning, Found: "commands may be able to read the keys of this program: they are only hidden on Linux", Fix: "use another backend"}
	case procguard.ReadableByRoot():
		return finding{Check: "keys", Level: levelWarning, Found: "commands run as root, who can read the memory of this program, and the keys in it", Fix: fix}
	}
	return finding{Check: "keys", Level: levelOK, Found: "commands can't read the memory and the environment of this program"}
}

func tryLocal(ctx context.Context, p sandbox.Provider, dir string) finding {
	start := time.Now()
	err := runEcho(ctx, p)
	if err != nil {
		return finding{Check: "start", Level: levelProblem, Found: err.Error(), Fix: "set TMPDIR to a directory on a disk where programs may run"}
	}
	return finding{Check: "start", Level: levelOK, Found: fmt.Sprintf("a command ran in %s, %s from start to end", dir, shownTime(time.Since(start)))}
}

func runEcho(ctx context.Context, p sandbox.Provider) (err error) {
	s, err := p.Create(ctx, sandbox.Spec{Rollout: "doctor"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	r, err := s.Exec(ctx, sandbox.Command{Script: "echo well > here && cat here", Timeout: partLimit})
	switch {
	case err != nil:
		return fmt.Errorf("run a command in a sandbox: %w", err)
	case r.ExitCode != 0 || r.Stdout.String() != "well\n":
		return fmt.Errorf("a command in a sandbox ended with exit code %d: %s", r.ExitCode, r)
	}
	return nil
}

func localShell(path string) finding {
	if filepath.Base(path) == "bash" {
		return finding{Check: "shell", Level: levelOK, Found: path}
	}
	return finding{Check: "shell", Level: levelWarning, Found: path + " is no bash: models write bash, and functions and aliases are not kept between commands", Fix: "install bash"}
}

func (d *doctor) leftovers(held, abandoned int, one, many string) finding {
	f := finding{Check: "leftovers", Level: levelOK, Found: "none of dead runs"}
	if held > 0 {
		f.Found += fmt.Sprintf("; %d in use by runs that live", held)
	}
	if abandoned > 0 {
		what := many
		if abandoned == 1 {
			what = one
		}
		f.Level, f.Found, f.Fix = levelWarning, fmt.Sprintf("%d %s of dead runs", abandoned, what), d.typed("cleanup")
	}
	return f
}

// docker asks the engine what it can do, and starts a container. image is the
// configuration's, "" without one.
func (d *doctor) docker(ctx context.Context, image string) []finding {
	c := d.dockerConfig()
	c.Image, c.StartLimit, c.CloseLimit = image, 6*time.Second, 3*time.Second
	asking, cancel := context.WithTimeout(ctx, inspectTime)
	r, err := docker.Inspect(asking, c)
	cancel()
	if err != nil {
		return []finding{noEngine(err)}
	}
	found := d.engineFindings(r)
	if image != "" {
		f := finding{Check: "image", Level: levelOK, Found: image + " is there"}
		if !r.HasImage {
			f = finding{Check: "image", Level: levelWarning, Found: "the engine does not have " + image + "; the first rollout pulls it", Fix: "docker pull " + shellWord(image)}
		}
		found = append(found, f)
	}
	return append(found, tryDocker(ctx, c, r)...)
}

// noEngine says why no engine could be asked.
func noEngine(err error) finding {
	f := finding{Check: "engine", Level: levelProblem, Found: err.Error(), Fix: "start Docker (sudo systemctl start docker, or sudo dockerd), install it (sudo apt-get install docker.io), or set DOCKER_HOST to an engine"}
	switch {
	case errors.Is(err, os.ErrPermission):
		f.Fix = "sudo usermod -aG docker $USER, then log in again; or set DOCKER_HOST to a rootless engine"
	case errors.Is(err, context.DeadlineExceeded):
		f.Fix = "the engine takes connections and does not answer: sudo systemctl restart docker, and look at journalctl -u docker"
	case !errors.Is(err, docker.ErrNoEngine):
		f.Fix = "docker context ls and echo $DOCKER_HOST show what names the engine"
	case runtime.GOOS == "darwin":
		f.Fix = "start Docker Desktop, or podman machine start, or set DOCKER_HOST"
	}
	return f
}

// engineFindings judges what an engine says of itself.
func (d *doctor) engineFindings(r docker.Report) []finding {
	found := []finding{
		{Check: "engine", Level: levelOK, Found: fmt.Sprintf("answers at %s (from %s)", r.Endpoint, r.From)},
		engineVersion(r), engineStorage(r), engineGroups(r), engineLimits(r), engineIsolation(r),
	}
	switch _, err := os.Stat(r.Root); {
	case r.Local && err == nil:
		found = append(found, d.spaceFinding(r.Root, "docker system df shows what takes room; docker image prune and docker builder prune free it"))
	default:
		found = append(found, finding{Check: "space", Level: levelOK, Found: "not known: the engine's directory " + r.Root + " can't be seen from here"})
	}
	left := d.leftovers(r.Held, r.Abandoned, "container", "containers")
	if r.Scratch > 0 && r.Abandoned == 0 {
		left = finding{Check: "leftovers", Level: levelWarning, Found: count(r.Scratch, "empty image") + " of an earlier check", Fix: "docker image prune --force --filter label=hermes-env.try"}
	}
	return append(found, engineNetwork(r), left)
}

// Oldest engine supported, by the newest version of its API; podman counts its own
// versions in another way.
const (
	oldestEngine = "20.10"
	oldestAPI    = "1.41"
)

func engineVersion(r docker.Report) finding {
	engine := ""
	if r.Podman {
		engine = "podman "
	}
	f := finding{Check: "version", Level: levelOK, Found: engine + fmt.Sprintf("%s, API %s, %s/%s", r.Version, r.APIVersion, r.OS, r.Arch)}
	switch {
	case r.OS != "linux":
		f.Level, f.Fix = levelProblem, "switch the engine to linux containers"
	case olderThan(r.APIVersion, oldestAPI):
		f.Level, f.Fix = levelProblem, fmt.Sprintf("update the engine to %s or newer (API %s)", oldestEngine, oldestAPI)
	}
	return f
}

// olderThan compares versions of the form major.minor; what can't be read is old.
func olderThan(version, than string) bool {
	major, minor, ok := readVersion(version)
	wantMajor, wantMinor, _ := readVersion(than)
	return !ok || major < wantMajor || major == wantMajor && minor < wantMinor
}

func readVersion(s string) (major, minor int, ok bool) {
	a, b, _ := strings.Cut(s, ".")
	major, err := strconv.Atoi(a)
	minor, err2 := strconv.Atoi(b)
	return major, minor, err == nil && err2 == nil
}

func engineStorage(r docker.Report) finding {
	f := finding{Check: "storage", Level: levelOK, Found: r.StorageDriver}
	if r.BackingFS != "" {
		f.Found += " on " + r.BackingFS
	}
	switch r.StorageDriver {
	case "overlay":
		if r.Podman { // its name for what Docker calls overlay2
			break
		}
		fallthrough
	case "devicemapper", "aufs":
		f.Level, f.Found = levelWarning, f.Found+": no longer maintained"
		f.Fix = `{"storage-driver": "overlay2"} in /etc/docker/daemon.json, then sudo systemctl restart docker`
	case "vfs":
		f.Level, f.Found = levelWarning, f.Found+": copies the whole image for every container"
		f.Fix = `{"storage-driver": "overlay2"} in /etc/docker/daemon.json, then sudo systemctl restart docker (rootless: fuse-overlayfs)`
	}
	return f
}

func engineGroups(r docker.Report) finding {
	if r.CgroupDriver == "none" {
		return finding{Check: "control groups", Level: levelProblem, Found: "none: containers can't be limited",
			Fix: "for a rootless engine, boot with control groups version 2 and delegate them: https://rootlesscontaine.rs/getting-started/common/cgroup2/"}
	}
	version := r.CgroupVersion
	if version == "" {
		version = "1 (the engine does not say)"
	}
	return finding{Check: "control groups", Level: levelOK, Found: fmt.Sprintf("version %s, driver %s", version, r.CgroupDriver)}
}

func engineLimits(r docker.Report) finding {
	var missing, lesser []string
	for _, l := range []struct {
		name string
		has  bool
		list *[]string
	}{{"memory", r.MemoryLimit, &missing}, {"processes", r.PIDsLimit, &missing}, {"processors", r.CPULimit, &lesser}, {"swap", r.SwapLimit, &lesser}} {
		if !l.has {
			*l.list = append(*l.list, l.name)
		}
	}
	f := finding{Check: "limits", Level: levelOK, Found: "memory, swap, processes and processors can be limited"}
	fix := "boot with cgroup_enable=memory swapaccount=1 on the kernel's command line"
	if r.Rootless {
		fix = "delegate cpu, memory and pids to your user: https://rootlesscontaine.rs/getting-started/common/cgroup2/"
	}
	switch {
	case len(missing) > 0:
		f = finding{Check: "limits", Level: levelProblem, Found: "the engine can't limit " + strings.Join(append(missing, lesser...), ", ") + ": one rollout can take the whole machine", Fix: fix}
	case len(lesser) > 0:
		f = finding{Check: "limits", Level: levelWarning, Found: "the engine can't limit " + strings.Join(lesser, ", "), Fix: fix}
	}
	return f
}

func engineIsolation(r docker.Report) finding {
	var has []string
	if r.Seccomp {
		has = append(has, "seccomp")
	}
	if r.UserNamespace {
		has = append(has, "user namespaces")
	}
	if r.Rootless {
		has = append(has, "rootless")
	}
	if !r.Seccomp {
		return finding{Check: "isolation", Level: levelWarning, Found: strings.Join(append([]string{"system calls are not filtered"}, has...), ", "),
			Fix: "run an engine with its default seccomp profile, on a kernel with CONFIG_SECCOMP_FILTER"}
	}
	return finding{Check: "isolation", Level: levelOK, Found: strings.Join(has, ", ")}
}

// engineNetwork judges the network that all sandboxes share.
func engineNetwork(r docker.Report) finding {
	if !r.Bridge {
		return finding{Check: "network", Level: levelWarning, Found: "there is no network named bridge: only sandboxes without a network work",
			Fix: "start dockerd without --bridge=none, with iptables installed"}
	}
	f := finding{Check: "network", Level: levelOK, Found: "bridge " + strings.Join(r.Ranges, ", ")}
	for _, text := range r.Ranges {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || !prefix.Addr().Is4() {
			continue
		}
		room := 1<<(32-prefix.Bits()) - 3 // the network's own, the bridge's and the broadcast address
		f.Found += fmt.Sprintf(", addresses for %d sandboxes at once", max(room, 0))
		if room < 250 {
			f.Level, f.Fix = levelWarning, `{"bip": "172.17.0.1/16"} in /etc/docker/daemon.json, then sudo systemctl restart docker`
		}
	}
	return f
}

// tryDocker starts a container as a rollout would.
func tryDocker(ctx context.Context, c docker.Config, r docker.Report) []finding {
	if r.ServerNone != nil {
		f := finding{Check: "start", Level: levelProblem, Found: r.ServerNone.Error(),
			Fix: buildFix(r.Arch)}
		if c.Binary == "" { // commands go through the engine instead
			f.Level, f.Found = levelWarning, "commands in containers will be slow and can't run in the background: "+f.Found
		}
		return []finding{f}
	}
	var (
		tried docker.Tried
		err   error
		done  = make(chan struct{})
	)
	go func() { // a call to the engine is not cut short, or it would leave a container behind
		defer close(done)
		tried, err = docker.Try(ctx, c)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return []finding{{Check: "start", Level: levelProblem, Found: fmt.Sprintf("no container was ready within %s", partLimit),
			Fix: "docker info and journalctl -u docker show what keeps the engine busy; hermes-env cleanup removes what it makes too late"}}
	}
	if err != nil {
		return []finding{{Check: "start", Level: levelProblem, Found: err.Error(), Fix: "docker info and journalctl -u docker show the engine's own trouble"}}
	}
	return []finding{{Check: "start", Level: levelOK, Found: "a container was ready for commands after " + shownTime(tried.Took)}, diskLimit(tried)}
}

// diskLimit says how exactly the disk limit of a container is kept.
func diskLimit(tried docker.Tried) finding {
	f := finding{Check: "disk limit", Level: levelOK}
	switch tried.Disk {
	case docker.DiskByEngine:
		f.Found = "kept by the engine's storage"
	case docker.DiskByMount:
		f.Found = "kept by a file system of its own for each container, on a loop device"
	case docker.DiskByWatch:
		f.Found = "kept by the server in each container, which counts: up to a quarter and 256 MiB more can be written (" + tried.NoMount + ")"
	default:
		f.Level, f.Found = levelWarning, "only the size of each file is bounded"
		f.Fix = "keep images on xfs with pquota, btrfs or zfs, or see HERMES_ENV_SANDBOX_BINARY in docs/docker.md"
	}
	return f
}

func shownTime(d time.Duration) string { return d.Round(time.Millisecond).String() }

package docker

import (
	"fmt"
	"os"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/egress"
)

// Config says which engine is used and what containers get. The zero value is usable.
type Config struct {
	// Host is the engine, as in DOCKER_HOST. Default: DOCKER_HOST, else the docker
	// command's current context, else the usual sockets of Docker and podman.
	Host string
	// Getenv looks up variables of the harness's environment. Default: os.LookupEnv.
	Getenv func(string) (string, bool)
	// Image is what sandboxes get whose Spec names none. Default: none.
	Image string
	// Run is the run's id, put into a label. Default: none.
	Run string
	// Binary is a static hermes-env for Linux and the engine's architecture. Default:
	// this program; where that is
	// none, PlainExec and a warning.
	Binary string
	// Upload copies the binary into each container instead of mounting it, as is done
	// by itself when the engine does not see this machine's files.
	Upload bool
	// PlainExec runs commands through the engine's exec call instead of a server in the
	// container: much slower, without background processes and terminals, and only in
	// images with a shell and the usual small programs. For engines of an architecture
	// that no binary is at hand for.
	PlainExec bool
	// CPUs is how many processors a container may use. Default: no limit.
	CPUs float64
	// MemoryBytes is how much memory a container may use; there is no swap beyond it.
	// Default: 4 GiB. Negative: no limit.
	MemoryBytes int64
	// PIDs is how many processes and threads a container may have. Default: 2048.
	// Negative: no limit.
	PIDs int64
	// DiskBytes bounds the container's writable layer where the storage driver can,
	// and each file everywhere. Default: 10 GiB. Negative: no limit.
	DiskBytes int64
	// DiskWatch has the server in containers watch what they write where the storage driver
	// can't bound it, also where this program could give each a file system of its own.
	DiskWatch bool
	// OpenFiles is how many files a process may have open. Default: 65536, or what the
	// engine itself may have where that is less.
	OpenFiles int64
	// Network is what containers get whose Spec does not say. Default: a bridge that all
	// sandboxes share and where they do not reach each other.
	Network sandbox.Network
	// Idle is how long a container lives that nobody uses or holds a lease on, and
	// without a word from this program. Default: for ever.
	Idle time.Duration
	// Egress says how the proxy of sandboxes with an allow list connects; its Hosts come
	// from the Spec. Default: to the addresses of the public Internet only.
	Egress egress.Config
	// MaxConnections bounds the connections through such proxies at once, of all
	// sandboxes together. Default: 512.
	MaxConnections int
	// MaxStarting is how many containers start at once when the engine is warm.
	// Default: 8.
	MaxStarting int
	// StartLimit bounds creating and starting one container, without its image.
	// Default: 2 minutes.
	StartLimit time.Duration
	// ImageLimit bounds pulling or building one image. Default: 30 minutes.
	ImageLimit time.Duration
	// Pull says when images are pulled. Default: PullMissing.
	Pull PullPolicy
	// ForceBuild builds every folder once, although its image is there.
	ForceBuild bool
	// Share limits pulls and builds, and shares them with other providers that have the
	// same Share. Default: one of its own.
	Share *Share
	// ImageBudget is how many bytes the images may hold that this provider pulls or
	// builds; beyond it, those that no sandbox and no planned attempt (Retain) needs are
	// removed. Default: no limit, all are kept.
	ImageBudget int64
	// ImageIdle is how long an image is kept all the same after its last use.
	// Default: 30 s.
	ImageIdle time.Duration
	// ComposeUnsafe lets compose files ask for what reaches the machine: mounts of its
	// files, privileges, its network and processes, other containers.
	ComposeUnsafe bool
	// Capabilities are those of root in containers. Default: restricted ones.
	Capabilities sandbox.Capabilities
	// AllowNewPrivileges lets set-user-id programs such as sudo have an effect.
	AllowNewPrivileges bool
	// CloseLimit bounds removing one container. Default: 30 s.
	CloseLimit time.Duration
	// Progress is told how a pull or build goes, one line at a time, from one goroutine
	// for each image. Default: nobody.
	Progress func(image, line string)
	// Warn is told once of what works less well than it could, and why. Default: nobody.
	Warn func(message string)

	diskAsked bool // DiskBytes is somebody's wish, not the default
	// Pauses before the second try of a pull; tests shorten them.
	pullPause, rateLimitPause time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.Getenv == nil {
		c.Getenv = os.LookupEnv
	}
	if c.CPUs < 0 {
		return c, fmt.Errorf("CPUs is %g; 0 means no limit", c.CPUs)
	}
	c.diskAsked = c.DiskBytes > 0
	for _, d := range []struct {
		field *int64
		value int64
	}{{&c.MemoryBytes, 4 << 30}, {&c.PIDs, 2048}, {&c.DiskBytes, 10 << 30}, {&c.OpenFiles, 1 << 16}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.OpenFiles < 0 || c.OpenFiles > maxOpenFiles {
		return c, fmt.Errorf("OpenFiles is %d; it has to lie between 1 and %d", c.OpenFiles, maxOpenFiles)
	}
	if c.Network == "" {
		c.Network = sandbox.NetworkBridge
	}
	if err := c.Network.Validate(); err != nil {
		return c, err
	}
	if c.MaxConnections <= 0 {
		c.MaxConnections = 512
	}
	if c.MaxStarting <= 0 {
		c.MaxStarting = 8
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.StartLimit, 2 * time.Minute}, {&c.ImageLimit, 30 * time.Minute}, {&c.CloseLimit, 30 * time.Second},
		{&c.ImageIdle, imageIdle}, {&c.pullPause, pullPause}, {&c.rateLimitPause, rateLimitPause}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.Pull == "" {
		c.Pull = PullMissing
	}
	if err := c.Pull.validate(); err != nil {
		return c, err
	}
	if c.ImageBudget < 0 {
		return c, fmt.Errorf("ImageBudget is %d; 0 keeps all images", c.ImageBudget)
	}
	if c.Share == nil {
		c.Share = NewShare(0, 0)
	}
	if c.Progress == nil {
		c.Progress = func(string, string) {}
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	return c, nil
}

// maxOpenFiles is the kernel's usual ceiling for open files.
const maxOpenFiles = 1 << 20

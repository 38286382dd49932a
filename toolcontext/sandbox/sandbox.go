package sandbox

import (
	"context"
	"io"
	"time"
)

// Provider creates sandboxes of one kind. Its methods may be called from many goroutines at once.
type Provider interface {
	// Name is the backend's name in configs: local, docker, ….
	Name() string
	// Create makes a sandbox ready for commands. On error nothing is left behind.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// Reap removes what owners that no longer live have left on this machine, and
	// returns how many sandboxes that were. It never touches what a live owner holds.
	Reap(ctx context.Context) (int, error)
	// Close releases the provider; sandboxes still open are closed first.
	Close(ctx context.Context) error
}

// Spec says what sandbox a rollout needs. Fields a backend can't honour make
// Create fail; they are never silently ignored.
type Spec struct {
	Rollout string            // id of the rollout, for labels and directory names
	Image   string            // container image; "" means the backend's default
	Dir     string            // working directory of commands; "" means the backend's default
	Env     map[string]string // environment of every command, beyond the backend's own

	// ImageHint says what else can be done when Image can't be had; it is added to the error.
	ImageHint string

	Build        string       // folder with a Dockerfile to build the image from, instead of Image
	BuildOptions BuildOptions // how Build is built
	// Compose starts a project of several containers; nil means one container. Fields
	// of the Spec other than Image and Build apply to the container of Compose.Service.
	Compose *Compose

	User        string  // who commands run as: name or id, with :group if wanted; "" means the image's
	CPUs        float64 // processors the sandbox may use; 0 means the backend's default
	MemoryBytes int64   // memory the sandbox may use; 0 means the backend's default
	PIDs        int64   // processes and threads the sandbox may have; 0 means the backend's default
	DiskBytes   int64   // bytes the sandbox may write, as far as the backend can bound it; 0 means its default
	Network     Network // what the sandbox can reach; "" means the backend's default
	// AllowedHosts are what NetworkAllowlist lets through: names (pypi.org), names with a
	// wildcard for everything below (*.pypi.org) and IPv4 addresses, each on every port.
	AllowedHosts []string
	// Healthcheck is run after the start until it succeeds; nil means the sandbox is
	// ready at once.
	Healthcheck *Healthcheck
}

// Sandbox is the place one rollout's commands run in. Its methods may be called
// from many goroutines at once; commands of one Session run one after another.
// After Close every method fails with ErrClosed. Paths are absolute, relative to
// Info.Dir, or start with ~ for Info.Home.
type Sandbox interface {
	// Exec runs a command to its end. A non-zero exit code, a timeout or a
	// cancelled ctx is a Result (with partial output); an error means the sandbox
	// failed. Exec returns when the command's own process has ended, also when
	// children it left behind keep its pipes open; those run on until KillAll or
	// Close. On timeout and cancel the whole process tree is killed before Exec
	// returns. A program that is not found is exit code 127; one that can't be run,
	// or a Dir that can't be entered, is 126. A Command that is wrong in itself wraps
	// ErrInvalidCommand.
	Exec(ctx context.Context, c Command) (Result, error)
	// Upload unpacks a tar stream under dir, which is created. Files, directories and
	// links keep their modes and times; what is there under their names is replaced.
	// Entries that would land outside dir, and links that leave it, wrap
	// ErrUnsafeArchive and nothing outside is written.
	Upload(ctx context.Context, tar io.Reader, dir string) error
	// Download returns a file or a directory as a tar stream whose entry names are
	// relative to path's parent. Links are stored, not followed, but for path itself;
	// pipes, sockets and devices are left out. A path that does not exist wraps
	// fs.ErrNotExist. The caller closes the stream, also before its end.
	Download(ctx context.Context, path string) (io.ReadCloser, error)
	// KillAll ends every process started in the sandbox, background ones included,
	// and returns when they are gone; an Exec under way returns with 128+9. The
	// sandbox stays usable.
	KillAll(ctx context.Context) error
	// Info describes the sandbox.
	Info() Info
	// Close ends every process and removes the sandbox, also when ctx has ended. Calls
	// under way return ErrClosed. A second Close does nothing.
	Close(ctx context.Context) error
}

// Info describes a live sandbox.
type Info struct {
	Backend string // the provider's name
	ID      string // unique on this machine
	Image   string // image reference, "" where there is none
	Digest  string // content digest of the image, "" where there is none
	Home    string // home directory of commands
	Dir     string // working directory a new session starts in
	TempDir string // a directory for scratch files inside the sandbox
}

// Command is one command: Args when it is not nil, else Script, which may be empty.
type Command struct {
	Args   []string // program and arguments, run without a shell
	Script string   // text run by the sandbox's shell (bash where there is one, else sh)
	// Session keeps state between scripts: the script starts with the working
	// directory and exported variables that the last Session script left, and leaves
	// its own; functions and aliases too where the shell is bash. Shell options and
	// other variables are not kept. A script that is killed, replaces its shell (exec)
	// or exits under an EXIT trap of its own leaves the session as it was. When the
	// directory is gone the next script starts in the nearest one above, and a line at
	// the start of stderr says so. Only for Script.
	Session bool
	// Dir is the working directory of this command only; a relative one starts at the
	// session's or the sandbox's. "" means that one itself.
	Dir string
	Env map[string]string // added to the environment of this command only
	// Stdin is copied to the command until it ends; a Read under way then is not
	// waited for. nil means /dev/null.
	Stdin   io.Reader
	Timeout time.Duration // wall clock from the start of the process; 0 means none but ctx
	// MaxOutput bounds the bytes kept of each stream while they are produced:
	// the first 40 % and the last 60 %. 0 means DefaultMaxOutput.
	MaxOutput int
	// Merge writes stderr into Stdout in the order the command wrote them.
	Merge bool
	// Terminal runs the command on a pseudo terminal of its own, where all it writes
	// is Stdout. Only for Starter.Start.
	Terminal *Terminal
}

// DefaultMaxOutput is how many bytes of each stream are kept when a Command does not say.
const DefaultMaxOutput = 1 << 20

// Exit codes reported for commands that the sandbox ended.
const (
	ExitTimeout   = 124
	ExitCancelled = 130
)

// Result is how a command ended.
type Result struct {
	Stdout, Stderr Output
	ExitCode       int // 128+n when signal n ended it; ExitTimeout; ExitCancelled
	TimedOut       bool
	Cancelled      bool // ctx ended first
	Duration       time.Duration
}

// Output is what was kept of one stream.
type Output struct {
	Head  []byte // the beginning; everything when Total == len(Head)+len(Tail)
	Tail  []byte // the end, when the middle was dropped or does not fit in Head
	Total int64  // bytes the command wrote
}

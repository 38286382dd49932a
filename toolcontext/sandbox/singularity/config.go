package singularity

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Name is the backend's name in configs.
const Name = "singularity"

// ErrNoCommand is wrapped by New where neither apptainer nor singularity is installed.
var ErrNoCommand = errors.New("neither apptainer nor singularity is installed")

// Config says which command is used and what instances get.
type Config struct {
	// Command is the program. Default: apptainer, else singularity, from PATH.
	Command string
	// Image is what sandboxes get whose Spec names none: a SIF file, a directory made
	// by build --sandbox, or a reference (docker://…, library://…, oras://…); a plain
	// name is one of docker://. Default: none.
	Image string
	// Idle is how long an instance's server lives that nobody uses or holds a lease on,
	// and without a word from this program; the instance is stopped by Close or Reap.
	// Default: for ever.
	Idle time.Duration
	// Binary is a static hermes-env for Linux. Default: this program.
	Binary string
	// Environ is the harness's environment, of which the command gets a part. Default:
	// the process's own.
	Environ []string
	// BaseDir is where the rollouts' directories are. Default: hermes-env-singularity-UID
	// in the system's directory for temporary files.
	BaseDir string
	// ImageDir is where images from registries are kept as SIF files. Default:
	// hermes-env/sif in the user's cache directory.
	ImageDir string
	// MaxStarting is how many instances start at once. Default: 4.
	MaxStarting int
	// StartLimit bounds starting one instance. Default: 2 minutes.
	StartLimit time.Duration
	// ImageLimit bounds fetching one image. Default: 30 minutes.
	ImageLimit time.Duration
	// CloseLimit bounds stopping one instance. Default: 30 s.
	CloseLimit time.Duration
	// Progress is told when an image is fetched, which takes long. Default: nobody.
	Progress func(image, line string)
}

func (c Config) withDefaults() (Config, error) {
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Progress == nil {
		c.Progress = func(string, string) {}
	}
	command, err := findCommand(c.Command)
	if err != nil {
		return c, err
	}
	c.Command = command
	if c.BaseDir == "" {
		c.BaseDir = filepath.Join(os.TempDir(), "hermes-env-singularity-"+strconv.Itoa(os.Getuid()))
	}
	if c.BaseDir, err = filepath.Abs(c.BaseDir); err != nil {
		return c, err
	}
	if strings.ContainsAny(c.BaseDir, ":,\n") {
		return c, fmt.Errorf("the directory %s has a colon, a comma or a line break in its name, so it can't be mounted; name another as BaseDir", c.BaseDir)
	}
	if c.ImageDir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return c, fmt.Errorf("find the user's cache directory: %w; set HOME", err)
		}
		c.ImageDir = filepath.Join(cache, "hermes-env", "sif")
	}
	if c.MaxStarting <= 0 {
		c.MaxStarting = 4
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.StartLimit, 2 * time.Minute}, {&c.ImageLimit, 30 * time.Minute}, {&c.CloseLimit, 30 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return c, nil
}

// findCommand returns the program's path.
func findCommand(name string) (string, error) {
	if name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("find the command %s: %w", name, err)
		}
		return path, nil
	}
	for _, name := range []string{"apptainer", "singularity"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w (looked in PATH); install Apptainer (https://apptainer.org/docs/admin/latest/installation.html) or load its module (module load apptainer)", ErrNoCommand)
}

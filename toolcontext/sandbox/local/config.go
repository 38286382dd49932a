package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Config says how local sandboxes are made. The zero value is usable.
type Config struct {
	// BaseDir holds the sandboxes' directories. Default: hermes-env-<uid> in the
	// system's directory for temporary files.
	BaseDir string
	// Run is the run's id, written beside each sandbox for people who look. Default: none.
	Run string
	// Shell runs scripts: the path of bash or of a POSIX sh. Default: bash where
	// there is one, else sh, both searched in the harness's PATH and in /bin.
	Shell string
	// Environ is the environment the allow-list is applied to, as "name=value".
	// Default: the harness's own.
	Environ []string
	// PassEnv names variables of Environ that commands get beyond the allow-list.
	PassEnv []string
	// Grace is how long a command that timed out has between SIGTERM to its process
	// group and SIGKILL to its whole tree. Default: 200 ms. Negative: none.
	Grace time.Duration
	// KillWait bounds the wait for killed processes to be gone. Default: 10 s.
	KillWait time.Duration
	// Subreaper makes this process adopt orphans of its children (Linux), so that
	// daemons that shed every other trace are found when sandboxes close. It holds
	// for the whole process, which must then start no other child in a session of
	// its own (Setsid): such a child would be taken for an orphan. Default: off.
	Subreaper bool
	// Place is set by a harness that runs inside the sandbox itself. Default: none,
	// each sandbox gets directories of its own.
	Place *Place
	// NoCgroups keeps the provider from using control groups where it could.
	NoCgroups bool
}

// withDefaults fills what is unset and checks the rest.
func (c Config) withDefaults() (Config, error) {
	if c.BaseDir == "" {
		c.BaseDir = filepath.Join(os.TempDir(), "hermes-env-"+strconv.Itoa(os.Getuid()))
	}
	abs, err := filepath.Abs(c.BaseDir)
	if err != nil {
		return c, fmt.Errorf("find the directory for local sandboxes %s: %w", c.BaseDir, err)
	}
	c.BaseDir = abs
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Grace == 0 {
		c.Grace = 200 * time.Millisecond
	}
	if c.KillWait <= 0 {
		c.KillWait = 10 * time.Second
	}
	if c.Shell == "" && c.Place != nil {
		return c, nil // looked for by each script: the image may get one later
	}
	if c.Shell == "" {
		c.Shell = findShell()
	}
	if c.Shell == "" {
		return c, fmt.Errorf("no shell found: local sandboxes need bash or sh in PATH or /bin, or Config.Shell")
	}
	path, err := exec.LookPath(c.Shell)
	if err != nil {
		return c, fmt.Errorf("use %s as the shell of local sandboxes: %w", c.Shell, err)
	}
	if c.Shell, err = filepath.Abs(path); err != nil {
		return c, fmt.Errorf("use %s as the shell of local sandboxes: %w", path, err)
	}
	return c, nil
}

func findShell() string {
	for _, name := range []string{"bash", "/bin/bash", "sh", "/bin/sh"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

package local

import (
	"errors"
	"path/filepath"
	"syscall"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Place is where commands live when this process is itself inside the sandbox: in
// directories that are there already. The provider then makes one sandbox, which
// passes on the whole environment, ends every descendant of this process and leaves
// the directories as they are. BaseDir holds no more than what passes between the
// harness and its shells.
type Place struct {
	Home    string // home directory of commands
	Dir     string // working directory that sessions start in; made when missing
	TempDir string // a directory for scratch files
	// Everything makes all processes that can be seen the sandbox's own: right for
	// the first process of a container, which only shares it with the rollout.
	Everything bool
	// Spare, when set, is a directory for what BaseDir has no room for: a rollout that
	// has filled its disk has to be able to delete files.
	Spare string
	// Starting, when set, is called before a process is started; what it returns is
	// called once the process runs, or can't be started.
	Starting func() (started func())
	// Ambient are numbers of capabilities that commands get whatever their user is (Linux).
	Ambient []uintptr
}

// errNoShell is what a script gets where there is nothing to run it.
var errNoShell = errors.New("no shell: a script needs bash, sh or busybox in PATH or /bin; run a program by its arguments instead")

// shell is a program that runs scripts.
type shell struct {
	path string
	args []string // that come first: the applet's name for busybox
	bash bool
}

// findShells are the names and places where a shell is looked for.
var findShells = [...]string{"bash", "/bin/bash", "/usr/bin/bash", "sh", "/bin/sh", "busybox", "/bin/busybox"}

// shell returns the configured shell or, in a Place without, what the image has by now.
func (s *Sandbox) shell() (shell, error) {
	if s.provider.config.Shell != "" {
		return shell{path: s.provider.config.Shell, bash: s.provider.bash}, nil
	}
	for _, name := range findShells {
		path, err := lookProgram(name, "/", s.base["PATH"])
		if err != nil {
			continue
		}
		sh := shell{path: path}
		switch name {
		case "bash", "/bin/bash", "/usr/bin/bash":
			sh.bash = true
		case "busybox", "/bin/busybox":
			sh.args = []string{"busybox"}
		}
		return sh, nil
	}
	return shell{}, errNoShell
}

// exhausted is the result of a command for which a sandbox had no process, memory or disk
// left: its own doing, where the machine is the sandbox.
func (s *Sandbox) exhausted(c sandbox.Command, err error) (sandbox.Result, bool) {
	switch {
	case s.provider.config.Place == nil:
		return sandbox.Result{}, false
	case full(err):
		return failed(c, exitCannotRun, "the script can't be handed to the shell: "+reason(err)), true
	case !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.ENOMEM):
		return sandbox.Result{}, false
	}
	return failed(c, exitCannotRun, "fork: "+reason(err)+"; the sandbox's limit on processes or memory is reached"), true
}

// ReapOrphans takes the exit status of adopted processes that have ended. Without
// Config.Subreaper it does nothing.
func (p *Provider) ReapOrphans() { p.orphans.reapEnded() }

// lastResort is where commands run when no directory above their own is left.
func (s *Sandbox) lastResort() string {
	if s.provider.config.Place != nil {
		return "/"
	}
	return s.root
}

// shellName is the name that messages in a shell's manner begin with.
func (s *Sandbox) shellName() string {
	if sh, err := s.shell(); err == nil {
		return filepath.Base(sh.path)
	}
	return "sh"
}

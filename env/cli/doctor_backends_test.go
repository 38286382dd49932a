package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/singularity"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
)

func TestDoctorJudgesAMachine(t *testing.T) {
	sound := func() ssh.Report {
		return ssh.Report{
			Target: "me@box:22", Kernel: "Linux 6.1", Arch: "amd64", CacheDir: "/home/me/.cache/hermes-env",
			Sessions: 10, Asked: 10, FreeBytes: 50 << 30, SpaceKnown: true, RunsCache: true, RunsTemp: true,
		}
	}
	e := config.Env{SSHHost: "box", SSHPort: 2222, SSHUser: "me", SSHKey: "~/.ssh/it"}
	d := newDoctor(nil)
	for _, f := range d.machineFindings(e, sound()) {
		require.Equal(t, levelOK, f.Level, f)
		require.Empty(t, f.Fix, f)
	}
	for name, c := range map[string]struct {
		change func(*ssh.Report)
		check  string
		level  level
		found  string
		fix    string
	}{
		"there already":      {func(r *ssh.Report) { r.Uploaded = true }, "server", levelOK, "there already", ""},
		"another processor":  {func(r *ssh.Report) { r.Arch, r.ServerNone = "arm64", errors.New("for amd64") }, "server", levelProblem, "for amd64", "GOARCH=arm64"},
		"a directory of all": {func(r *ssh.Report) { r.CacheError = errors.New("others may write") }, "directory", levelProblem, "others may write", "ssh -p 2222 me@box"},
		"noexec":             {func(r *ssh.Report) { r.RunsCache = false }, "programs", levelProblem, "noexec", "findmnt"},
		"noexec in /tmp":     {func(r *ssh.Report) { r.RunsTemp = false }, "programs", levelWarning, "/tmp", "remount,exec"},
		"little room":        {func(r *ssh.Report) { r.FreeBytes = 2 << 30 }, "space", levelWarning, "2.0 GiB", "du"},
		"no room":            {func(r *ssh.Report) { r.FreeBytes = 1 << 20 }, "space", levelProblem, "1 MiB", "du"},
		"room not known":     {func(r *ssh.Report) { r.SpaceKnown = false }, "space", levelWarning, "not known", "du"},
		"some sessions":      {func(r *ssh.Report) { r.Sessions = 6 }, "sessions", levelOK, "6 on a connection", ""},
		"few sessions":       {func(r *ssh.Report) { r.Sessions = 1 }, "sessions", levelWarning, "1 on a connection", "MaxSessions"},
		"held":               {func(r *ssh.Report) { r.Held, r.Foreign = 2, 3 }, "leftovers", levelOK, "2 in use by runs that live; 3 of runs on other machines", ""},
		"left":               {func(r *ssh.Report) { r.Abandoned = 1 }, "leftovers", levelWarning, "1 tree of dead runs", "hermes-env cleanup --ssh-host box --ssh-port 2222 --ssh-user me --ssh-key '~/.ssh/it'"},
		"old versions":       {func(r *ssh.Report) { r.Old = 2 }, "versions", levelOK, "2 servers", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := sound()
			c.change(&r)
			f := findCheck(t, d.machineFindings(e, r), c.check)
			require.Equal(t, c.level, f.Level)
			require.Contains(t, f.Found, c.found)
			require.Contains(t, f.Fix, c.fix)
			require.Equal(t, c.fix == "", f.Fix == "", f.Fix)
		})
	}
}

func TestDoctorSaysWhyAMachineCanNotBeReached(t *testing.T) {
	e := config.Env{SSHHost: "box", SSHPort: 22}
	for want, c := range map[string]struct {
		e   config.Env
		err error
		fix string
	}{
		"host key":   {e, fmt.Errorf("%w: it is not known", ssh.ErrHostKey), "ssh box true"},
		"login":      {e, fmt.Errorf("%w: none of the keys", ssh.ErrLogin), "ssh-copy-id box"},
		"connection": {e, context.DeadlineExceeded, "ssh -v box"},
	} {
		f := noMachine(c.e, c.err)
		require.Equal(t, want, f.Check)
		require.Equal(t, levelProblem, f.Level)
		require.Contains(t, f.Fix, c.fix)
	}
	require.Contains(t, noMachine(config.Env{}, errors.New("no host")).Fix, "ssh_host")
}

func TestDoctorJudgesAnInstallation(t *testing.T) {
	sound := func() singularity.Report {
		return singularity.Report{
			Command: "/usr/bin/apptainer", Version: "apptainer version 1.4.5", Supported: true, Namespaces: singularity.Namespaces{Allowed: true},
			GroupsV2: true, Delegated: true, BaseDir: filepath.Join(t.TempDir(), "boxes"), ImageDir: t.TempDir(), Image: "/images/it.sif",
		}
	}
	forbidden := func(reason string) func(*singularity.Report) {
		return func(r *singularity.Report) { r.Namespaces = singularity.Namespaces{Reason: reason} }
	}
	d := newDoctor(nil)
	for _, f := range d.installationFindings(sound()) {
		require.Equal(t, levelOK, f.Level, f)
	}
	for name, c := range map[string]struct {
		change func(*singularity.Report)
		check  string
		level  level
		found  string
		fix    string
	}{
		"too old":             {func(r *singularity.Report) { r.Supported = false }, "command", levelProblem, "1.4.5", "1.1"},
		"no namespaces":       {forbidden("user.max_user_namespaces is 0"), "rights", levelProblem, "max_user_namespaces is 0", "user.max_user_namespaces=28633"},
		"AppArmor forbids":    {forbidden("kernel.apparmor_restrict_unprivileged_userns is 1"), "rights", levelProblem, "apparmor", "userns=0"},
		"Debian forbids":      {forbidden("kernel.unprivileged_userns_clone is 0"), "rights", levelProblem, "clone is 0", "clone=1"},
		"set-user-id":         {func(r *singularity.Report) { forbidden("x is 0")(r); r.Setuid = true }, "rights", levelOK, "set-user-id root; user namespaces are not", ""},
		"root":                {func(r *singularity.Report) { forbidden("x is 0")(r); r.Root = true }, "rights", levelOK, "root", ""},
		"version 1":           {func(r *singularity.Report) { r.GroupsV2 = false }, "control groups", levelWarning, "version 2 is not there", "unified_cgroup_hierarchy"},
		"not delegated":       {func(r *singularity.Report) { r.Delegated = false }, "control groups", levelWarning, "delegated", "Delegate="},
		"no server":           {func(r *singularity.Report) { r.ServerNone = errors.New("not static") }, "server", levelProblem, "not static", "CGO_ENABLED=0"},
		"an unreadable image": {func(r *singularity.Report) { r.ImageError = errors.New("no permission") }, "image", levelProblem, "no permission", "--env.singularity_image"},
		"one to be fetched":   {func(r *singularity.Report) { r.Reference = "docker://debian:12" }, "image", levelWarning, "docker://debian:12", "apptainer pull"},
		"no image":            {func(r *singularity.Report) { r.Image = "" }, "image", levelOK, "every item", ""},
		"left":                {func(r *singularity.Report) { r.Abandoned = 2 }, "leftovers", levelWarning, "2 instances", "cleanup"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sound()
			c.change(&r)
			f := findCheck(t, d.installationFindings(r), c.check)
			require.Equal(t, c.level, f.Level)
			require.Contains(t, f.Found, c.found)
			require.Contains(t, f.Fix, c.fix)
			require.Equal(t, c.fix == "", f.Fix == "", f.Fix)
		})
	}
}

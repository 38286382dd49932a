package singularity

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/owner"
)

// inspected returns a provider of the stand-in, and what it keeps.
func inspected(t *testing.T, image string, environ ...string) (p *Provider, state string) {
	t.Helper()
	dir := t.TempDir()
	state = filepath.Join(dir, "state")
	require.NoError(t, os.Mkdir(state, 0o700))
	command, err := filepath.Abs("testdata/apptainer")
	require.NoError(t, err)
	p, err = New(Config{
		Command: command, Image: image, Environ: append(append(os.Environ(), "APPTAINER_FAKE_STATE="+state), environ...),
		BaseDir: filepath.Join(dir, "boxes"), ImageDir: filepath.Join(dir, "sif"),
	})
	require.NoError(t, err)
	return p, state
}

// kernel makes a directory with the kernel's settings.
func kernel(t *testing.T, settings map[string]string) system {
	t.Helper()
	root := t.TempDir()
	for path, value := range settings {
		file := filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(value+"\n"), 0o600))
	}
	return system{root}
}

func TestAReportCountsWhoseInstancesThereAre(t *testing.T) {
	p, state := inspected(t, "")
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	gone := owner.This()
	gone.PID, gone.Start = dead.Process.Pid, 1
	for _, name := range []string{owner.This().NewName(), gone.NewName(), "somebody"} {
		require.NoError(t, os.WriteFile(filepath.Join(state, name), nil, 0o600))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(p.config.BaseDir, gone.NewName()), 0o700))
	r, err := p.inspect(t.Context(), kernel(t, nil))
	require.NoError(t, err)
	require.Equal(t, "apptainer version 1.4.5", r.Version)
	require.True(t, r.Supported)
	require.Equal(t, 1, r.Held)
	require.Equal(t, 2, r.Abandoned)
	require.False(t, r.Setuid)
	require.True(t, r.Namespaces.Allowed, "a kernel without these settings")
	require.False(t, r.GroupsV2)
}

func TestAReportSeesAStarterThatIsRoot(t *testing.T) {
	p, state := inspected(t, "")
	starter := filepath.Join(state+".libexec", "apptainer", "bin", "starter-suid")
	require.NoError(t, os.MkdirAll(filepath.Dir(starter), 0o700))
	require.NoError(t, os.WriteFile(starter, nil, 0o700))
	r, err := p.inspect(t.Context(), kernel(t, nil))
	require.NoError(t, err)
	require.False(t, r.Setuid)
	require.NoError(t, os.Chmod(starter, 0o700|os.ModeSetuid))
	r, err = p.inspect(t.Context(), kernel(t, nil))
	require.NoError(t, err)
	require.True(t, r.Setuid)
}

func TestKernelsThatForbidUserNamespacesAreRecognized(t *testing.T) {
	for want, settings := range map[string]map[string]string{
		"":                                      {"proc/sys/user/max_user_namespaces": "100", "proc/sys/kernel/unprivileged_userns_clone": "1", "proc/sys/kernel/apparmor_restrict_unprivileged_userns": "0"},
		"user.max_user_namespaces is 0":         {"proc/sys/user/max_user_namespaces": "0"},
		"kernel.unprivileged_userns_clone is 0": {"proc/sys/kernel/unprivileged_userns_clone": "0"},
		"kernel.apparmor_restrict_unprivileged_userns is 1": {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
	} {
		n := kernel(t, settings).namespaces()
		require.Equal(t, want, n.Reason)
		require.Equal(t, want == "", n.Allowed)
	}
}

func TestDelegatedControlGroupsAreRecognized(t *testing.T) {
	const mine = "sys/fs/cgroup/user.slice/user-7.slice/user@7.service/cgroup.controllers"
	for name, c := range map[string]struct {
		settings      map[string]string
		v2, delegated bool
	}{
		"version 1":     {nil, false, false},
		"not delegated": {map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpu memory pids"}, true, false},
		"delegated":     {map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpu memory pids", mine: "cpu memory pids"}, true, true},
		"in part":       {map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpu memory pids", mine: "memory pids"}, true, false},
	} {
		v2, delegated := kernel(t, c.settings).groups(7)
		require.Equal(t, []bool{c.v2, c.delegated}, []bool{v2, delegated}, name)
	}
}

func TestAReportLooksForTheImage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image.sif")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		image, found, reference string
		failed                  bool
	}{
		"none":            {"", "", "", false},
		"a file":          {file, file, "", false},
		"a missing file":  {file + ".sif", file + ".sif", "", true},
		"one to be asked": {"debian:12", "", "docker://debian:12", false},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := inspected(t, c.image)
			r, err := p.inspect(t.Context(), kernel(t, nil))
			require.NoError(t, err)
			require.Equal(t, c.found, r.Image)
			require.Equal(t, c.reference, r.Reference)
			require.Equal(t, c.failed, r.ImageError != nil, "%v", r.ImageError)
		})
	}
	t.Run("one that is fetched", func(t *testing.T) {
		p, _ := inspected(t, "debian:12")
		require.NoError(t, os.MkdirAll(p.config.ImageDir, 0o700))
		kept := p.imageFile("docker://debian:12")
		require.NoError(t, os.WriteFile(kept, nil, 0o600))
		r, err := p.inspect(t.Context(), kernel(t, nil))
		require.NoError(t, err)
		require.Equal(t, kept, r.Image)
		require.Empty(t, r.Reference)
	})
}

func TestVersionsThatAreTooOldAreRecognized(t *testing.T) {
	for version, want := range map[string]bool{
		"apptainer version 1.4.5": true, "apptainer version 1.1.0-rc.1": true, "apptainer version 1.0.3": false,
		"singularity-ce version 3.11.4-focal": true, "singularity-ce version 4.1.0": true, "singularity version 3.8.7": false,
		"singularity version 2.6.1-dist": false, "2.6.1-dist": false, "": true, "apptainer version unknown": true,
	} {
		require.Equal(t, want, supported(version), version)
	}
	p, _ := inspected(t, "", "APPTAINER_FAKE_VERSION=1.0.0")
	r, err := p.inspect(t.Context(), kernel(t, nil))
	require.NoError(t, err)
	require.False(t, r.Supported)
}

package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// changes is all that an agent may do to files.
const changeEverything = `set -e
echo new > /work/added; chmod 640 /work/added; chown 1000:1000 /work/added
mkdir -p /opt/tree/deep; echo x > /opt/tree/deep/file; ln -s deep/file /opt/tree/link; ln /opt/tree/deep/file /opt/tree/hard
echo changed >> /etc/passwd; rm /bin/printenv; chmod 700 /home/agent; mkfifo /work/pipe; ln -s /nowhere /work/dangling`

func TestChangesCanBeListedAndCarriedToAFreshContainer(t *testing.T) {
	p := newProvider(t, docker.Config{})
	from := open(t, p, sandbox.Spec{})
	sh(t, from, changeEverything)
	changer := from.(sandbox.Changer)
	list, err := changer.Changes(t.Context())
	require.NoError(t, err)
	kinds := map[string]sandbox.ChangeKind{}
	for _, c := range list {
		kinds[c.Path] = c.Kind
	}
	require.Equal(t, map[string]sandbox.ChangeKind{
		"/work": sandbox.Modified, "/work/added": sandbox.Added, "/work/pipe": sandbox.Added, "/work/dangling": sandbox.Added,
		"/opt": sandbox.Added, "/opt/tree": sandbox.Added, "/opt/tree/deep": sandbox.Added, "/opt/tree/deep/file": sandbox.Added, "/opt/tree/link": sandbox.Added, "/opt/tree/hard": sandbox.Added,
		"/etc": sandbox.Modified, "/etc/passwd": sandbox.Modified, "/bin": sandbox.Modified, "/bin/printenv": sandbox.Deleted,
		"/home": sandbox.Modified, "/home/agent": sandbox.Modified,
	}, without(kinds, "/tmp", "/dev", "/proc", "/sys"))
	var stored bytes.Buffer
	require.NoError(t, changer.Export(t.Context(), list, &stored))
	names := map[string]int{}
	for r := tar.NewReader(bytes.NewReader(stored.Bytes())); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		names[h.Name]++
	}
	require.Equal(t, 1, names["opt/tree/deep/file"], "everything is stored once: %v", names)

	to := open(t, p, sandbox.Spec{})
	require.NoError(t, to.(sandbox.Cleaner).Remove(t.Context(), "/bin/printenv"))
	require.NoError(t, to.(sandbox.Changer).Import(t.Context(), &stored))
	const look = `cd /; stat -c '%n %a %u %g %F' work/added opt/tree opt/tree/deep/file opt/tree/link home/agent work/pipe; cat work/added opt/tree/link; tail -n 1 etc/passwd; readlink work/dangling; ls bin/printenv 2>&1; stat -c %h opt/tree/hard`
	require.Equal(t, run(t, from, sandbox.Command{Script: look}).String(), run(t, to, sandbox.Command{Script: look}).String())
}

func without(kinds map[string]sandbox.ChangeKind, names ...string) map[string]sandbox.ChangeKind {
	for _, n := range names {
		delete(kinds, n)
	}
	return kinds
}

func TestASnapshotHasTheFilesAndNothingElse(t *testing.T) {
	p := newProvider(t, docker.Config{})
	from := open(t, p, sandbox.Spec{User: "agent", Env: map[string]string{"GIVEN": "1"}})
	sh(t, from, "echo mine > ~/file; (setsid sleep 600 &) ; export LEFT=1")
	image, release, err := from.(sandbox.Snapshotter).Snapshot(t.Context())
	require.NoError(t, err)
	func() {
		fresh, err := p.Create(t.Context(), sandbox.Spec{Image: image})
		require.NoError(t, err)
		defer func() { require.NoError(t, fresh.Close(context.Background())) }()
		require.Equal(t, "mine\n0\n/work\n", sh(t, fresh, `cat /home/agent/file; id -u; pwd; printenv LEFT || true`), "the image's own user")
		require.NotContains(t, dockertest.Command(t, "top", fresh.(container).Container(), "-o", "pid,args"), "sleep")
	}()
	require.NoError(t, release(t.Context()))
	require.NoError(t, release(t.Context()), "a second time is no error")
	require.NotContains(t, dockertest.Command(t, "images", "-aq", "--no-trunc"), image)
}

func TestOtherUsersCanEnterASandbox(t *testing.T) {
	p := newProvider(t, docker.Config{})
	s := open(t, p, sandbox.Spec{User: "agent", Env: map[string]string{"GIVEN": "1"}})
	require.ErrorContains(t, s.(sandbox.Cleaner).Clean(t.Context(), "/tests", 0o755), "permission denied")
	for user, want := range map[string]string{"0": "0", "root": "0", "": "0", "agent": "1000"} {
		other, err := s.(sandbox.UserSwitcher).As(t.Context(), user)
		require.NoError(t, err, user)
		require.Equal(t, want+"\n/work\n1\n", sh(t, other, `id -u; pwd; echo "$GIVEN"`), user)
		require.NoError(t, other.Close(t.Context()))
	}
	root, err := s.(sandbox.UserSwitcher).As(t.Context(), "0")
	require.NoError(t, err)
	require.NoError(t, root.(sandbox.Cleaner).Clean(t.Context(), "/tests", 0o755))
	r := run(t, root, sandbox.Command{Script: "(setsid sleep 601 > /dev/null 2>&1 &)"})
	require.Zero(t, r.ExitCode)
	require.NoError(t, root.Close(t.Context()))
	require.NotContains(t, dockertest.Command(t, "top", s.Container(), "-o", "pid,args"), "sleep 601", "what was started through the door ends with it")
	_, err = s.(sandbox.UserSwitcher).As(t.Context(), "no-such-user")
	require.ErrorContains(t, err, "no-such-user")
	require.Equal(t, "1000\n", sh(t, s, "id -u"))
}

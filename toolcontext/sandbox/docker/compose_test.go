package docker_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/sandboxtest"
)

// requireCompose skips where no compose command is installed; CI installs one.
func requireCompose(t *testing.T) {
	t.Helper()
	dockertest.RequireEngine(t)
	if exec.Command("docker", "compose", "version").Run() == nil || exec.Command("docker-compose", "version").Run() == nil {
		return
	}
	t.Skip("needs docker compose or docker-compose")
}

// compose writes a project's folder and returns its spec.
func compose(t *testing.T, file string, more map[string]string) sandbox.Spec {
	t.Helper()
	dir := t.TempDir()
	more = mergeFiles(more, map[string]string{"docker-compose.yaml": strings.ReplaceAll(file, "IMAGE", dockertest.Image)})
	for name, content := range more {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	return sandbox.Spec{Compose: &sandbox.Compose{File: dir}}
}

func mergeFiles(a, b map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

// left lists what the engine still has with a label.
func left(t *testing.T, label string) string {
	filter := "label=" + label
	return dockertest.Command(t, "ps", "-aq", "--filter", filter) + dockertest.Command(t, "network", "ls", "-q", "--filter", filter) + dockertest.Command(t, "volume", "ls", "-q", "--filter", filter)
}

const webProject = `
version: "3.8"
x-common: &common
  image: IMAGE
services:
  main:
    <<: *common
    container_name: the-only-one
    depends_on:
      web:
        condition: service_healthy
    environment:
      FROM_FILE: "${WORD:-fallback} $$5"
    env_file: settings.env
    ports: ["18080:80"]
    volumes:
      - data:/data
      - ./given:/given
  web:
    <<: *common
    command: ["sh", "-c", "mkdir -p /www && echo served > /www/index.html && exec httpd -f -p 80 -h /www"]
    healthcheck:
      test: ["CMD", "wget", "-q", "-O", "-", "http://127.0.0.1/"]
      interval: 1s
      retries: 20
volumes:
  data: {}
`

func TestAProjectOfSeveralContainersIsOneSandbox(t *testing.T) {
	requireCompose(t)
	p := newProvider(t, docker.Config{Network: sandbox.NetworkBridge})
	spec := compose(t, webProject, map[string]string{"settings.env": "# comment\nSETTING=\"from the file\"\n", "given/file": "read only"})
	spec.Env = map[string]string{"ASKED": "yes"}
	spec.Compose.Variables = map[string]string{"WORD": "word"}
	spec.PIDs, spec.MemoryBytes, spec.User = 333, 200<<20, "agent"
	t.Setenv("WORD", "of the harness")
	// Two at once: what a file fixes (names, ports) does not make them collide.
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			s, err := p.Create(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			c := s.(container)
			project := dockertest.Command(t, "inspect", "-f", `{{index .Config.Labels "hermes-env.project"}}`, c.Container())
			got, err := s.Exec(t.Context(), sandbox.Command{Script: `wget -q -O - http://web/; echo "$FROM_FILE|$SETTING|$ASKED|$PAGER|$(id -u)"; cat /given/file; echo x > /given/file || echo refused; ls -d /data; pwd`})
			if err != nil || got.Stdout.String() != "served\nword $5|from the file|yes|cat|1000\nread onlyrefused\n/data\n/work\n" {
				t.Errorf("%s, %v", got, err)
			}
			limits := dockertest.Command(t, "inspect", "-f", "{{.HostConfig.Memory}} {{.HostConfig.PidsLimit}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}}", c.Container())
			if limits != "209715200 333 [ALL] [no-new-privileges]" {
				t.Error(limits)
			}
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if rest := left(t, "hermes-env.project="+project); project == "" || rest != "" {
				t.Errorf("project %q left %s", project, rest)
			}
		})
	}
	wg.Wait()
}

func TestConformanceInAComposeProject(t *testing.T) {
	requireCompose(t)
	spec := compose(t, "services:\n  main:\n    image: IMAGE\n    init: true\n    command: [sleep, '1000000']\n", nil)
	only := []string{"life"} // starting a project takes a second or more, and there are many tests
	if os.Getenv(dockertest.RequireVariable) == "1" {
		only = []string{"life", "commands"}
	}
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider {
		return composed{newProvider(t, docker.Config{}), spec.Compose}
	}, sandboxtest.Options{NoFunctions: true, Only: only})
}

func TestTheServerServesHoweverItComesIntoTheMainContainer(t *testing.T) {
	requireCompose(t)
	for name, c := range map[string]struct {
		file   string
		upload bool
		first  string // the first process, as ps shows it
	}{
		"as its first process":             {"services:\n  main:\n    image: IMAGE\n", false, "sandbox-server"},
		"beside its first process":         {"services:\n  main:\n    image: IMAGE\n    command: [sleep, '1000000']\n", false, "sleep"},
		"copied, as its first process":     {"services:\n  main:\n    image: IMAGE\n", true, "sandbox-server"},
		"copied, beside its first process": {"services:\n  main:\n    image: IMAGE\n    command: [sleep, '1000000']\n", true, "sleep"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, docker.Config{Upload: c.upload})
			s := open(t, p, compose(t, c.file, nil))
			require.Contains(t, sh(t, s, "cat /proc/1/cmdline"), c.first)
			r := run(t, s, sandbox.Command{Script: "sleep 1000 & cat; exit 3", Stdin: strings.NewReader("in")})
			require.Equal(t, 3, r.ExitCode)
			require.Equal(t, "in", r.Stdout.String())
			require.NoError(t, s.KillAll(t.Context()))
			require.NotContains(t, sh(t, s, "ps"), "sleep 1000\n")
			require.NoError(t, s.Close(t.Context()))
		})
	}
}

// composed makes every sandbox a compose project.
type composed struct {
	*docker.Provider
	project *sandbox.Compose
}

func (c composed) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	spec.Compose = c.project
	return c.Provider.Create(ctx, spec)
}

func TestTheImagesOfAProjectAreBuiltHere(t *testing.T) {
	requireCompose(t)
	p := newProvider(t, docker.Config{})
	spec := compose(t, "services:\n  main:\n    build:\n      context: app\n      args: [WHO=you]\n", map[string]string{
		"app/Dockerfile": "FROM " + dockertest.Image + "\nARG WHO\nRUN echo hello $WHO > /hello\n",
	})
	require.NoError(t, p.Prepare(t.Context(), spec))
	release := p.Retain(spec)
	defer release()
	s := open(t, p, spec)
	require.Equal(t, "hello you\n", sh(t, s, "cat /hello"))
	image := dockertest.Command(t, "inspect", "-f", "{{.Image}}", s.Container())
	require.Equal(t, s.Info().Digest, image)
	require.NoError(t, s.Close(t.Context()))
	dockertest.Command(t, "rmi", "-f", image)
}

func TestAProjectThatDoesNotComeUpIsAnErrorAndLeavesNothing(t *testing.T) {
	requireCompose(t)
	p := newProvider(t, docker.Config{Run: "failing-project"})
	for want, file := range map[string]string{
		"exit code 7": "services:\n  main: {image: IMAGE}\n  db: {image: IMAGE, command: [sh, -c, 'exit 7']}\n",
		"unhealthy":   "services:\n  main: {image: IMAGE}\n  db: {image: IMAGE, command: [sleep, '100'], healthcheck: {test: [CMD, 'false'], interval: 1s, retries: 1}}\n",
		"no service":  "services:\n  web: {image: IMAGE}\n",
		"no mapping":  "- x\n",
		"nor a build": "services:\n  main: {image: IMAGE}\n  db: {command: x}\n",
	} {
		_, err := p.Create(t.Context(), compose(t, file, nil))
		require.ErrorContains(t, err, want)
		require.Empty(t, left(t, "hermes-env.run=failing-project"))
	}
	_, err := p.Create(t.Context(), sandbox.Spec{Compose: &sandbox.Compose{File: t.TempDir()}})
	require.ErrorContains(t, err, "has no compose file")
	t.Setenv("PATH", t.TempDir())
	_, err = p.Create(t.Context(), compose(t, "services:\n  main: {image: IMAGE}\n", nil))
	require.ErrorIs(t, err, docker.ErrNoCompose)
	require.ErrorContains(t, err, "install")
}

func TestComposeFilesCanNotReachTheMachine(t *testing.T) {
	p := newProvider(t, docker.Config{})
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600))
	for key, service := range map[string]string{
		"privileged":                   "privileged: true",
		"network_mode":                 "network_mode: host",
		"pid":                          "pid: host",
		"ipc":                          "ipc: host",
		"uts":                          "uts: host",
		"userns_mode":                  "userns_mode: host",
		"devices":                      "devices: [/dev/mem]",
		"cap_add":                      "cap_add: [SYS_ADMIN]",
		"security_opt":                 "security_opt: ['seccomp:unconfined']",
		"volumes":                      "volumes: [/var/run/docker.sock:/var/run/docker.sock]",
		"outside the task's folder":    "volumes: ['../:/up']",
		"/etc":                         "volumes: ['${WHERE:-/etc}:/x']",
		"the mount of " + outside:      "volumes: [{type: bind, source: " + outside + ", target: /x}]",
		"link":                         "volumes: ['./link:/x']",
		"npipe":                        "volumes: [{type: npipe, source: x, target: /x}]",
		"volumes_from":                 "volumes_from: ['container:other']",
		"env_file":                     "env_file: " + outside + "/secret",
		"build":                        "build: " + outside,
		"extends":                      "extends: {file: x, service: y}",
		"host-gateway":                 "extra_hosts: ['machine:host-gateway']",
		"sysctls":                      "sysctls: {kernel.x: 1}",
		"cgroup_parent":                "cgroup_parent: /",
		"not known":                    "something_new: 1",
		"configs":                      "configs: [x]",
		"too large":                    bomb(),
		"begins no variable":           "command: '$'",
		"has no value: need":           "command: '${X:?need}'",
		"is no absolute path":          "volumes: ['./x:relative']",
		"services.main.build.network ": "build: {context: ., network: host}",
	} {
		spec := compose(t, "services:\n  main:\n    image: IMAGE\n    "+service+"\n", nil)
		require.NoError(t, os.Symlink(outside, filepath.Join(spec.Compose.File, "link")))
		require.NoError(t, os.Mkdir(filepath.Join(spec.Compose.File, "x"), 0o755))
		_, err := p.Create(t.Context(), spec)
		require.ErrorContains(t, err, strings.TrimSpace(key), service)
		require.Contains(t, err.Error(), "line ", service)
	}
	for key, top := range map[string]string{
		"include":                  "include: [other.yaml]",
		"networks.n.external":      "networks: {n: {external: true}}",
		"networks.n.driver":        "networks: {n: {driver: host}}",
		"volumes.v.driver_opts":    "volumes: {v: {driver_opts: {type: none, o: bind, device: /}}}",
		"volumes.v.external":       "volumes: {v: {external: true}}",
		"secrets is not supported": "secrets: {s: {file: /etc/shadow}}",
	} {
		_, err := p.Create(t.Context(), compose(t, "services:\n  main: {image: IMAGE}\n"+top+"\n", nil))
		require.ErrorContains(t, err, key)
	}
}

// bomb is a mapping that grows a thousandfold with each line.
func bomb() string {
	text := "x-0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 8; i++ {
		text += fmt.Sprintf("    x-%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	return text
}

func TestATrustedComposeFileMayMountTheMachinesFiles(t *testing.T) {
	requireCompose(t)
	p := newProvider(t, docker.Config{ComposeUnsafe: true})
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "file"), []byte("outside"), 0o644))
	s := open(t, p, compose(t, "services:\n  main:\n    image: IMAGE\n    volumes: ['"+outside+":/out']\n    cap_add: [NET_ADMIN]\n", nil))
	require.Equal(t, "outside", sh(t, s, "cat /out/file"))
}

func TestNetworksAndVolumesOfDeadProjectsAreRemoved(t *testing.T) {
	p := newProvider(t, docker.Config{})
	s := open(t, p, sandbox.Spec{})
	place := dockertest.Command(t, "inspect", "-f", `{{index .Config.Labels "hermes-env.place"}} {{index .Config.Labels "hermes-env.boot-id"}}`, s.Container())
	place, boot, _ := strings.Cut(place, " ")
	make := func(kind, name string, labels ...string) {
		args := []string{kind, "create"}
		for _, l := range labels {
			args = append(args, "--label", l)
		}
		dockertest.Command(t, append(args, name)...)
		t.Cleanup(func() { _ = exec.Command("docker", kind, "rm", name).Run() })
	}
	// A process that had this number at the start of the machine is long gone.
	dead := []string{"hermes-env.owner-pid=1", "hermes-env.owner-start=1", "hermes-env.boot-id=" + boot, "hermes-env.place=" + place, "hermes-env.project=dead-project-test"}
	live := []string{fmt.Sprint("hermes-env.owner-pid=", os.Getpid()), dockertest.Command(t, "inspect", "-f", `hermes-env.owner-start={{index .Config.Labels "hermes-env.owner-start"}}`, s.Container()), "hermes-env.boot-id=" + boot, "hermes-env.place=" + place, "hermes-env.project=live-project-test"}
	for _, kind := range []string{"network", "volume"} {
		make(kind, "dead-project-test-"+kind, dead...)
		make(kind, "live-project-test-"+kind, live...)
	}
	_, err := p.Reap(t.Context())
	require.NoError(t, err)
	require.Empty(t, left(t, "hermes-env.project=dead-project-test"))
	require.NotEmpty(t, left(t, "hermes-env.project=live-project-test"))
}

package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/sandboxtest"
)

// requireVariable makes missing engines a failure instead of a skip; CI sets it.
const requireVariable = "HERMES_ENV_REQUIRE_DOCKER"

// testImage is a busybox without anything else, made here and never pulled.
const testImage = "hermes-env-test:busybox"

// fixture is what the tests share: found out once, by the first that needs it.
type fixture struct {
	once   sync.Once
	dir    string
	binary string
	err    error
}

var shared fixture

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "hermes-env-docker-test-")
	if err != nil {
		panic(err)
	}
	shared.dir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// binary builds the program that serves inside containers: the test's own is not
// static with the race detector.
func (f *fixture) prepare() error {
	f.once.Do(func() {
		p, err := docker.New(docker.Config{Binary: "/bin/busybox"})
		if errors.Is(err, docker.ErrNoEngine) {
			f.err = err
			return
		}
		if err == nil {
			_ = p.Close(context.Background()) // it holds nothing
		}
		f.binary = filepath.Join(f.dir, "hermes-env")
		build := exec.Command("go", "build", "-o", f.binary, "github.com/hermes-env/hermes-env/cmd/hermes-env")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
		if out, err := build.CombinedOutput(); err != nil {
			f.err = fmt.Errorf("build the server: %w: %s", err, out)
			return
		}
		f.err = importImage(testImage, map[string]string{
			// What the suite uses and a distribution's busybox may lack.
			"bin/nohup":    "#!/bin/sh\ntrap '' HUP\nexec \"$@\"\n",
			"bin/printenv": "#!/bin/sh\nexec awk 'BEGIN { if (!(ARGV[1] in ENVIRON)) exit 1; print ENVIRON[ARGV[1]] }' \"$1\"\n",
		})
	})
	return f.err
}

// importImage makes an image of busybox, its applets and further files.
func importImage(name string, extra map[string]string) error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("%w: install busybox-static", err)
	}
	content, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	list, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	file := func(name, content string, mode int64) error {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))})
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		return err
	}
	errs := []error{
		file("bin/busybox", string(content), 0o755),
		file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n", 0o644),
		file("etc/group", "root:x:0:\nagent:x:1000:\n", 0o644),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "root/", Mode: 0o700}),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "home/agent/", Mode: 0o755, Uid: 1000, Gid: 1000}),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "work/", Mode: 0o755}),
	}
	for applet := range strings.FieldsSeq(string(list)) {
		if _, own := extra["bin/"+applet]; !own && applet != "busybox" {
			errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}))
		}
	}
	for name, content := range extra {
		errs = append(errs, file(name, content, 0o755))
	}
	if err := errors.Join(append(errs, w.Close())...); err != nil {
		return err
	}
	c := exec.Command("docker", "import", "--change", "WORKDIR /work", "--change", "ENV PATH=/bin", "-", name)
	c.Stdin = &b
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("docker import: %w: %s", err, out)
	}
	return nil
}

// newProvider returns a provider of the test image, and skips the test where no
// engine answers unless one is required.
func newProvider(t testing.TB, c docker.Config) *docker.Provider {
	t.Helper()
	if err := shared.prepare(); err != nil {
		if errors.Is(err, docker.ErrNoEngine) && os.Getenv(requireVariable) != "1" {
			t.Skipf("needs a container engine: %v", err)
		}
		require.NoError(t, err)
	}
	if c.Image == "" {
		c.Image = testImage
	}
	if c.Binary == "" {
		c.Binary = shared.binary
	}
	if c.Network == "" {
		c.Network = sandbox.NetworkNone
	}
	p, err := docker.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	return p
}

func open(t testing.TB, p *docker.Provider, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	s, err := p.Create(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

func run(t testing.TB, s sandbox.Sandbox, c sandbox.Command) sandbox.Result {
	t.Helper()
	r, err := s.Exec(t.Context(), c)
	require.NoError(t, err)
	return r
}

// sh runs a script that has to succeed and returns its stdout.
func sh(t testing.TB, s sandbox.Sandbox, script string) string {
	t.Helper()
	r := run(t, s, sandbox.Command{Script: script})
	require.Zero(t, r.ExitCode, "%s: %s", script, r)
	return r.Stdout.String()
}

// engineSays runs the docker command, which looks at the containers from outside.
func engineSays(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	require.NoError(t, err, "docker %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

func TestConformance(t *testing.T) {
	for name, c := range map[string]docker.Config{
		"mounted server":  {},
		"uploaded server": {Upload: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := sandboxtest.Options{NoFunctions: true, Short: name != "mounted server"}
			if c.Upload {
				o.Only = []string{"life", "commands"}
			}
			sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return newProvider(t, c) }, o)
		})
	}
}

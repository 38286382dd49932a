// Package dockertest gives tests of containers what they share: an engine, an image
// that is made on the spot from a static busybox and never pulled, and the program
// that serves inside containers.
//
// A plain run (see package slowtest) leaves these tests out. If no engine answers, they
// skip and say so, unless HERMES_ENV_REQUIRE_DOCKER=1 (as in CI): then they fail.
package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/program"
)

// RequireVariable makes a missing engine a failure instead of a skip.
const RequireVariable = "HERMES_ENV_REQUIRE_DOCKER"

// Image is a busybox without anything else; commands start in /work.
const Image = "hermes-env-test:busybox"

// RequireEngine returns if an engine answers, and else skips or fails the test.
func RequireEngine(t testing.TB) {
	t.Helper()
	slowtest.Require(t)
	p, err := docker.New(docker.Config{})
	if errors.Is(err, docker.ErrNoEngine) && os.Getenv(RequireVariable) != "1" {
		t.Skipf("needs a container engine: %v", err)
	}
	require.NoError(t, err)
	require.NoError(t, p.Close(context.Background()))
}

// BuildServer builds the static program that serves inside containers: a test's own
// is not static with the race detector. It skips the test in a plain run: compiling
// everything once more, without cgo, takes most of a minute.
func BuildServer(t testing.TB, dir string) string {
	t.Helper()
	slowtest.Require(t)
	path := filepath.Join(dir, "hermes-env")
	build := exec.Command("go", "build", "-o", path, "github.com/hermes-env/hermes-env/cmd/hermes-env")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "build the server: %s", out)
	return path
}

// MakeImage makes Image.
func MakeImage(t testing.TB) {
	t.Helper()
	Import(t, Image, map[string]string{
		// What the conformance suite uses and a distribution's busybox may lack.
		"bin/nohup":    "#!/bin/sh\ntrap '' HUP\nexec \"$@\"\n",
		"bin/printenv": "#!/bin/sh\nexec awk 'BEGIN { if (!(ARGV[1] in ENVIRON)) exit 1; print ENVIRON[ARGV[1]] }' \"$1\"\n",
	})
}

// Import makes an image of busybox, its applets and further programs.
func Import(t testing.TB, name string, extra map[string]string) {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	require.NoError(t, err, "install busybox-static")
	_, err = program.Read(busybox)
	require.NoError(t, err, "install busybox-static")
	content, err := os.ReadFile(busybox)
	require.NoError(t, err)
	list, err := exec.Command(busybox, "--list").Output()
	require.NoError(t, err)
	var b bytes.Buffer
	w := imageWriter{t, tar.NewWriter(&b)}
	w.file("bin/busybox", string(content), 0o755)
	w.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n", 0o644)
	w.file("etc/group", "root:x:0:\nagent:x:1000:\n", 0o644)
	w.folder("root/", 0o700, 0)
	w.folder("home/agent/", 0o755, 1000)
	w.folder("work/", 0o755, 0)
	for applet := range strings.FieldsSeq(string(list)) {
		if _, own := extra["bin/"+applet]; !own && applet != "busybox" {
			require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		w.file(name, extra[name], 0o755)
	}
	require.NoError(t, w.Close())
	sum := sha256.Sum256(b.Bytes())
	digest := hex.EncodeToString(sum[:])
	old, err := exec.Command("docker", "image", "inspect", "-f", `{{index .Config.Labels "hermes-env.test"}}`, name).Output()
	if err == nil && strings.TrimSpace(string(old)) == digest {
		return // made before, from the same files
	}
	c := exec.Command("docker", "import", "--change", "WORKDIR /work", "--change", "ENV PATH=/bin", "--change", "LABEL hermes-env.test="+digest, "-", name)
	c.Stdin = &b
	out, err := c.CombinedOutput()
	require.NoError(t, err, "docker import: %s", out)
}

type imageWriter struct {
	t testing.TB
	*tar.Writer
}

func (w imageWriter) file(name, content string, mode int64) {
	w.t.Helper()
	require.NoError(w.t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}))
	_, err := io.WriteString(w, content)
	require.NoError(w.t, err)
}

func (w imageWriter) folder(name string, mode int64, owner int) {
	w.t.Helper()
	require.NoError(w.t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: owner, Gid: owner}))
}

// Command runs the docker command, which looks at containers from outside. Without an
// engine it skips or fails the test, as RequireEngine does.
func Command(t testing.TB, args ...string) string {
	t.Helper()
	RequireEngine(t)
	out, err := exec.Command("docker", args...).CombinedOutput()
	require.NoError(t, err, "docker %s: %s", fmt.Sprint(args), out)
	return strings.TrimSpace(string(out))
}

// Containers returns the ids of the containers, running or not, with a label.
func Containers(t testing.TB, label string) []string {
	t.Helper()
	return strings.Fields(Command(t, "ps", "-aq", "--filter", "label="+label))
}

package docker_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// folder writes files to build from.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(content, "IMAGE", dockertest.Image)), 0o644))
	}
	return dir
}

// discard removes the image a sandbox was made from at the end of the test.
func discard(t *testing.T, s container) {
	image := dockertest.Command(t, "inspect", "-f", "{{.Image}}", s.Container())
	t.Cleanup(func() {
		require.NoError(t, s.Close(context.Background()))
		dockertest.Command(t, "rmi", "-f", image)
	})
}

func TestBuildsTakeArgumentsStagesAndTheFeaturesOfBuildKit(t *testing.T) {
	var j journal
	p := newProvider(t, telling(&j, t.TempDir()))
	dir := folder(t, map[string]string{
		"docker/main.Dockerfile": "ARG BASE=no-such-image\nFROM ${BASE} AS first\nARG WHO=nobody\nRUN --mount=type=tmpfs,target=/scratch echo $WHO > /scratch/x && cp /scratch/x /who\n" +
			"FROM first AS middle\nCOPY run.sh /run.sh\nRUN ln -s run.sh /link && test ! -e /scratch/x\nFROM middle\nRUN exit 1\n",
		"run.sh": "#!/bin/sh\necho runs\n",
	})
	require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o750))
	options := sandbox.BuildOptions{Dockerfile: "docker/main.Dockerfile", Args: map[string]string{"BASE": dockertest.Image, "WHO": t.Name()}, Target: "middle"}
	s := open(t, p, sandbox.Spec{Build: dir, BuildOptions: options})
	discard(t, s)
	require.Equal(t, t.Name()+"\nruns\n750\n", sh(t, s, "cat /who; /link; stat -c %a /run.sh"))
	require.Contains(t, j.String(), "RUN --mount=type=tmpfs")
	labels := dockertest.Command(t, "inspect", "-f", `{{index .Config.Labels "hermes-env.build.owner-pid"}}`, dockertest.Command(t, "inspect", "-f", "{{.Image}}", s.Container()))
	require.NotEmpty(t, labels)

	// Another argument is another image; without the stage its last one fails.
	options.Args["WHO"] = "other " + t.Name()
	s = open(t, p, sandbox.Spec{Build: dir, BuildOptions: options})
	discard(t, s)
	require.Equal(t, "other "+t.Name()+"\n", sh(t, s, "cat /who"))
	options.Target = ""
	_, err := p.Create(t.Context(), sandbox.Spec{Build: dir, BuildOptions: options})
	require.ErrorContains(t, err, "last lines of the build:")
	require.ErrorContains(t, err, "exit 1")
	require.NotContains(t, j.String(), "again in", "a step that fails is not tried again")
}

func TestAForcedBuildHappensOnceForEachProvider(t *testing.T) {
	dir := folder(t, map[string]string{"Dockerfile": "FROM IMAGE\nRUN echo " + t.Name() + " && cat /proc/sys/kernel/random/uuid > /id\n"})
	spec := sandbox.Spec{Build: dir}
	id := func(p *docker.Provider, spec sandbox.Spec) string {
		s := open(t, p, spec)
		defer s.Close(t.Context())
		return sh(t, s, "cat /id")
	}
	p := newProvider(t, docker.Config{})
	s := open(t, p, spec)
	discard(t, s)
	first := id(p, spec)
	spec.BuildOptions.Force = true
	second := id(p, spec)
	require.NotEqual(t, first, second)
	require.Equal(t, second, id(p, spec))
	forced := newProvider(t, docker.Config{ForceBuild: true})
	s = open(t, forced, sandbox.Spec{Build: dir})
	discard(t, s)
	require.NotEqual(t, second, sh(t, s, "cat /id"))
}

func TestImagesOfDeadRunsAreFound(t *testing.T) {
	p := newProvider(t, docker.Config{})
	s := open(t, p, sandbox.Spec{})
	of := dockertest.Command(t, "inspect", "-f", `{{index .Config.Labels "hermes-env.place"}} {{index .Config.Labels "hermes-env.boot-id"}}`, s.Container())
	place, boot, _ := strings.Cut(of, " ")
	dir := folder(t, map[string]string{"Dockerfile": "FROM IMAGE\nLABEL hermes-env.build.owner-pid=1 hermes-env.build.owner-start=1 hermes-env.build.boot-id=" + boot + " hermes-env.build.place=" + place + "\n"})
	dockertest.Command(t, "build", "-q", "-t", "hermes-env-test:dead", dir)
	t.Cleanup(func() { dockertest.Command(t, "rmi", "-f", "hermes-env-test:dead") })
	n, size, err := p.ReapImages(t.Context(), true)
	require.NoError(t, err)
	require.Positive(t, n)
	require.Positive(t, size)
	require.True(t, has(t, "hermes-env-test:dead"), "counting removes nothing")
}

func TestBuildsStartFromImagesOfPrivateRegistries(t *testing.T) {
	r := newRegistry(t)
	r.user = "me:word"
	logins := t.TempDir()
	config := `{"auths":{"` + r.host() + `":{"auth":"` + base64.StdEncoding.EncodeToString([]byte(r.user)) + `"}}}`
	require.NoError(t, os.WriteFile(filepath.Join(logins, "config.json"), []byte(config), 0o600))
	var j journal
	p := newProvider(t, telling(&j, logins))
	base := r.image("base")
	dir := folder(t, map[string]string{"Dockerfile": "FROM " + base + " AS b\nFROM IMAGE\nCOPY --from=b /pulled/hello /hello\n"})
	s := open(t, p, sandbox.Spec{Build: dir})
	discard(t, s)
	require.Contains(t, sh(t, s, "cat /hello"), t.Name())
	require.NotContains(t, j.String(), "word")
	_, err := p.Create(t.Context(), sandbox.Spec{Build: folder(t, map[string]string{"Dockerfile": "FROM " + r.ref("none") + "\n"})})
	require.ErrorIs(t, err, docker.ErrImageNotFound)
}

func TestABuildThatTakesTooLongEnds(t *testing.T) {
	p := newProvider(t, docker.Config{})
	dir := folder(t, map[string]string{"Dockerfile": "FROM IMAGE\nRUN echo begun && sleep 1000\n"})
	_, err := p.Create(t.Context(), sandbox.Spec{Build: dir, BuildOptions: sandbox.BuildOptions{Timeout: 2 * time.Second}})
	require.ErrorContains(t, err, "took longer than 2s")
}

// behindTLS puts a proxy that wants client certificates in front of the engine's
// socket and writes the three files that a client needs.
func behindTLS(t *testing.T) (address, certificates string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	write("ca.pem", "CERTIFICATE", der)
	write("cert.pem", "CERTIFICATE", der)
	write("key.pem", "EC PRIVATE KEY", secret)
	pool := x509.NewCertPool()
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool.AddCert(certificate)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { forward(c.(*tls.Conn)) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		all.Wait()
	})
	return "tcp://" + l.Addr().String(), dir
}

// forward passes a connection on to the engine, also when only one way has ended.
func forward(c *tls.Conn) {
	defer c.Close()
	socket := "/var/run/docker.sock"
	if path, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://"); ok {
		socket = path
	}
	e, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer e.Close()
	var g sync.WaitGroup
	g.Go(func() {
		_, _ = io.Copy(e, c)
		_ = e.(*net.UnixConn).CloseWrite()
	})
	_, _ = io.Copy(c, e)
	_ = c.CloseWrite()
	g.Wait()
}

func TestEnginesBehindTLSAreReachedWithACertificate(t *testing.T) {
	binary := shared.server(t)
	address, certificates := behindTLS(t)
	env := map[string]string{"DOCKER_HOST": address, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": certificates}
	config := docker.Config{Binary: binary, Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	s := open(t, newProvider(t, config), sandbox.Spec{})
	require.Equal(t, "over TLS\n", sh(t, s, "echo over TLS"))
	r := run(t, s, sandbox.Command{Args: []string{"cat"}, Stdin: strings.NewReader("there and back")})
	require.Equal(t, "there and back", r.Stdout.String())
	require.NoError(t, s.Close(t.Context()))

	_, other := behindTLS(t)
	env["DOCKER_CERT_PATH"] = other // of somebody else
	_, err := docker.New(config)
	require.ErrorIs(t, err, docker.ErrNoEngine)
	require.ErrorContains(t, err, "certificate")
	delete(env, "DOCKER_CERT_PATH")
	delete(env, "DOCKER_TLS_VERIFY")
	_, err = docker.New(config)
	require.ErrorIs(t, err, docker.ErrNoEngine)
}

func TestEnginesBehindSSHAreReachedThroughTheirDockerCommand(t *testing.T) {
	binary := shared.server(t)
	bin := t.TempDir()
	// What runs on the other machine is the end of the command line.
	script := "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\n[ \"$2\" = there ] || { echo \"no route to $2\" >&2; exit 255; }\nshift 2\nexec \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "ssh"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	p := newProvider(t, docker.Config{Binary: binary, Host: "ssh://me@there:2222"})
	s := open(t, p, sandbox.Spec{})
	require.Equal(t, "over ssh\n", sh(t, s, "echo over ssh"))
	r := run(t, s, sandbox.Command{Args: []string{"cat"}, Stdin: strings.NewReader("there and back")})
	require.Equal(t, "there and back", r.Stdout.String())
	require.NoError(t, s.Close(t.Context()))
	_, err := docker.New(docker.Config{Binary: binary, Host: "ssh://elsewhere"})
	require.ErrorIs(t, err, docker.ErrNoEngine)
	require.ErrorContains(t, err, "no route to elsewhere")
}

package docker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// frame returns one frame of an engine's stream.
func frame(stream byte, content string) string {
	h := []byte{stream, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(h[4:], uint32(len(content)))
	return string(h) + content
}

func TestTheEnginesStreamIsTakenApart(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	text := frame(1, "one") + frame(2, "problem ") + frame(1, "") + frame(2, long) + frame(1, " two")
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
		said := sandbox.NewCapture(20)
		out, err := io.ReadAll(newDemux(r, said))
		require.NoError(t, err, name)
		require.Equal(t, "one two", string(out), name)
		require.EqualValues(t, len("problem ")+len(long), said.Total(), name)
		require.Len(t, said.Output().Bytes(), 20, name)
	}
	for name, broken := range map[string]string{"no frames": "hello, world", "unknown stream": frame(7, "x"), "cut header": "\x01\x00\x00"} {
		_, err := io.ReadAll(newDemux(strings.NewReader(broken), sandbox.NewCapture(20)))
		require.Error(t, err, name)
	}
}

func FuzzDemuxTakesAnyBytes(f *testing.F) {
	f.Add([]byte(frame(1, "out") + frame(2, "err")))
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'})
	f.Add([]byte{2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		said := sandbox.NewCapture(100)
		out, _ := io.ReadAll(newDemux(bytes.NewReader(data), said))
		if int64(len(out))+said.Total() > int64(len(data)) {
			t.Fatalf("%d bytes and %d of errors out of %d", len(out), said.Total(), len(data))
		}
	})
}

func TestLastWordsEndAnOutput(t *testing.T) {
	const last = "LASTWORDS "
	for name, c := range map[string]struct {
		text, want string
		code       int
	}{
		"at once":            {last + "0\n", "", 0},
		"after output":       {"out\n" + last + "3\n", "out\n", 3},
		"with output after":  {"out" + last + "124\nlater", "out", 124},
		"none":               {"out LASTWORD", "out LASTWORD", -1},
		"without a code":     {"out" + last + "x\n", "out" + last + "x\n", -1},
		"a code too high":    {last + "256\n", last + "256\n", -1},
		"twice, first wrong": {last + "no\n" + last + "7\n", last + "no\n", 7},
	} {
		for _, size := range []int{1, 2, 7, 100} {
			o := newOutput(0, last)
			for text := []byte(c.text); len(text) > 0; {
				n := min(size, len(text))
				o.write(text[:n])
				text = text[n:]
			}
			out, code := o.close()
			require.Equal(t, c.code, code, "%s by %d", name, size)
			require.Equal(t, c.want, string(out.Bytes()), "%s by %d", name, size)
		}
	}
}

func FuzzOutputsKeepEverythingBeforeTheLastWords(f *testing.F) {
	f.Add([]byte("text"), []byte("LAST LAST 1"), uint8(3))
	f.Fuzz(func(t *testing.T, before, between []byte, size uint8) {
		const last = "LASTWORDS "
		if bytes.Contains(append(append([]byte{}, before...), between...), []byte("LAST")) {
			return
		}
		o := newOutput(1<<20, last)
		text := append(append(append([]byte{}, before...), between...), []byte(last+"9\n")...)
		for len(text) > 0 {
			n := min(int(size)+1, len(text))
			o.write(text[:n])
			text = text[n:]
		}
		out, code := o.close()
		if code != 9 || int(out.Total) != len(before)+len(between) {
			t.Fatalf("code %d, %d bytes", code, out.Total)
		}
	})
}

func TestStartsRampUpAndBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStarts(4)
		ctx, cancel := context.WithCancelCause(t.Context())
		begun := make(chan struct{}, 100)
		results := make(chan error, 100)
		wait := func(n int) {
			t.Helper()
			synctest.Wait()
			require.Len(t, begun, n)
		}
		for range 10 {
			go func() {
				err := s.acquire(ctx)
				if err == nil {
					begun <- struct{}{}
				}
				results <- err
			}()
		}
		wait(2) // cold
		s.release(true)
		wait(4) // one in its place, and one more
		s.release(true)
		wait(6)
		s.release(true)
		wait(7) // four at once is the most
		s.release(false)
		wait(7) // the limit is two now, and three run
		s.release(true)
		wait(8)
		cause := errors.New("enough")
		cancel(cause)
		synctest.Wait()
		s.release(true)
		s.release(true)
		s.release(true)
		failed := 0
		for range 10 {
			if errors.Is(<-results, cause) {
				failed++
			}
		}
		require.Equal(t, 2, failed)
		require.Zero(t, s.running)
		require.Empty(t, s.queue)
		require.NoError(t, s.acquire(t.Context()), "the place of the one that left is free")
	})
}

func TestEndpointsFollowTheDockerCommand(t *testing.T) {
	home := t.TempDir()
	sum := sha256.Sum256([]byte("far"))
	id := hex.EncodeToString(sum[:])
	write := func(path, text string) {
		path = filepath.Join(home, ".docker", path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("contexts/meta/"+id+"/meta.json", `{"Name":"far","Metadata":{},"Endpoints":{"docker":{"Host":"tcp://far:2376","SkipTLSVerify":false}}}`)
	write("contexts/tls/"+id+"/docker/ca.pem", "")
	write("config.json", `{"currentContext":"far","auths":{"https://index.docker.io/v1/":{"auth":"dTpwOnE="},"r.example:5000":{"auth":"bad"}}}`)
	require.NoError(t, os.MkdirAll(filepath.Join(home, "run", "podman"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "run", "podman", "podman.sock"), nil, 0o600))
	for name, c := range map[string]struct {
		env    map[string]string
		want   string // last endpoint
		errors string
	}{
		"the current context":      {map[string]string{}, "tcp://far:2376", ""},
		"a variable wins":          {map[string]string{"DOCKER_HOST": "unix:///x"}, "unix:///x", ""},
		"a named context":          {map[string]string{"DOCKER_CONTEXT": "far"}, "tcp://far:2376", ""},
		"the default context":      {map[string]string{"DOCKER_CONTEXT": "default"}, "unix://" + home + "/run/podman/podman.sock", ""},
		"an unknown context":       {map[string]string{"DOCKER_CONTEXT": "near"}, "", "there is no such context"},
		"no URL":                   {map[string]string{"DOCKER_HOST": "/var/run/docker.sock"}, "", "unix:///path"},
		"ssh":                      {map[string]string{"DOCKER_HOST": "ssh://me@there"}, "", "ssh -nNT"},
		"another folder of config": {map[string]string{"DOCKER_CONFIG": home + "/none"}, "unix://" + home + "/run/podman/podman.sock", ""},
	} {
		config := Config{Getenv: func(name string) (string, bool) {
			v, ok := map[string]string{"HOME": home, "XDG_RUNTIME_DIR": home + "/run"}[name]
			if given, has := c.env[name]; has {
				return given, true
			}
			return v, ok
		}}
		list, err := endpoints(config)
		if c.errors != "" {
			require.ErrorContains(t, err, c.errors, name)
			continue
		}
		require.NoError(t, err, name)
		require.NotEmpty(t, list, name)
		at := list[len(list)-1]
		require.Equal(t, c.want, at.host, name)
		require.Equal(t, strings.HasPrefix(at.host, "unix:"), at.local(), name)
		if at.host == "tcp://far:2376" {
			require.Equal(t, filepath.Join(home, ".docker/contexts/tls", id, "docker/ca.pem"), at.ca)
			require.Empty(t, at.cert)
		}
		if name == "the current context" {
			require.JSONEq(t, `{"username":"u","password":"p:q","serveraddress":"https://index.docker.io/v1/"}`, decoded(t, registryAuth(config, "debian:12")))
			require.Empty(t, registryAuth(config, "r.example:5000/x"))
			require.Empty(t, registryAuth(config, "elsewhere.example/x"))
		}
	}
}

func decoded(t *testing.T, auth string) string {
	t.Helper()
	data, err := base64.URLEncoding.DecodeString(auth)
	require.NoError(t, err)
	return string(data)
}

func TestIgnoreRulesAreThoseOfDockerignore(t *testing.T) {
	rules, err := parseIgnoreRules(strings.NewReader("# comment\n\n*.log\n/build/\n**/cache\nsrc/*/tmp\n!keep.log\n docs \n"))
	require.NoError(t, err)
	for name, ignored := range map[string]bool{
		"a.log": true, "sub/a.log": false, "keep.log": false, "build": true, "build/x/y": true, "sub/build": false,
		"cache": true, "a/b/cache": true, "a/cache/x": true, "src/a/tmp": true, "src/tmp": false, "docs/x": true, "file": false,
	} {
		require.Equal(t, ignored, rules.match(name), name)
	}
	_, err = parseIgnoreRules(strings.NewReader("[a\n"))
	require.Error(t, err)
}

func FuzzIgnoreRulesNeverPanic(f *testing.F) {
	f.Add("*.log\n!a\n**/b", "a/b.log")
	f.Add("**", "x")
	f.Add("../x\n/\n.", "..")
	f.Fuzz(func(t *testing.T, text, name string) {
		if strings.Count(text, "**") > 8 || len(name) > 200 {
			return // exponential, and the user's own file
		}
		rules, err := parseIgnoreRules(strings.NewReader(text))
		if err == nil {
			rules.match(name)
		}
	})
}

func TestABuildFolderIsKnownByItsContent(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	_, err := readBuildFolder(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	write("Dockerfile", "FROM x\n")
	write("a", "1")
	write(".dockerignore", "ignored\n")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	digest := func() string {
		f, err := readBuildFolder(dir)
		require.NoError(t, err)
		return f.digest
	}
	first := digest()
	write("ignored", "x")
	require.Equal(t, first, digest())
	write("a", "2")
	require.NotEqual(t, first, digest())
}

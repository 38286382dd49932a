package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// registry serves one image, whose only file is the given one, over the registry's
// protocol on loopback, which engines trust without TLS.
type registry struct {
	*httptest.Server
	pulls atomic.Int64
	blobs map[string][]byte
	types map[string]string
}

func newRegistry(t *testing.T, file, content string) *registry {
	t.Helper()
	r := &registry{blobs: map[string][]byte{}, types: map[string]string{}}
	add := func(kind string, data []byte) map[string]any {
		sum := sha256.Sum256(data)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		r.blobs[digest], r.types[digest] = data, kind
		return map[string]any{"mediaType": kind, "size": len(data), "digest": digest}
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o644, Size: int64(len(content))}))
	_, err := w.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	encode := func(v any) []byte {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		return data
	}
	part := add("application/vnd.docker.image.rootfs.diff.tar", layer.Bytes())
	config := add("application/vnd.docker.container.image.v1+json", encode(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"WorkingDir": "/pulled"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{part["digest"]}},
	}))
	manifest := add("application/vnd.docker.distribution.manifest.v2+json", encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "config": config, "layers": []any{part},
	}))
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		name := q.URL.Path[strings.LastIndex(q.URL.Path, "/")+1:]
		if name == "latest" {
			name = manifest["digest"].(string)
			r.pulls.Add(1)
		}
		data, ok := r.blobs[name]
		if !ok && q.URL.Path != "/v2/" {
			http.NotFound(w, q)
			return
		}
		w.Header().Set("Content-Type", r.types[name])
		w.Header().Set("Docker-Content-Digest", name)
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		if q.Method == http.MethodGet {
			_, _ = w.Write(data)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func TestAnImageIsPulledOnceForAllWhoWantIt(t *testing.T) {
	var lines atomic.Int64
	p := newProvider(t, docker.Config{Progress: func(string, string) { lines.Add(1) }})
	r := newRegistry(t, "pulled/hello", "from the registry")
	image := strings.TrimPrefix(r.URL, "http://") + "/test/hello:latest"
	t.Cleanup(func() { dockertest.Command(t, "rmi", "-f", image) })
	// Who gives up first does not end the pull of the others.
	gone, leave := context.WithCancelCause(t.Context())
	leave(errors.New("left"))
	_, err := p.Create(gone, sandbox.Spec{Image: image})
	require.ErrorContains(t, err, "left")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := p.Create(t.Context(), sandbox.Spec{Image: image})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close(context.Background())
			info := s.Info()
			if info.Image != image || !strings.HasPrefix(info.Digest, "sha256:") || info.Dir != "/pulled" {
				t.Errorf("info is %+v", info)
			}
			if _, err := s.Download(t.Context(), "/pulled/hello"); err != nil {
				t.Error(err)
			}
			// There is no shell in the image, and files and programs work all the same.
			got, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"/no-program"}})
			if err != nil || got.ExitCode != 127 {
				t.Errorf("exit code %d, %v", got.ExitCode, err)
			}
			got, err = s.Exec(t.Context(), sandbox.Command{Script: "true"})
			if err != nil || got.ExitCode == 0 {
				t.Errorf("exit code %d, %v", got.ExitCode, err)
			}
		})
	}
	wg.Wait()
	require.NotZero(t, r.pulls.Load())
	require.LessOrEqual(t, r.pulls.Load(), int64(2), "the engine asks for the manifest by HEAD and GET")
	require.NotZero(t, lines.Load())
}

func TestAFolderIsBuiltOnceAndAgainWhenItChanges(t *testing.T) {
	var mu sync.Mutex
	var said []string
	p := newProvider(t, docker.Config{Progress: func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, line)
	}})
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("Dockerfile", "FROM "+dockertest.Image+"\nCOPY file ignored* /app/\nRUN echo built > /app/run\nWORKDIR /app\nUSER agent\nENV GREETING=hello\n")
	write(".dockerignore", "ignored\n")
	write("ignored", "secret")
	nonce := fmt.Sprint(os.Getpid())
	images := map[string]bool{}
	t.Cleanup(func() {
		for image := range images {
			dockertest.Command(t, "rmi", "-f", image)
		}
	})
	for _, version := range []string{"one", "one", "two"} {
		write("file", version+nonce)
		s := open(t, p, sandbox.Spec{Build: dir})
		require.Equal(t, version+nonce+"built\n1000 hello\nfile\nrun\n", sh(t, s, "cat file run; echo \"$(id -u) $GREETING\"; ls"))
		require.Equal(t, "/app", s.Info().Dir)
		images[dockertest.Command(t, "inspect", "-f", "{{.Image}}", s.Container())] = true
		require.NoError(t, s.Close(t.Context()))
	}
	mu.Lock()
	builds := strings.Count(strings.Join(said, "\n"), "building "+dir)
	mu.Unlock()
	require.Equal(t, 2, builds)

	write("Dockerfile", "FROM "+dockertest.Image+"\nRUN echo what went wrong; exit 9\n")
	_, err := p.Create(t.Context(), sandbox.Spec{Build: dir})
	require.ErrorContains(t, err, "what went wrong")
	_, err = p.Create(t.Context(), sandbox.Spec{Build: t.TempDir()})
	require.ErrorContains(t, err, "Dockerfile")
}

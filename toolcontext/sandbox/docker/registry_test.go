package docker_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// registry serves images of one small file over the registry's protocol on loopback,
// which engines trust without TLS. It has every image that image was called with.
type registry struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	blobs    map[string][]byte
	types    map[string]string
	tags     map[string]string // image → digest of its manifest
	layers   map[string]string // digest of a layer → image
	requests map[string]int    // for manifests, by image
	user     string            // user:password that it wants; "" for none
	// answer may answer a request for an image's manifest or layer itself.
	answer func(w http.ResponseWriter, q *http.Request, image, what string) bool
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{
		t: t, blobs: map[string][]byte{}, types: map[string]string{}, tags: map[string]string{}, layers: map[string]string{}, requests: map[string]int{},
	}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

// image makes an image of a name and returns its reference; it has the file
// /pulled/hello, and its content is like no other's.
func (r *registry) image(name string) string {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	content := r.t.Name() + r.URL + name
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	require.NoError(r.t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "pulled/hello", Mode: 0o644, Size: int64(len(content))}))
	_, err := w.Write([]byte(content))
	require.NoError(r.t, err)
	require.NoError(r.t, w.Close())
	part := r.add("application/vnd.docker.image.rootfs.diff.tar", layer.Bytes())
	r.layers[part["digest"].(string)] = name
	config := r.add("application/vnd.docker.container.image.v1+json", r.encode(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"WorkingDir": "/pulled"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{part["digest"]}},
	}))
	manifest := r.add("application/vnd.docker.distribution.manifest.v2+json", r.encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "config": config, "layers": []any{part},
	}))
	r.tags[name] = manifest["digest"].(string)
	ref := r.ref(name)
	// An image that a test expects to be gone is no reason to fail.
	r.t.Cleanup(func() { _ = exec.Command("docker", "rmi", "-f", ref).Run() })
	return ref
}

func (r *registry) ref(name string) string {
	return strings.TrimPrefix(r.URL, "http://") + "/test/" + name + ":latest"
}

func (r *registry) host() string { return strings.TrimPrefix(r.URL, "http://") }

func (r *registry) add(kind string, data []byte) map[string]any {
	sum := sha256.Sum256(data)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	r.blobs[digest], r.types[digest] = data, kind
	return map[string]any{"mediaType": kind, "size": len(data), "digest": digest}
}

func (r *registry) encode(v any) []byte {
	data, err := json.Marshal(v)
	require.NoError(r.t, err)
	return data
}

// asked is how often a manifest was asked for.
func (r *registry) asked(image string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[image]
}

func (r *registry) serve(w http.ResponseWriter, q *http.Request) {
	user, password, _ := q.BasicAuth()
	if r.user != "" && user+":"+password != r.user {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
		return
	}
	if q.URL.Path == "/v2/" {
		return
	}
	parts := strings.Split(strings.TrimPrefix(q.URL.Path, "/v2/test/"), "/")
	if len(parts) != 3 {
		http.NotFound(w, q)
		return
	}
	image, what, name := parts[0], parts[1], parts[2]
	r.mu.Lock()
	if what == "manifests" {
		r.requests[image]++
		if name == "latest" {
			name = r.tags[image]
		}
	}
	if of := r.layers[name]; of != "" {
		what = "layer"
	}
	data, ok := r.blobs[name]
	kind := r.types[name]
	r.mu.Unlock()
	if r.answer != nil && r.answer(w, q, image, what) {
		return
	}
	if !ok {
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown")
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Docker-Content-Digest", name)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if q.Method == http.MethodGet {
		_, _ = w.Write(data)
	}
}

// refuse answers as registries do.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]any{"code": code, "message": message}}})
}

package server

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

func TestAGroupWhoseDataIsDamagedIsGivenUpAlone(t *testing.T) {
	dir := t.TempDir()
	f := open(t, Config{Dir: dir})
	f.post("/register", withBatchSize("2"))
	f.post("/scored_data", group(1, "5", ""))
	f.post("/scored_data", group(1, "6", ""))
	path := filepath.Join(dir, "00000001.journal")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.LastIndex(content, []byte(`"tokens"`)) // in the second group
	require.Positive(t, at)
	content[at+1] ^= 1
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteAt(content, 0)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	resp, err := http.Get(f.web.URL + "/batch")
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
	}
	require.Error(t, err, "the reply breaks off")
	require.Equal(t, `{"batch":null}`, f.get("/batch"))
	require.Contains(t, f.get("/metrics"), "hermes_api_lost_groups_total 1\n")
	f.post("/scored_data", group(1, "7", ""))
	require.Equal(t, "5 7", tags(f.get("/batch")))
}

func TestADamagedDirectoryIsAnErrorThatSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	f := open(t, Config{Dir: dir})
	f.post("/register", withBatchSize("2"))
	f.post("/scored_data", group(1, "5", ""))
	f.post("/scored_data", group(1, "6", ""))
	require.NoError(t, f.server.Close())
	path := filepath.Join(dir, "00000001.journal")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	first := bytes.Index(content, []byte(`"op":"add"`))
	content[first+1] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	_, err = New(Config{Dir: dir, MinFree: -1})
	require.ErrorContains(t, err, "is damaged at byte")
	require.ErrorContains(t, err, "--repair")
	f = open(t, Config{Dir: dir, Repair: true})
	require.Equal(t, `{"current_step":0,"queue_size":1}`, f.get("/status"), "the other group is there")
}

func FuzzUnzip(f *testing.F) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(registration))
	require.NoError(f, err)
	require.NoError(f, w.Close())
	f.Add(b.Bytes())
	f.Add(append(b.Bytes(), b.Bytes()...))
	f.Add(b.Bytes()[:20])
	f.Add([]byte("\x1f\x8b"))
	f.Add([]byte{})
	s, err := New(Config{MaxBody: 1 << 16, MinFree: -1, Patience: -1})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, s.Close()) })
	handler := s.Handler()
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/register", bytes.NewReader(body))
		r.Header.Set("Content-Encoding", "gzip")
		reply := httptest.NewRecorder()
		handler.ServeHTTP(reply, r)
		require.Contains(t, []int{200, 400, 413, 422}, reply.Code, reply.Body.String())
		if reply.Code == 400 {
			require.True(t, strings.Contains(reply.Body.String(), "Invalid gzip payload") || strings.Contains(reply.Body.String(), "parsing the body"))
		}
	})
}

package model_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/stretchr/testify/require"
)

func TestAProbeFindsWhatWouldFailEveryRequest(t *testing.T) {
	models := func(ids ...string) string {
		return `{"object":"list","data":[{"id":"` + strings.Join(ids, `"},{"id":"`) + `"}]}`
	}
	for name, test := range map[string]struct {
		status int
		body   string
		model  string
		want   model.Kind
		says   []string
	}{
		"the model is offered":       {200, models("a", "org/m"), "org/m", "", nil},
		"in other letters":           {200, models("Org/M"), "org/m", "", nil},
		"under a prefix":             {200, models("models/gemini-9"), "gemini-9", "", nil},
		"as a variant":               {200, models("org/m"), "org/m:free", "", nil},
		"through a wildcard":         {200, models("openai/*"), "org/m", "", nil},
		"in a bare list":             {200, `[{"id":"org/m"}]`, "org/m", "", nil},
		"the model is not offered":   {200, models("Qwen/Qwen3-8B", "zzz", "Qwen/Qwen3-32B", "meta/llama"), "qwen3-8b", model.KindNotFound, []string{`"Qwen/Qwen3-8B"`, "of the 4 it offers"}},
		"the one model is another":   {200, models("Qwen/Qwen3-8B"), "default", model.KindNotFound, []string{`it offers "Qwen/Qwen3-8B"`}},
		"the key is wrong":           {401, `{"error":{"message":"bad key"}}`, "m", model.KindAuth, []string{"bad key", "check the key from TEST_KEY"}},
		"the key may not":            {403, `{"error":{"message":"no access"}}`, "m", model.KindPermission, []string{"no access"}},
		"an empty list says nothing": {200, `{"data":[]}`, "m", "", nil},
		"a page says nothing":        {200, `{"data":[{"id":"a"}],"has_more":true}`, "m", "", nil},
		"a first page says nothing":  {200, `{"data":[{"id":"a"}],"nextPageToken":"x"}`, "m", "", nil},
		"entries without id":         {200, `{"data":[{"id":"a"},{"name":"b"}]}`, "m", "", nil},
		"another shape":              {200, `{"models":["a"]}`, "m", "", nil},
		"a web page":                 {200, `<html>`, "m", "", nil},
		"no such path":               {404, `{"detail":"Not Found"}`, "m", "", nil},
		"another method":             {405, ``, "m", "", nil},
		"a server that is starting":  {503, ``, "m", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var path, auth string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path, auth = r.Method+" "+r.URL.Path, r.Header.Get("Authorization")
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			err := model.Probe(t.Context(), model.Server{BaseURL: server.URL + "/v1", Model: test.model, APIKey: testKey, KeySource: "TEST_KEY"})
			require.Equal(t, test.want, model.KindOf(err), "%v", err)
			for _, words := range test.says {
				require.ErrorContains(t, err, words)
			}
			require.Equal(t, "GET /v1/models", path)
			require.Equal(t, "Bearer "+testKey, auth)
		})
	}
}

func TestAProbeReportsAServerThatIsNotThere(t *testing.T) {
	err := model.Probe(t.Context(), model.Server{BaseURL: modeltest.RefusedURL(t), Model: "m"})
	require.Equal(t, model.KindNetwork, model.KindOf(err))
	require.ErrorContains(t, err, "is the server running at")

	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	err = model.Probe(t.Context(), model.Server{BaseURL: silent.URL, Model: "m", Timeout: 30 * time.Millisecond})
	require.Equal(t, model.KindTimeout, model.KindOf(err))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err = model.Probe(ctx, model.Server{BaseURL: silent.URL, Model: "m"})
	require.Equal(t, model.KindCancelled, model.KindOf(err))
}

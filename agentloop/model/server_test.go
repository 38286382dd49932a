package model_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestNothingThatHoldsAKeyShowsIt(t *testing.T) {
	s := model.Server{
		BaseURL: "https://api.example/v1?api-version=2024&sig=querysecret", Model: "m", APIKey: testKey, KeySource: "TEST_KEY",
		Headers: map[string]string{"X-Auth": "headersecret"},
	}
	client, err := model.NewChat(s)
	require.NoError(t, err)
	pool, err := model.ForServers([]model.Server{s}, model.PoolConfig{})
	require.NoError(t, err)
	for name, v := range map[string]any{
		"server": s, "server pointer": &s, "inside": struct{ S model.Server }{s}, "list": []model.Server{s},
		"client": client, "pool": pool, "member": model.Member{Client: client}, "retry": model.Retry(client, model.RetryPolicy{}),
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
			slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
			shown := fmt.Sprintf("%v %+v %#v %s", v, v, v, v) + log.String()
			if raw, err := json.Marshal(v); err == nil {
				shown += string(raw)
			}
			if raw, err := yaml.Marshal(v); err == nil && strings.HasPrefix(name, "server") {
				shown += string(raw)
			}
			for _, secret := range []string{testKey, "querysecret", "headersecret"} {
				require.NotContains(t, shown, secret)
			}
		})
	}
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	require.JSONEq(t, `{"base_url":"https://api.example/v1","model_name":"m","api_key":"from TEST_KEY","timeout_seconds":1200,"stall_timeout_seconds":300,"num_max_requests_at_once":512,"weight":1}`, string(raw))
	require.Equal(t, `model "m" at https://api.example/v1 (key: from TEST_KEY)`, s.String())
}

func TestAKeyThatTheServerEchoesStaysOutOfTheError(t *testing.T) {
	const odd = `od"d&key/0123456789`
	for name, test := range map[string]struct {
		key   string
		reply modeltest.Reply
	}{
		"in a JSON error":        {testKey, modeltest.Status(400, "you sent Bearer "+testKey+" to us")},
		"escaped in JSON":        {testKey, modeltest.Raw(401, "application/json", `{"error":{"message":"bad key \u0073k-test-0123456789abcdef"}}`)},
		"as the error's code":    {testKey, modeltest.ErrorCode(500, testKey, "x")},
		"in an unknown shape":    {testKey, modeltest.Raw(418, "application/json", `{"k":"`+testKey+`"}`)},
		"in plain text":          {testKey, modeltest.Raw(500, "text/plain", testKey)},
		"in a page":              {testKey, modeltest.Raw(500, "text/html", "<title>"+testKey+"</title>")},
		"in a page, as entities": {testKey, modeltest.Raw(500, "text/html", "<p>s&#107;"+testKey[2:]+"</p>")},
		"at the end of a cut":    {testKey, modeltest.Raw(200, "application/json", `{"key":"`+testKey[:len(testKey)-2])},
		"in a header":            {testKey, modeltest.Status(500).WithHeader("X-Request-Id", testKey)},
		"in a redirect":          {testKey, modeltest.Raw(302, "text/plain", "").WithHeader("Location", "/"+testKey+"?k="+testKey)},
		"in a 200":               {testKey, modeltest.Raw(200, "application/json", `{"error":{"message":"`+testKey+`"}}`)},
		"as a list":              {testKey, modeltest.Raw(200, "application/json", `["`+testKey+`"]`)},
		"in bad tool calls":      {testKey, modeltest.Message(`{"tool_calls":"` + testKey + `"}`)},
		"query-escaped":          {odd, modeltest.Status(400, "GET /?key=od%22d%26key%2F0123456789")},
		"with odd characters":    {odd, modeltest.Raw(400, "application/json", `{"k":"od\"d&key/0123456789"}`)},
		"beyond the excerpt":     {testKey, modeltest.Status(400, strings.Repeat("x", 290)+testKey)},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t, modeltest.Always(test.reply))
			_, err := newChat(t, model.Server{BaseURL: server.URL, APIKey: test.key}).Complete(t.Context(), hello())
			require.Error(t, err)
			shown := fmt.Sprintf("%v %+v %#v", err, err, err)
			for _, part := range []string{test.key, test.key[:12], test.key[8:], "od%22d%26key", `od\"d&key`} {
				require.NotContains(t, shown, part)
			}
			require.Less(t, len(err.Error()), 1000)
		})
	}
}

func TestMistakesInAServersDescriptionAreAllReported(t *testing.T) {
	good := model.Server{BaseURL: "http://localhost:8000/v1", Model: "m"}
	require.NoError(t, good.Validate())
	for name, test := range map[string]struct {
		change func(*model.Server)
		says   []string
	}{
		"no address":              {func(s *model.Server) { s.BaseURL = " " }, []string{"base_url is empty", "http://localhost:8000/v1"}},
		"no scheme":               {func(s *model.Server) { s.BaseURL = "localhost:8000/v1" }, []string{"http:// or https://"}},
		"no host":                 {func(s *model.Server) { s.BaseURL = "http:///v1" }, []string{"no host"}},
		"not a URL":               {func(s *model.Server) { s.BaseURL = "http://%zz" }, []string{"not a URL"}},
		"a password":              {func(s *model.Server) { s.BaseURL = "http://user:" + testKey + "@host/v1" }, []string{"user name or password"}},
		"a fragment":              {func(s *model.Server) { s.BaseURL = "http://host/v1#x" }, []string{"fragment"}},
		"the whole path":          {func(s *model.Server) { s.BaseURL = "http://host/v1/chat/completions/" }, []string{"leave it off"}},
		"no model":                {func(s *model.Server) { s.Model = "" }, []string{"model name is empty"}},
		"a line break in the key": {func(s *model.Server) { s.APIKey, s.KeySource = testKey+"\n", "MY_KEY" }, []string{"the key from MY_KEY holds white space"}},
		"a bad header":            {func(s *model.Server) { s.Headers = map[string]string{"a b": "x", "c": testKey + "\r\n"} }, []string{`header name "a b"`, `header "c"`}},
		"a negative weight":       {func(s *model.Server) { s.Weight = -1 }, []string{"weight -1"}},
		"several things":          {func(s *model.Server) { s.Model, s.BaseURL = "", "ftp://host" }, []string{"http:// or https://", "model name is empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			test.change(&s)
			_, err := model.NewChat(s)
			for _, words := range test.says {
				require.ErrorContains(t, err, words)
			}
			require.NotContains(t, err.Error(), testKey)
			require.ErrorContains(t, model.Probe(t.Context(), s), test.says[0])
		})
	}
}

func TestAQueryOfTheBaseURLIsKeptButNotShown(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.Always(modeltest.Status(500)))
	_, err := newChat(t, model.Server{BaseURL: server.URL + "/?api-version=2024-10-21"}).Complete(t.Context(), hello())
	require.Equal(t, "/v1/chat/completions?api-version=2024-10-21", server.Requests()[0].Path)
	require.NotContains(t, err.Error(), "2024-10-21")
}

package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/env/atropos/server"
)

func TestAWorkerAndATrainerMeetAtAServer(t *testing.T) {
	s, err := server.New(server.Config{Token: "secret", MinFree: -1})
	require.NoError(t, err)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		web.Close()
		require.NoError(t, s.Close())
	})
	ctx := context.Background()
	stranger, err := client.New(client.Config{URL: web.URL})
	require.NoError(t, err)
	_, err = stranger.Info(ctx)
	var status *client.StatusError
	require.ErrorAs(t, err, &status)
	require.Equal(t, 401, status.Code)
	require.False(t, client.Retryable(err))

	api, err := client.New(client.Config{URL: web.URL + "/", Token: "secret"})
	require.NoError(t, err)
	_, err = api.Batch(ctx, client.BatchOptions{})
	require.ErrorIs(t, err, client.ErrNotRegistered)
	id, err := api.Register(ctx, atropos.Registration{BatchSize: 2, MaxTokenLen: 9000, WandbProject: "p"})
	require.NoError(t, err)
	require.Regexp(t, `^\d{30,}$`, id)
	info, err := api.WandbInfo(ctx)
	require.NoError(t, err)
	require.Equal(t, "p", *info.Project)
	wants := atropos.EnvRegistration{DesiredName: "toy", Weight: 1, MaxTokenLength: 10, GroupSize: 2}
	registered, err := api.RegisterEnv(ctx, wants)
	require.NoError(t, err)
	require.Equal(t, atropos.StatusWait, registered.Status)
	batch, err := api.Batch(ctx, client.BatchOptions{})
	require.NoError(t, err)
	require.Nil(t, batch)
	registered, err = api.RegisterEnv(ctx, wants)
	require.NoError(t, err)
	require.Equal(t, "toy_0", registered.WandbName)

	row := make([]int64, 2000)
	body, err := atropos.AppendGroup(nil, &atropos.Group{Tokens: [][]int64{row, row}, Masks: [][]int64{row, row}, Scores: []float64{1, 0}, EnvID: &registered.EnvID})
	require.NoError(t, err)
	post, err := client.NewPost(body, false, "first")
	require.NoError(t, err)
	require.True(t, post.Packed)
	require.Less(t, len(post.Body), len(body))
	for range 2 {
		received, err := api.Send(ctx, post)
		require.NoError(t, err)
		require.Equal(t, client.Received{Groups: 1}, received)
	}
	seen, err := api.EnvStatus(ctx, registered.EnvID)
	require.NoError(t, err)
	require.Equal(t, int64(1), seen.SelfQueueSize)
	list, err := client.NewPost([]byte(`[{"tokens":[[1]],"masks":[[1]],"scores":[1],"env_id":0}]`), true, "")
	require.NoError(t, err)
	received, err := api.Send(ctx, list)
	require.NoError(t, err)
	require.Equal(t, client.Received{Groups: 1, Buffered: 1, LastBufferSize: 1}, received)

	batch, err = api.Batch(ctx, client.BatchOptions{Acknowledge: true})
	require.NoError(t, err)
	require.Equal(t, string(body), string(batch.Groups[0]))
	again, err := api.Batch(ctx, client.BatchOptions{Acknowledge: true})
	require.NoError(t, err)
	require.Equal(t, batch.ID, again.ID)
	require.NoError(t, api.Ack(ctx, batch.ID))
	require.Error(t, api.Ack(ctx, "another"))
	none, err := api.Batch(ctx, client.BatchOptions{Acknowledge: true, Last: batch.ID})
	require.NoError(t, err)
	require.Nil(t, none)
	o, err := api.Overview(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(1), o.Totals.Batches)
	require.NoError(t, api.DisconnectEnv(ctx, 0))
	require.Error(t, api.DisconnectEnv(ctx, 5))
	require.NoError(t, api.Reset(ctx))
	now, err := api.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, atropos.Status{}, now)
}

func TestWhatCanBeTriedAgain(t *testing.T) {
	var code int
	var body string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	api, err := client.New(client.Config{URL: web.URL, Timeout: 5 * time.Second, MaxReply: 100})
	require.NoError(t, err)
	for _, c := range []struct {
		code  int
		body  string
		retry bool
		want  string
	}{
		{503, `{"detail":"full"}`, true, "status 503: full"},
		{500, "Internal Server Error", true, "Internal Server Error"},
		{422, `{"detail":[{"msg":"x"}]}`, false, `[{"msg":"x"}]`},
		{200, `hello`, false, "is this an Atropos API server?"},
		{200, strings.Repeat("x", 101), true, "longer than 100 bytes"},
	} {
		code, body = c.code, c.body
		_, err := api.Info(context.Background())
		require.ErrorContains(t, err, c.want)
		require.Equal(t, c.retry, client.Retryable(err), c.want)
		var status *client.StatusError
		if errors.As(err, &status) {
			require.Equal(t, 7*time.Second, status.RetryAfter)
		}
	}
	web.Close()
	_, err = api.Info(context.Background())
	require.True(t, client.Retryable(err), "nobody listens")
}

func TestAddressesThatAreRefused(t *testing.T) {
	for _, url := range []string{"", "localhost:8000", "ftp://x", "http://", "http://x/?a=b", "http://user:pw@x", "://"} {
		_, err := client.New(client.Config{URL: url})
		require.ErrorContains(t, err, "server URL", url)
	}
}

package server

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
)

// sample is a group as workers send them: tokens, masks and log-probabilities.
func sample(b testing.TB, sequences, length int) []byte {
	random := rand.New(rand.NewPCG(5, 6))
	g := &atropos.Group{}
	for range sequences {
		tokens, masks, logprobs := make([]int64, length), make([]int64, length), make([]float64, length)
		for i := range tokens {
			tokens[i] = random.Int64N(128_000)
			masks[i], logprobs[i] = tokens[i], -random.ExpFloat64()
			if i < length/4 {
				masks[i], logprobs[i] = atropos.Masked, atropos.PlaceholderLogprob
			}
		}
		g.Tokens, g.Masks = append(g.Tokens, tokens), append(g.Masks, masks)
		g.InferenceLogprobs = append(g.InferenceLogprobs, logprobs)
		g.Scores = append(g.Scores, random.Float64())
	}
	body, err := atropos.AppendGroup(nil, g)
	require.NoError(b, err)
	return body
}

func benchServer(b testing.TB) (*Server, *client.Client, *httptest.Server) {
	s, err := New(Config{Dir: b.TempDir()})
	require.NoError(b, err)
	web := httptest.NewServer(s.Handler())
	b.Cleanup(func() {
		web.Close()
		require.NoError(b, s.Close())
	})
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	api, err := client.New(client.Config{URL: web.URL, HTTP: &http.Client{Transport: transport}})
	require.NoError(b, err)
	b.Cleanup(transport.CloseIdleConnections)
	return s, api, web
}

// BenchmarkPost measures groups accepted, durably, from 16 workers at once.
func BenchmarkPost(b *testing.B) {
	for _, size := range []struct{ sequences, length int }{{4, 25}, {16, 256}, {16, 4096}} {
		b.Run(fmt.Sprintf("%dx%d", size.sequences, size.length), func(b *testing.B) {
			_, api, _ := benchServer(b)
			body := sample(b, size.sequences, size.length)
			post, err := client.NewPost(body, false, "")
			require.NoError(b, err)
			b.SetBytes(int64(len(body)))
			b.SetParallelism(16 / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if _, err := api.Send(context.Background(), post); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "groups/s")
		})
	}
}

// BenchmarkBatch measures how long it takes to form and send a batch of 256
// sequences of 4,096 tokens.
func BenchmarkBatch(b *testing.B) {
	for _, encoding := range []string{"gzip", "identity"} {
		b.Run(encoding, func(b *testing.B) {
			_, api, web := benchServer(b)
			_, err := api.Register(context.Background(), atropos.Registration{BatchSize: 256})
			require.NoError(b, err)
			post, err := client.NewPost(sample(b, 16, 4096), false, "")
			require.NoError(b, err)
			take := func() int64 {
				req, err := http.NewRequest(http.MethodGet, web.URL+"/batch", nil)
				require.NoError(b, err)
				req.Header.Set("Accept-Encoding", encoding)
				resp, err := http.DefaultClient.Do(req)
				require.NoError(b, err)
				n, err := io.Copy(io.Discard, resp.Body)
				require.NoError(b, err)
				require.NoError(b, resp.Body.Close())
				return n
			}
			take() // tells the server the form to keep groups in
			for b.Loop() {
				b.StopTimer()
				for range 16 {
					_, err := api.Send(context.Background(), post)
					require.NoError(b, err)
				}
				b.StartTimer()
				n := take()
				b.SetBytes(n)
			}
		})
	}
}

// TestMemoryOfALongQueue fills the queue and prints what that takes;
// HERMES_ENV_API_FILL sets another number of sequences.
func TestMemoryOfALongQueue(t *testing.T) {
	sequences := 5_000
	if asked := os.Getenv("HERMES_ENV_API_FILL"); asked != "" {
		n, err := strconv.Atoi(asked)
		require.NoError(t, err)
		sequences = n
	}
	s, api, _ := benchServer(t)
	_, err := api.Register(context.Background(), atropos.Registration{BatchSize: 1 << 30})
	require.NoError(t, err)
	const perGroup, perPost = 4, 250
	group := sample(t, perGroup, 100)
	body := []byte("[")
	for i := range perPost {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, group...)
	}
	post, err := client.NewPost(append(body, ']'), true, "")
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var sent atomic.Int64
	for sent.Load() < int64(sequences) {
		_, err := api.Send(context.Background(), post)
		require.NoError(t, err)
		sent.Add(perGroup * perPost)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := s.describe().Queue
	more := float64(int64(after.HeapAlloc) - int64(before.HeapAlloc)) // earlier tests may have left something to collect
	t.Logf("%d sequences of 100 tokens: %.1f MB of memory, %.1f MB on disk", held.Sequences, more/1e6, float64(held.Bytes)/1e6)
	const buffers = 4e6 // do not grow with the queue
	require.Less(t, (more-buffers)/float64(held.Sequences), 400.0, "bytes of memory per sequence: the data itself, some 1,500, must not be in memory")
}

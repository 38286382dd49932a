package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/env/atropos/server"
	"github.com/hermes-env/hermes-env/trajectories"
)

// patience is how long tests wait for what has to happen; it passes only when they fail.
const patience = time.Minute

// api is an API server on a port of its own that can die and come back.
type api struct {
	t       testing.TB
	address string
	config  server.Config
	wrap    func(http.Handler) http.Handler

	cancel context.CancelFunc
	ended  chan error
}

// newAPI reserves an address. The server is started with up.
func newAPI(t testing.TB) *api {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	a := &api{t: t, address: address, config: server.Config{Dir: t.TempDir(), NoSync: true, MinFree: -1}}
	t.Cleanup(a.down)
	return a
}

func (a *api) url() string { return "http://" + a.address }

func (a *api) up() {
	a.t.Helper()
	var l net.Listener
	require.Eventually(a.t, func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", a.address)
		return err == nil
	}, patience, 5*time.Millisecond)
	s, err := server.New(a.config)
	require.NoError(a.t, err)
	handler := s.Handler()
	if a.wrap != nil {
		handler = a.wrap(handler)
	}
	web := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel, a.ended = cancel, make(chan error, 1)
	go func() {
		<-ctx.Done()
		_ = web.Close()
		<-served
		a.ended <- s.Close()
	}()
}

// down stops the server at once, its connections included.
func (a *api) down() {
	if a.cancel == nil {
		return
	}
	a.cancel()
	require.NoError(a.t, <-a.ended)
	a.cancel = nil
}

// forget makes the next server one that knows nothing.
func (a *api) forget() { a.config.Dir = a.t.TempDir() }

func (a *api) client() *client.Client {
	a.t.Helper()
	transport := &http.Transport{}
	c, err := client.New(client.Config{URL: a.url(), HTTP: &http.Client{Transport: transport}})
	require.NoError(a.t, err)
	a.t.Cleanup(transport.CloseIdleConnections)
	return c
}

// trainer registers with batches of 4 sequences and asks for a first batch.
func (a *api) trainer(change ...func(*atropos.Registration)) *client.Client {
	a.t.Helper()
	c := a.client()
	r := atropos.Registration{WandbGroup: "g", WandbProject: "p", BatchSize: 4, MaxTokenLen: 64, CheckpointDir: "c", SaveCheckpointInterval: 10, NumSteps: 100}
	for _, f := range change {
		f(&r)
	}
	_, err := c.Register(a.t.Context(), r)
	require.NoError(a.t, err)
	_, err = c.Batch(a.t.Context(), client.BatchOptions{})
	require.NoError(a.t, err)
	return c
}

// overview asks the server for everything.
func (a *api) overview() *atropos.Overview {
	a.t.Helper()
	o, err := a.client().Overview(a.t.Context())
	require.NoError(a.t, err)
	return o
}

// notes collects what people are told.
type notes struct {
	t         testing.TB
	mu        sync.Mutex
	texts     []string
	steps     []int64
	collected []Collected
}

func (n *notes) Note(text string) { n.add("note: " + text) }
func (n *notes) Warn(text string) { n.add("warning: " + text) }
func (n *notes) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.texts = append(n.texts, text)
}

func (n *notes) Stepped(step int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.steps = append(n.steps, step)
}

func (n *notes) Collected(c Collected) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.collected = append(n.collected, c)
}

// told waits until people are told something.
func (n *notes) told(text string) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, known := range n.texts {
			if containsText(known, text) {
				return true
			}
		}
		return false
	}, patience, 2*time.Millisecond, "nobody was told %q", text)
}

// bench is a worker under test.
type bench struct {
	*Worker
	t     testing.TB
	dir   string
	notes *notes
	drain chan struct{}
	over  bool
}

// newWorker makes a worker of groups of 2 for an API.
func newWorker(a *api, change ...func(*Config)) *bench {
	return newWorkerIn(a, a.t.TempDir(), change...)
}

func newWorkerIn(a *api, dir string, change ...func(*Config)) *bench {
	a.t.Helper()
	b := &bench{t: a.t, dir: dir, notes: &notes{t: a.t}, drain: make(chan struct{})}
	config := Config{
		Client: a.client(), Dir: dir, Name: "toy", MaxTokens: 100, Observer: b.notes, Drain: b.drain,
		Throttle: Throttle{GroupSize: 2, MaxGroups: 4, MaxBatches: 3}, Poll: 5 * time.Millisecond, MaxBackoff: 20 * time.Millisecond,
	}
	for _, f := range change {
		f(&config)
	}
	w, err := New(config)
	require.NoError(a.t, err)
	b.Worker = w
	a.t.Cleanup(func() {
		if !b.over {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = w.Finish(ctx)
		}
	})
	w.Start(a.t.Context())
	return b
}

// finish ends the worker in good order.
func (b *bench) finish() error {
	b.t.Helper()
	b.over = true
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	return b.Finish(ctx)
}

func (b *bench) ready() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	require.NoError(b.t, b.Ready(ctx))
}

// admit lets a group start.
func (b *bench) admit() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	require.NoError(b.t, b.Admit(ctx))
}

// held waits until no group may start, for a reason.
func (b *bench) held(why Hold) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Admit(ctx) }()
	require.Eventually(b.t, func() bool { return b.Status().Hold == why }, patience, time.Millisecond, "held by %q", b.Status().Hold)
	cancel()
	require.ErrorIs(b.t, <-ended, context.Canceled)
}

// sent waits until the server has a number of groups and the spool is empty.
func (b *bench) sent(groups int64) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		s := b.Status()
		return s.Sent.Groups == groups && s.Spooled == 0
	}, patience, time.Millisecond)
}

// group is a group of two sequences whose tokens tell its step.
func group(step int, change ...func(*trajectories.Group)) trajectories.Group {
	g := trajectories.Group{Step: step, ItemID: fmt.Sprint("item-", step), Key: fmt.Sprint("key", step)}
	for i := range 2 {
		g.Sequences = append(g.Sequences, trajectories.Sequence{
			Tokens: []int{step, 7, 8}, Masks: []int{-100, 7, 8}, Logprobs: []float64{1, -0.5, -0.25}, Score: float64(i),
		})
	}
	for _, f := range change {
		f(&g)
	}
	return g
}

// flaky passes requests on, or spoils them as a test says.
type flaky struct {
	next  http.Handler
	spoil atomic.Pointer[func(w http.ResponseWriter, r *http.Request, next http.Handler) bool]
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if spoil := f.spoil.Load(); spoil != nil && (*spoil)(w, r, f.next) {
		return
	}
	f.next.ServeHTTP(w, r)
}

func (a *api) flaky() *flaky {
	f := &flaky{}
	a.wrap = func(next http.Handler) http.Handler {
		f.next = next
		return f
	}
	return f
}

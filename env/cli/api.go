package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/journal"
	"github.com/hermes-env/hermes-env/env/atropos/server"
)

// apiCommand is the trajectory API server and the view of a running one.
type apiCommand struct {
	Run    apiRunCommand    `cmd:"" default:"withargs" help:"Run the server: workers post groups to it, a trainer takes batches from it."`
	Status apiStatusCommand `cmd:"" help:"Show queue, step, workers and rates of a running server."`
}

type apiRunCommand struct {
	Host             string        `default:"localhost" help:"Address to listen on; localhost is IPv4 and IPv6 of this machine only."`
	Port             int           `default:"8000" help:"Port to listen on; 0 takes a free one."`
	StateDir         string        `name:"state-dir" default:"api-state" help:"Directory that keeps groups, workers and trainer over restarts; created when missing. An empty one (--state-dir=) keeps nothing."`
	TokenEnv         string        `name:"token-env" help:"Environment variable with the token that requests must bring. Needed when others can reach the server."`
	AllowAnonymous   bool          `name:"allow-anonymous" help:"Listen where others can reach the server without asking for a token, as the original does."`
	NoSync           bool          `name:"no-sync" help:"Acknowledge groups before they are on disk: faster, and a power cut can lose them."`
	Repair           bool          `help:"Pass over damaged parts of the state directory instead of refusing to start."`
	Original         bool          `help:"Behave like the original server where it is worse: newest batch first, steps counted ahead, no checks of shapes and lengths, silent workers count."`
	Delivery         string        `enum:"oldest,newest" default:"oldest" help:"Which batch a trainer gets first: oldest, or newest as in the original."`
	Packing          string        `enum:"any,strict" default:"any" help:"Which groups make a batch: any whose sizes add up when the original rules give nothing, or those rules only (strict)."`
	AcceptRagged     bool          `name:"accept-ragged" help:"Take groups whose lists don't fit each other."`
	AcceptOverLong   bool          `name:"accept-over-long" help:"Take sequences longer than the trainer's max_token_len."`
	AcceptImpossible bool          `name:"accept-impossible" help:"Take sizes of 0 and less, minimum allocations outside 0 to 1, token ids that no vocabulary has, keys that are given twice, and unknown content encodings."`
	Reregister       string        `enum:"update,refuse,ignore" default:"update" help:"What a registration with other settings does: update, refuse (status 409) or ignore, as the original."`
	WorkerTimeout    time.Duration `name:"worker-timeout" default:"1m" help:"After so long without a word a worker no longer holds batches up; 0 turns it off."`
	MaxSequences     int64         `name:"max-sequences" default:"1048576" help:"Sequences held for the trainer before posts wait and are refused with status 503."`
	MaxBytes         int64         `name:"max-bytes" default:"68719476736" help:"Bytes held on disk for the trainer before posts wait and are refused with status 503."`
	MaxBody          int64         `name:"max-body" default:"536870912" help:"Bytes of one request, unpacked; larger ones get status 413."`
	MaxMemory        int64         `name:"max-memory" default:"2147483648" help:"Memory for requests that are being read; more of them wait, and get status 503 after 15 s. One request takes up to 3 times --max-body."`
	NoCORS           bool          `name:"no-cors" help:"Leave out the headers that let pages in browsers use the server."`
	Grace            time.Duration `default:"10s" help:"How long requests may still take when the server is asked to stop."`
	Quiet            bool          `short:"q" help:"Print warnings and errors only."`
	profileFlags
}

// Run serves until it is asked to stop.
func (c *apiRunCommand) Run(s *session) error {
	config, err := c.config(s)
	if err != nil {
		return fail(ExitUsage, err)
	}
	if c.Port < 0 || c.Port > 65535 {
		return fail(ExitUsage, fmt.Errorf("--port %d: ports are 0 to 65535", c.Port))
	}
	listeners, err := server.Listen(s.ctx, c.Host, c.Port)
	if err != nil {
		return fail(ExitUsage, fmt.Errorf("%w (another server may be running there: --port 0 takes a free one)", err))
	}
	api, err := server.New(config)
	if err != nil {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		if errors.Is(err, journal.ErrLocked) {
			err = fmt.Errorf("%w: stop it, or choose another --state-dir", err)
		}
		return fail(ExitStore, err)
	}
	defer limitMemory(c.MaxMemory)()
	c.announce(s, listeners, api)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	stopped := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-s.app.Signals:
			cancel()
		case <-ended:
		}
	}()
	err = api.Serve(ctx, listeners, c.Grace)
	close(ended)
	<-stopped
	switch {
	case err != nil:
		return fail(ExitStore, fmt.Errorf("serve: %w", err))
	case ctx.Err() != nil:
		if !c.Quiet {
			fmt.Fprintln(s.app.Stderr, "stopped; start it again with the same --state-dir to go on")
		}
		if s.ctx.Err() != nil {
			return env.ErrInterrupted
		}
	}
	return nil
}

// stateMemory is memory for all but requests: the state of a queue of millions of
// sequences, connections, and the replies that are being written.
const stateMemory = 1 << 30

// limitMemory makes the garbage collector keep the process within the memory for
// requests and stateMemory, unless GOMEMLIMIT says otherwise. The function it returns
// ends that.
func limitMemory(requests int64) (end func()) {
	before := debug.SetMemoryLimit(-1)
	if before != math.MaxInt64 {
		return func() {}
	}
	debug.SetMemoryLimit(requests + stateMemory)
	return func() { debug.SetMemoryLimit(before) }
}

// config turns the flags into the server's configuration.
func (c *apiRunCommand) config(s *session) (server.Config, error) {
	rules := atropos.Rules{
		NewestFirst: c.Delivery == "newest", StrictPacking: c.Packing == "strict", AcceptRagged: c.AcceptRagged, AcceptImpossible: c.AcceptImpossible,
		AcceptOverLong: c.AcceptOverLong, Reregister: atropos.Reregister(c.Reregister), WorkerTimeout: c.WorkerTimeout,
	}
	if c.WorkerTimeout <= 0 {
		rules.WorkerTimeout = -1
	}
	if c.Original {
		rules = atropos.OriginalRules()
	}
	level := slog.LevelInfo
	if c.Quiet {
		level = slog.LevelWarn
	}
	config := server.Config{
		Dir: c.StateDir, NoSync: c.NoSync, Repair: c.Repair, Rules: rules, NoCORS: c.NoCORS,
		MaxSequences: c.MaxSequences, MaxBytes: c.MaxBytes, MaxBody: c.MaxBody, MaxMemory: c.MaxMemory, Version: Version(),
		Log: slog.New(slog.NewTextHandler(s.app.Stderr, &slog.HandlerOptions{Level: level})),
	}
	for _, limit := range []struct {
		flag  string
		value int64
	}{{"max-sequences", c.MaxSequences}, {"max-bytes", c.MaxBytes}, {"max-body", c.MaxBody}, {"max-memory", c.MaxMemory}} {
		if limit.value <= 0 {
			return config, fmt.Errorf("--%s %d: the limit must be positive", limit.flag, limit.value)
		}
	}
	if c.TokenEnv != "" {
		token, err := apiToken(s.app, c.TokenEnv)
		if err != nil {
			return config, err
		}
		config.Token = token
	}
	if config.Token == "" && !server.Loopback(c.Host) && !c.AllowAnonymous {
		return config, fmt.Errorf("--host %s: others can reach the server there: name a token with --token-env VARIABLE, or pass --allow-anonymous", c.Host)
	}
	return config, nil
}

// apiToken reads the token that an environment variable holds.
func apiToken(a *App, variable string) (string, error) {
	var token string
	if a.Getenv != nil {
		value, _ := a.Getenv(variable)
		token = strings.TrimSpace(value)
	}
	if token == "" {
		return "", fmt.Errorf("--token-env %s: the environment variable is not set", variable)
	}
	return token, nil
}

// announce says where the server listens and what it goes on with.
func (c *apiRunCommand) announce(s *session, listeners []net.Listener, api *server.Server) {
	if c.Quiet {
		return
	}
	var addresses []string
	for _, l := range listeners {
		addresses = append(addresses, "http://"+l.Addr().String())
	}
	fmt.Fprintf(s.app.Stderr, "listening on %s\n", strings.Join(addresses, " and "))
	if c.StateDir == "" {
		fmt.Fprintln(s.app.Stderr, "nothing is kept: without --state-dir all is gone when the server ends")
		return
	}
	fmt.Fprintf(s.app.Stderr, "state in %s: %s\n", api.Dir(), api.Summary())
}

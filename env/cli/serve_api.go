package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/env/atropos/journal"
	"github.com/hermes-env/hermes-env/env/atropos/server"
)

// embeddedAPI is an API server in the worker's process.
type embeddedAPI struct {
	url    string
	stop   context.CancelFunc
	ended  chan error
	closed bool
}

// embeddedAddress is where the server of --embedded-api listens.
func embeddedAddress(address string) (host string, port int, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || strings.Trim(u.Path, "/") != "" {
		return "", 0, fmt.Errorf("env.rollout_server_url %s: --embedded-api serves http without a path, such as http://localhost:8000", address)
	}
	host, port = u.Hostname(), 80
	if !server.Loopback(host) {
		return "", 0, fmt.Errorf("env.rollout_server_url %s: --embedded-api serves this machine only, such as http://localhost:8000; for others start `hermes-env api --host …`", address)
	}
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil || port > 65535 {
			return "", 0, fmt.Errorf("env.rollout_server_url %s: ports are 0 to 65535", address)
		}
	}
	return host, port, nil
}

// startAPI starts the server in this process.
func (w *workerRun) startAPI(ctx context.Context) (*embeddedAPI, error) {
	host, port, err := embeddedAddress(w.cfg.Env.RolloutServerURL)
	if err != nil {
		return nil, fail(ExitUsage, err)
	}
	settings := server.Config{Dir: w.command.APIStateDir, Version: Version(), Token: w.token(),
		Log: slog.New(slog.NewTextHandler(noteWriter{w.out.Note}, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if settings.Dir == "" {
		settings.Dir = filepath.Join(w.store.Dir(), "api")
	}
	listeners, err := server.Listen(ctx, host, port)
	if err != nil {
		return nil, fail(ExitUsage, fmt.Errorf("%w (another server may be running there: leave --embedded-api out to use it, or choose another port in env.rollout_server_url)", err))
	}
	api, err := server.New(settings)
	if err != nil {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		if errors.Is(err, journal.ErrLocked) {
			err = fmt.Errorf("%w: stop it, or choose another --api-state-dir", err)
		}
		return nil, fail(ExitStore, err)
	}
	if port == 0 {
		port = listeners[0].Addr().(*net.TCPAddr).Port
	}
	// Not the run's context: the trainer may still take batches while the worker ends.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &embeddedAPI{url: "http://" + net.JoinHostPort(host, strconv.Itoa(port)), stop: stop, ended: make(chan error, 1)}
	go func() { e.ended <- api.Serve(serving, listeners, time.Second) }()
	w.out.Note("API server at " + e.url + " for the trainer, state in " + settings.Dir)
	return e, nil
}

// close ends the server. Its state is on disk.
func (e *embeddedAPI) close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	e.stop()
	return <-e.ended
}

// awaitDelivery lets the trainer fetch its last batch, which is formed and may not be
// sent or acknowledged yet.
func (e *embeddedAPI) awaitDelivery(ctx context.Context, token string, out printer) {
	api, err := client.New(client.Config{URL: e.url, Token: token})
	if err != nil {
		return
	}
	defer api.CloseIdle()
	said := false
	for ctx.Err() == nil {
		o, err := api.Overview(ctx)
		if err != nil || o.Undelivered.Groups == 0 {
			return
		}
		if !said {
			said = true
			out.Note("waiting until the trainer has its last batch (Ctrl-C doesn't wait)")
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// noteWriter hands the lines of a log to the printer.
type noteWriter struct{ note func(string) }

var _ io.Writer = noteWriter{}

// Write takes one line.
func (n noteWriter) Write(line []byte) (int, error) {
	n.note("API server: " + strings.TrimSpace(string(line)))
	return len(line), nil
}

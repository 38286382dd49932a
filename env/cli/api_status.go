package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
)

type apiStatusCommand struct {
	URL      string        `name:"url" default:"http://localhost:8000" help:"The server."`
	TokenEnv string        `name:"token-env" help:"Environment variable with the token to send."`
	Watch    bool          `short:"w" help:"Go on until interrupted: a view that is redrawn on a terminal, a line at a time elsewhere."`
	Every    time.Duration `default:"1s" help:"How often --watch asks."`
	JSON     bool          `name:"json" help:"Print JSON, one object per look."`
}

// Run shows a running server.
func (c *apiStatusCommand) Run(s *session) error {
	config := client.Config{URL: c.URL, Timeout: 10 * time.Second}
	if c.Watch {
		config.Timeout = 3 * time.Second // a view that stands still must say so
	}
	if c.TokenEnv != "" {
		token, err := apiToken(s.app, c.TokenEnv)
		if err != nil {
			return fail(ExitUsage, err)
		}
		config.Token = token
	}
	if c.Every <= 0 {
		return fail(ExitUsage, fmt.Errorf("--every %s: the time must be positive", c.Every))
	}
	api, err := client.New(config)
	if err != nil {
		return fail(ExitUsage, fmt.Errorf("--url: %w", err))
	}
	defer api.CloseIdle()
	ctx, release := untilSignal(s.ctx, s.app.Signals)
	defer release()
	if c.Watch {
		return c.watch(ctx, s, api)
	}
	o, err := c.look(ctx, api)
	switch {
	case ctx.Err() != nil:
		return env.ErrInterrupted
	case err != nil:
		return fail(ExitUsage, err)
	}
	columns, _ := terminalSize(s.app.Stdout)
	return c.print(s, o, columns)
}

// untilSignal makes a context that ends with the first signal.
func untilSignal(parent context.Context, signals <-chan os.Signal) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(parent)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-stopped
	}
}

// look asks the server. One of the original kind tells less.
func (c *apiStatusCommand) look(ctx context.Context, api *client.Client) (*atropos.Overview, error) {
	o, err := api.Overview(ctx)
	var status *client.StatusError
	switch {
	case errors.As(err, &status) && status.Code == 404:
		return c.lookOriginal(ctx, api)
	case errors.As(err, &status) && status.Code == 401:
		return nil, fmt.Errorf("%w (name the variable that holds it with --token-env)", err)
	case errors.As(err, &status):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w (start a server with the command api, or name another with --url)", err)
	}
	return o, nil
}

func (c *apiStatusCommand) lookOriginal(ctx context.Context, api *client.Client) (*atropos.Overview, error) {
	status, err := api.Status(ctx)
	if err != nil {
		return nil, err
	}
	info, err := api.Info(ctx)
	if err != nil {
		return nil, err
	}
	o := &atropos.Overview{Version: "another server", CurrentStep: status.CurrentStep, Registered: info.BatchSize != -1}
	o.Queue.Groups = status.QueueSize
	if o.Registered {
		o.Trainer = &atropos.Registration{BatchSize: info.BatchSize, MaxTokenLen: info.MaxTokenLen}
	}
	return o, nil
}

// print shows one look.
func (c *apiStatusCommand) print(s *session, o *atropos.Overview, columns int) error {
	if c.JSON {
		line, err := chat.Marshal(o)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.app.Stdout, "%s\n", line)
		return err
	}
	return printView(s, apiView(c.URL, o, columns))
}

func printView(s *session, view []viewLine) error {
	color := useColor(s.app.Stdout, s.app.Getenv)
	var b strings.Builder
	for _, line := range view {
		b.WriteString(line.render(color) + "\n")
	}
	_, err := io.WriteString(s.app.Stdout, b.String())
	return err
}

// watch looks again and again until ctx ends. A server that doesn't answer is
// waited for.
func (c *apiStatusCommand) watch(ctx context.Context, s *session, api *client.Client) error {
	var screen watcher = &lineWatcher{command: c, session: s}
	if _, rows := terminalSize(s.app.Stdout); rows > 0 && !c.JSON && !dumbTerminal(s.app.Getenv) {
		screen = newScreenWatcher(c, s)
	}
	err := c.watchOn(ctx, screen, api)
	return errors.Join(err, screen.end())
}

func (c *apiStatusCommand) watchOn(ctx context.Context, screen watcher, api *client.Client) error {
	ticker := time.NewTicker(c.Every)
	defer ticker.Stop()
	resized := time.NewTicker(resizeCheck)
	defer resized.Stop()
	for {
		o, err := c.look(ctx, api)
		if ctx.Err() != nil {
			return nil
		}
		if err := screen.show(o, err); err != nil {
			return err
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				waiting = false
			case <-resized.C:
				if err := screen.refresh(); err != nil {
					return err
				}
			}
		}
	}
}

// watcher shows what --watch sees.
type watcher interface {
	show(o *atropos.Overview, failed error) error
	refresh() error // called often between looks
	end() error
}

// lineWatcher writes a line for each look: for files and pipes.
type lineWatcher struct {
	command *apiStatusCommand
	session *session
	failed  string
}

func (w *lineWatcher) show(o *atropos.Overview, failed error) error {
	if failed != nil {
		if w.failed == failed.Error() {
			return nil
		}
		w.failed = failed.Error()
		_, err := fmt.Fprintf(w.session.app.Stderr, "%s no answer: %v\n", time.Now().Format(time.TimeOnly), failed)
		return err
	}
	if w.failed != "" {
		w.failed = ""
		if _, err := fmt.Fprintf(w.session.app.Stderr, "%s it answers again\n", time.Now().Format(time.TimeOnly)); err != nil {
			return err
		}
	}
	if w.command.JSON {
		return w.command.print(w.session, o, 0)
	}
	text := fmt.Sprintf("%s step %d · queue %s, %s · buffered %d · undelivered %d · workers %d of %d alive · %s groups/s · %.1f batches/min",
		time.Now().Format(time.TimeOnly), o.CurrentStep, count(int(o.Queue.Groups), "group"), count(int(o.Queue.Sequences), "sequence"), o.Buffered.Groups,
		o.Undelivered.Groups, aliveWorkers(o), len(o.Workers), rateText(o.Rates.GroupsPerSecond), o.Rates.BatchesPerMinute)
	if o.Problem != "" {
		text += " · PROBLEM: " + printable(o.Problem)
	}
	_, err := fmt.Fprintln(w.session.app.Stdout, text)
	return err
}

func (w *lineWatcher) refresh() error { return nil }
func (w *lineWatcher) end() error     { return nil }

func aliveWorkers(o *atropos.Overview) int {
	n := 0
	for _, w := range o.Workers {
		if w.Alive {
			n++
		}
	}
	return n
}

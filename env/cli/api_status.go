package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
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
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	if !c.Watch {
		o, err := c.look(ctx, api)
		if err != nil {
			return fail(ExitUsage, err)
		}
		return c.print(s.app.Stdout, o)
	}
	return c.watch(ctx, s, api)
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
		return nil, fmt.Errorf("%w (start a server with `hermes-env api`, or name another with --url)", err)
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

func (c *apiStatusCommand) print(w io.Writer, o *atropos.Overview) error {
	if c.JSON {
		line, err := chat.Marshal(o)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", line)
		return err
	}
	_, err := io.WriteString(w, describeAPI(c.URL, o))
	return err
}

// watch looks again and again until a signal comes. A server that doesn't answer is
// waited for.
func (c *apiStatusCommand) watch(ctx context.Context, s *session, api *client.Client) error {
	f, ok := s.app.Stdout.(*os.File)
	live := ok && isTerminal(f) && !c.JSON
	ticker := time.NewTicker(c.Every)
	defer ticker.Stop()
	for {
		o, err := c.look(ctx, api)
		if err = c.show(s, o, err, live); err != nil {
			return err
		}
		select {
		case <-s.app.Signals:
			return nil
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// show prints what one look of watch gave.
func (c *apiStatusCommand) show(s *session, o *atropos.Overview, failed error, live bool) error {
	switch {
	case live:
		text := "\x1b[H" // to the corner; every line then clears what is left of the old one
		view := ""
		if failed != nil {
			view = "no answer: " + failed.Error() + "\n"
		} else {
			view = describeAPI(c.URL, o)
		}
		text += strings.ReplaceAll(view, "\n", "\x1b[K\n") + "\x1b[J"
		_, err := io.WriteString(s.app.Stdout, text)
		return err
	case failed != nil:
		_, err := fmt.Fprintf(s.app.Stderr, "no answer: %v\n", failed)
		return err
	case c.JSON:
		return c.print(s.app.Stdout, o)
	}
	_, err := fmt.Fprintf(s.app.Stdout, "%s step %d · queue %d groups, %d sequences · buffered %d · undelivered %d · workers %d of %d alive · %.1f groups/s · %.1f batches/min\n",
		time.Now().Format(time.TimeOnly), o.CurrentStep, o.Queue.Groups, o.Queue.Sequences, o.Buffered.Groups, o.Undelivered.Groups,
		aliveWorkers(o), len(o.Workers), o.Rates.GroupsPerSecond, o.Rates.BatchesPerMinute)
	return err
}

func aliveWorkers(o *atropos.Overview) int {
	n := 0
	for _, w := range o.Workers {
		if w.Alive {
			n++
		}
	}
	return n
}

// describeAPI is the view of a server as text.
func describeAPI(url string, o *atropos.Overview) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s · %s · up %s\n", url, o.Version, (time.Duration(o.UptimeSeconds) * time.Second).String())
	switch {
	case !o.Registered:
		b.WriteString("trainer     none registered\n")
	case !o.Started && o.UptimeSeconds > 0:
		fmt.Fprintf(&b, "trainer     registered, batches of %d, at most %d tokens; has not asked for a batch: workers wait\n", o.Trainer.BatchSize, o.Trainer.MaxTokenLen)
	default:
		fmt.Fprintf(&b, "trainer     batches of %d, at most %d tokens, step %d", o.Trainer.BatchSize, o.Trainer.MaxTokenLen, o.CurrentStep)
		if o.Trainer.NumSteps > 0 {
			fmt.Fprintf(&b, " of %d", o.Trainer.NumSteps)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "queue       %s%s\n", amountText(o.Queue), fillBar(o))
	if o.Buffered.Groups > 0 {
		fmt.Fprintf(&b, "buffered    %s wait for others that fill up their group size\n", amountText(o.Buffered))
	}
	if o.Unbatchable.Groups > 0 {
		fmt.Fprintf(&b, "too large   %s in the queue have more sequences than a batch\n", amountText(o.Unbatchable))
	}
	for _, batch := range o.Batches {
		fmt.Fprintf(&b, "batch       %s, %d sequences, %s\n", batch.ID, batch.Sequences, batch.State)
	}
	fmt.Fprintf(&b, "rates       %.1f groups/s · %.0f tokens/s · %.1f batches/min\n", o.Rates.GroupsPerSecond, o.Rates.TokensPerSecond, o.Rates.BatchesPerMinute)
	t := o.Totals
	fmt.Fprintf(&b, "since start %d groups taken, %d batches delivered, %d sent again · %d duplicates, %d rejected, %d refused\n", t.Groups, t.Batches, t.Redelivered, t.Duplicates, t.Rejected, t.Refused)
	if o.Problem != "" {
		fmt.Fprintf(&b, "PROBLEM     %s\n", o.Problem)
	}
	if len(o.Workers) == 0 {
		return b.String()
	}
	b.WriteByte('\n')
	w := tabwriter.NewWriter(&b, 2, 4, 2, ' ', 0)
	fmt.Fprintln(w, "WORKER\tID\tSTATE\tGROUP SIZE\tWEIGHT\tMINIMUM\tQUEUED\tBUFFERED\tTAKEN")
	for _, worker := range o.Workers {
		minimum := "-"
		if worker.MinBatchAllocation != nil {
			minimum = fmt.Sprintf("%.0f %%", *worker.MinBatchAllocation*100)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%g\t%s\t%d\t%d\t%d\n", worker.Name, worker.EnvID, workerState(worker), worker.GroupSize, worker.Weight,
			minimum, worker.Queued.Groups, worker.Buffered.Groups, worker.Accepted)
	}
	_ = w.Flush() // into memory
	return b.String()
}

func workerState(w atropos.WorkerOverview) string {
	silent := (time.Duration(w.SilentSeconds) * time.Second).String()
	switch {
	case !w.Connected:
		return "disconnected"
	case !w.Alive:
		return "silent for " + silent
	case w.SilentSeconds >= 5:
		return "alive, " + silent + " ago"
	}
	return "alive"
}

func amountText(a atropos.Amount) string {
	return fmt.Sprintf("%d groups, %d sequences, %d tokens, %.1f MB", a.Groups, a.Sequences, a.Tokens, float64(a.Bytes)/1e6)
}

// fillBar draws how far the queue fills the next batch.
func fillBar(o *atropos.Overview) string {
	if o.Trainer == nil || o.Trainer.BatchSize <= 0 {
		return ""
	}
	const width = 20
	batches := float64(o.Queue.Sequences) / float64(o.Trainer.BatchSize)
	full := int(min(1, batches) * width)
	return fmt.Sprintf("  [%s%s] %.1f batches", strings.Repeat("#", full), strings.Repeat(".", width-full), batches)
}

package serve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"

	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/internal/textutil"
)

// linkState is what is known of the server and the trainer. Worker.mu guards it.
type linkState struct {
	registered bool
	identity   Identity
	before     *Identity // of an earlier process, which may still be good

	away      bool // the last request got no answer, or none to work with
	awaySince time.Time
	awayWhy   string
	refused   bool   // nobody listened at its address since the last answer
	full      string // why the server takes no groups for now, "" when it does
	said      string // what was last told to people about the state of things

	status    atropos.EnvStatus
	batchSize int64
	maxTokens int64
	lastStep  int64 // after which nothing is needed; 0 and less: none
	wandb     atropos.WandbInfo
	errors500 int // in a row
	polls     int
	noticed   bool // a step was noticed in this process
	admits    bool // a group could have started in this process
}

const (
	pollTimeout   = 20 * time.Second
	fastPoll      = 250 * time.Millisecond // while a group waits for the queue to fall
	infoEvery     = 10                     // polls
	forgotten500s = 3                      // replies of 500 after which the original server is taken to have forgotten us
	firstBackoff  = time.Second
)

// keepLink registers, looks at the queue and registers again where that is needed,
// until ctx ends.
func (w *Worker) keepLink(ctx context.Context) {
	failures := 0
	for {
		var wait time.Duration
		switch err := w.look(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait = backoff(failures, w.config.MaxBackoff)
			failures++
			w.lost(err)
		default:
			failures = 0
			wait = w.pace()
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// backoff is how long to wait after a number of failures before one: doubling, and
// spread so that many workers don't come at once.
func backoff(before int, longest time.Duration) time.Duration {
	d := min(longest, firstBackoff<<min(before, 10))
	return d - rand.N(d/4+1)
}

// pace is the time between polls.
func (w *Worker) pace() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hold == HoldQueue || w.hold == HoldShare || w.hold == HoldEnd {
		return min(fastPoll, w.config.Poll)
	}
	return w.config.Poll
}

// look is one turn of keepLink.
func (w *Worker) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	w.mu.Lock()
	registered, away := w.link.registered, w.link.away
	w.mu.Unlock()
	if registered && away {
		// It may have been another server, or the same one without its memory.
		known, err := w.recognised(ctx)
		if err != nil {
			return err
		}
		if !known {
			w.forget("the server came back without knowing this worker")
			registered = false
		}
	}
	var err error
	if registered {
		err = w.poll(ctx)
	} else {
		err = w.register(ctx)
	}
	if errors.Is(err, errForgotten) {
		return nil // the next turn registers
	}
	return err
}

// errForgotten: the server doesn't know this worker.
var errForgotten = errors.New("the server does not know this worker")

// generation asks what the server's state is called; "" from servers that don't tell.
func (w *Worker) generation(ctx context.Context) (string, *atropos.Overview, error) {
	o, err := w.config.Client.Overview(ctx)
	var status *client.StatusError
	var format *client.ReplyError
	switch {
	case errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusMethodNotAllowed), errors.As(err, &format):
		return "", nil, nil
	case err != nil:
		return "", nil, err
	}
	return o.Generation, o, nil
}

// recognised says whether the server may still know this worker by its number. One that
// doesn't tell has forgotten everything, as the original does, if its process was gone;
// else its answer to the next poll shows it.
func (w *Worker) recognised(ctx context.Context) (bool, error) {
	w.mu.Lock()
	id, refused := w.link.identity, w.link.refused
	w.mu.Unlock()
	generation, o, err := w.generation(ctx)
	switch {
	case err != nil:
		return false, err
	case generation == "" && id.Generation == "":
		return !refused, nil
	}
	return generation == id.Generation && knows(o, id), nil
}

func knows(o *atropos.Overview, id Identity) bool {
	for _, row := range o.Workers {
		if row.EnvID == id.EnvID {
			return row.Name == id.Name && row.Connected
		}
	}
	return false
}

// register makes the worker one of the server's, if the trainer has started.
func (w *Worker) register(ctx context.Context) error {
	generation, o, err := w.generation(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	before := w.link.before
	w.mu.Unlock()
	id := Identity{URL: w.config.Client.URL(), Generation: generation}
	var steps int64
	if before != nil && generation != "" && before.Generation == generation && knows(o, *before) {
		id = *before // this process takes the place of one that died
		if o.Trainer != nil {
			steps = o.Trainer.NumSteps
		}
	} else {
		reply, err := w.config.Client.RegisterEnv(ctx, atropos.EnvRegistration{
			MaxTokenLength: w.config.MaxTokens, DesiredName: w.config.Name, Weight: w.config.Weight,
			MinBatchAllocation: w.config.Throttle.MinAllocation, GroupSize: int64(w.config.Throttle.GroupSize),
		})
		if err != nil {
			return err
		}
		if reply.Status == atropos.StatusWait {
			w.found(false)
			w.say("the API server at " + w.config.Client.URL() + " waits for its trainer; so does this worker")
			return nil
		}
		id.EnvID, id.Name, steps = reply.EnvID, reply.WandbName, reply.NumSteps
	}
	wandb, err := w.config.Client.WandbInfo(ctx)
	if err != nil {
		return err
	}
	if err := w.spool.record(&spoolEvent{Op: opWorker, Identity: &id}); err != nil {
		w.fail(err)
		return err
	}
	w.mu.Lock()
	w.link.identity, w.link.before, w.link.wandb = id, nil, wandb
	w.link.polls, w.link.errors500 = 0, 0
	w.link.lastStep = w.config.Throttle.LastStep
	if steps > 0 && (w.link.lastStep <= 0 || steps < w.link.lastStep) {
		w.link.lastStep = steps
	}
	w.mu.Unlock()
	if err := w.poll(ctx); err != nil { // what is decided from now on rests on a status
		return err
	}
	w.mu.Lock()
	w.link.registered = true
	step, batch, last := w.link.status.CurrentStep, w.link.batchSize, w.link.lastStep
	w.wake()
	w.mu.Unlock()
	text := fmt.Sprintf("registered as %s with %s: step %d", id.Name, id.URL, step)
	if last > 0 {
		text += fmt.Sprintf(" of %d", last)
	}
	if batch > 0 {
		text += fmt.Sprintf(", batches of %d sequences", batch)
	}
	w.say(text)
	return nil
}

// poll asks for the queue, and now and then for the trainer's settings.
func (w *Worker) poll(ctx context.Context) error {
	w.mu.Lock()
	id, posted := w.link.identity, w.posted
	info := w.link.polls%infoEvery == 0
	w.link.polls++
	w.mu.Unlock()
	status, err := w.config.Client.EnvStatus(ctx, id.EnvID)
	var refused *client.StatusError
	switch {
	case errors.As(err, &refused) && refused.Code == http.StatusNotFound:
		w.forget("the server has forgotten this worker (it was reset, or lost its state)")
		return errForgotten
	case errors.As(err, &refused) && refused.Code == http.StatusInternalServerError:
		w.mu.Lock()
		w.link.errors500++
		forgotten := w.link.errors500 == forgotten500s
		w.mu.Unlock()
		if forgotten {
			w.forget("the server fails when asked for this worker, as the original does when it has lost its state")
		}
		return err
	case err != nil:
		return err
	}
	var trainer atropos.Info
	if info {
		if trainer, err = w.config.Client.Info(ctx); err != nil {
			return err
		}
	}
	// Before the status counts, so that nobody takes the last step for the end of all
	// work while the evaluation after it has not begun.
	if err := w.noticeStep(status.CurrentStep); err != nil {
		return err
	}
	w.mu.Lock()
	if info {
		w.link.batchSize, w.link.maxTokens = trainer.BatchSize, trainer.MaxTokenLen
		if trainer.BatchSize <= 0 {
			w.link.batchSize = w.config.BatchSize
		}
	}
	weighed := w.link.status.EnvWeight != status.EnvWeight
	w.link.status, w.link.errors500 = status, 0
	w.counted = posted
	batch := w.link.batchSize
	w.wake()
	w.mu.Unlock()
	w.found(true)
	if weighed && w.config.Weighed != nil {
		w.config.Weighed(status.EnvWeight)
	}
	w.mu.Lock()
	size := int64(w.config.Throttle.GroupSize)
	w.link.admits = w.link.admits || batch >= size
	never := !w.link.admits
	w.mu.Unlock()
	if batch > 0 && size > batch && never { // else the trainer has changed its mind, and may do so again
		err := fmt.Errorf("%w: a group has %d sequences (env.group_size) and a batch of the trainer %d", ErrGroupTooLarge, size, batch)
		w.fail(err)
		return err
	}
	return nil
}

// forget makes the worker register again.
func (w *Worker) forget(why string) {
	w.mu.Lock()
	w.link.registered, w.link.before = false, nil
	w.link.batchSize = 0
	w.wake()
	w.mu.Unlock()
	w.say(why + ": registering again")
}

// found notes that the server answers.
func (w *Worker) found(ready bool) {
	w.mu.Lock()
	away, since := w.link.away, w.link.awaySince
	w.link.away, w.link.awayWhy, w.link.refused = false, "", false
	if away {
		w.wake()
	}
	w.mu.Unlock()
	if away && ready {
		w.say(fmt.Sprintf("the API server is back after %s", time.Since(since).Round(time.Second)))
	}
}

// lost notes that the server doesn't answer, and says so when that is news.
func (w *Worker) lost(err error) {
	var refused *client.StatusError
	if errors.As(err, &refused) && (refused.Code == http.StatusUnauthorized || refused.Code == http.StatusForbidden) {
		w.mu.Lock()
		never := !w.link.noticed
		w.mu.Unlock()
		if never {
			w.fail(fmt.Errorf("%w: %w (name the variable that holds its token with --token-env)", ErrUnauthorized, err))
			return
		}
	}
	w.mu.Lock()
	news := !w.link.away || w.link.awayWhy != err.Error()
	if !w.link.away {
		w.link.awaySince = time.Now()
	}
	w.link.away, w.link.awayWhy = true, err.Error()
	w.link.refused = w.link.refused || errors.Is(err, syscall.ECONNREFUSED)
	if news {
		w.wake()
	}
	w.mu.Unlock()
	if news {
		w.config.Observer.Warn(fmt.Sprintf("the API server at %s can't be worked with: %s; trying again, every %s at most (finished groups are kept on disk)",
			w.config.Client.URL(), textutil.Shorten(textutil.Line(err.Error()), maxError), w.config.MaxBackoff))
	}
}

// maxError is how many characters of an error are shown: servers answer with whole pages.
const maxError = 300

// say tells people how things stand, once.
func (w *Worker) say(text string) {
	w.mu.Lock()
	news := w.link.said != text
	w.link.said = text
	w.mu.Unlock()
	if news {
		w.config.Observer.Note(text)
	}
}

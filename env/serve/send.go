package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/atropos/client"
	"github.com/hermes-env/hermes-env/internal/textutil"
)

// sendsAtOnce is how many groups are on their way to the server at one time.
const sendsAtOnce = 4

// refusedFile holds, in a run directory, the groups that the server will never take.
const refusedFile = "refused.jsonl"

// sendAll sends what is in the spool, the oldest first, until ctx ends.
func (w *Worker) sendAll(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		w.mu.Lock()
		changed := w.changed
		ready := w.link.registered && !w.link.away && w.failed == nil
		w.mu.Unlock()
		var parcels []Parcel
		if ready {
			parcels = w.spool.take(sendsAtOnce)
		}
		if len(parcels) == 0 {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		wait := w.sendSome(ctx, parcels, failures)
		if wait == 0 {
			failures = 0
			continue
		}
		failures++
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// sendSome sends groups at once and returns how long to wait before the next try; 0
// when there is no need to.
func (w *Worker) sendSome(ctx context.Context, parcels []Parcel, failures int) time.Duration {
	var mu sync.Mutex
	var wait time.Duration
	var why error
	var all sync.WaitGroup
	for _, p := range parcels {
		all.Go(func() {
			err := w.send(ctx, p)
			if err == nil {
				return
			}
			w.spool.giveBack(p)
			mu.Lock()
			defer mu.Unlock()
			why = err
			wait = max(wait, backoff(failures, w.config.MaxBackoff))
			var status *client.StatusError
			if errors.As(err, &status) {
				wait = max(wait, min(status.RetryAfter, 10*w.config.MaxBackoff))
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return 0
	}
	text := ""
	if why != nil {
		text = why.Error()
	}
	w.mu.Lock()
	news := text != "" && w.link.full == "" && errors.As(why, new(*client.StatusError)) // a broken line is keepLink's to tell of
	w.link.full = text
	w.wake()
	w.mu.Unlock()
	if news {
		w.config.Observer.Warn(fmt.Sprintf("groups can't be sent for now: %s; they stay in the spool and are sent later", textutil.Shorten(textutil.Line(why.Error()), maxError)))
	}
	return wait
}

// send sends one group. When it returns nil the server has it, or has refused it
// for good; else it has to be sent again.
func (w *Worker) send(ctx context.Context, p Parcel) error {
	w.mu.Lock()
	id := w.link.identity
	w.mu.Unlock()
	if !p.sentAs(id) {
		p.Sender = &id
		if err := w.spool.record(&spoolEvent{Op: opAssign, Step: int64(p.Step), Identity: &id}); err != nil {
			w.fail(err)
			return err
		}
	}
	packed, err := w.spool.read(p)
	if err != nil {
		w.fail(err)
		return err
	}
	body, err := addSender(packed, p.Sender.EnvID)
	if err != nil {
		w.fail(err)
		return err
	}
	_, err = w.config.Client.Send(ctx, client.Post{Body: body, Packed: true, Key: p.Key})
	op := opSent
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			// Nothing more is sent until keepLink knows whether this worker is registered: a
			// server that has forgotten it may answer next.
			w.lost(err)
		}
		var status *client.StatusError
		if !errors.As(err, &status) || !final(status.Code) {
			return err
		}
		if err := w.bury(p, packed, status); err != nil {
			w.fail(err)
			return err
		}
		op = opRefused
		w.config.Observer.Warn(fmt.Sprintf("the server refused the group of step %d (item %q) for good: %s; it is kept in %s", p.Step, p.ItemID, textutil.Shorten(textutil.Line(err.Error()), maxError), filepath.Join(w.config.Dir, refusedFile)))
	}
	if op == opSent {
		w.mu.Lock()
		w.posted++
		w.mu.Unlock()
	}
	if err := w.spool.record(&spoolEvent{Op: op, Step: int64(p.Step)}); err != nil {
		w.fail(err)
		return err
	}
	return nil
}

// sentAs says whether a group may be sent, or sent again, as it was decided: a server
// that has kept its state must see the same sender, another one the present one.
func (p *Parcel) sentAs(now Identity) bool {
	if p.Sender == nil || p.Sender.URL != now.URL || p.Sender.Generation != now.Generation {
		return false
	}
	return now.Generation != "" || p.Sender.EnvID == now.EnvID
}

// final says whether a status means that a group will never be taken: something is
// wrong with it, not with the server, the way there or the token.
func final(code int) bool {
	switch code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusConflict:
		return true
	}
	return false
}

// addSender makes the body of a post: the packed group, which lacks its opening
// brace, behind one that names the sender. Gzip data may be put together so.
func addSender(packed []byte, envID int64) ([]byte, error) {
	head, err := pack([]byte(`{"env_id":` + strconv.FormatInt(envID, 10) + `,`))
	if err != nil {
		return nil, err
	}
	return append(head, packed...), nil
}

func pack(content []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("pack a group: %w", err)
	}
	if _, err := z.Write(content); err != nil {
		return nil, fmt.Errorf("pack a group: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack a group: %w", err)
	}
	return out.Bytes(), nil
}

func unpack(packed []byte) (_ []byte, err error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack a group: %w", err)
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	content, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("unpack a group: %w", err)
	}
	return content, nil
}

// bury appends a group to the file of those refused for good. A process killed right
// after leaves it there and sends it again, so that a key may be there twice.
func (w *Worker) bury(p Parcel, packed []byte, why *client.StatusError) (err error) {
	content, err := unpack(packed)
	if err != nil {
		return err
	}
	line := chat.AppendString([]byte(`{"time":`), time.Now().UTC().Format(time.RFC3339))
	line = strconv.AppendInt(append(line, `,"step":`...), int64(p.Step), 10)
	line = chat.AppendString(append(line, `,"item_id":`...), p.ItemID)
	line = chat.AppendString(append(line, `,"key":`...), p.Key)
	line = strconv.AppendInt(append(line, `,"status":`...), int64(why.Code), 10)
	line = chat.AppendString(append(line, `,"detail":`...), why.Detail)
	line = append(append(line, `,"group":{`...), content...)
	line = append(line, '}', '\n')
	path := filepath.Join(w.config.Dir, refusedFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("keep a refused group: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(line); err != nil {
		return fmt.Errorf("keep a refused group: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("keep a refused group: %w", err)
	}
	return nil
}

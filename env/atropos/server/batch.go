package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/journal"
)

// minPacked is the length from which replies are packed, in bytes.
const minPacked = 1000

func wantsGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// acknowledgement returns the batches that a request for the next one acknowledges,
// and whether the trainer acknowledges at all.
func acknowledgement(r *http.Request) (ids []string, any bool) {
	for _, header := range []string{atropos.HeaderAckBatch, "If-None-Match"} {
		for _, value := range r.Header.Values(header) {
			any = true
			for id := range strings.SplitSeq(value, ",") {
				id = strings.Trim(strings.TrimPrefix(strings.TrimSpace(id), "W/"), `"`)
				if id != "" {
					ids = append(ids, id)
				}
			}
		}
	}
	return ids, any
}

// delivery is a batch on its way to a trainer.
type delivery struct {
	batch        *atropos.Batch
	id           string
	entries      []atropos.Entry
	readers      map[uint64]*journal.Reader
	acknowledged bool // the trainer will say that it has it
}

func (s *Server) batch(w http.ResponseWriter, r *http.Request) error {
	now := s.config.now()
	s.asked.Store(&now)
	s.pack.plain.Store(!wantsGzip(r))
	ids, acknowledges := acknowledgement(r)
	d, registered, number, err := s.begin(ids, acknowledges)
	if err != nil {
		return err
	}
	if d != nil {
		defer d.close(s)
	}
	if err := s.store.log.Wait(r.Context(), number); err != nil {
		s.giveBack(d)
		return err
	}
	if !registered {
		return reply(w, struct {
			Status  string   `json:"status"`
			Message string   `json:"message"`
			Batch   []string `json:"batch"`
		}{atropos.StatusError, "Trainer not registered. Call /register first.", []string{}})
	}
	if d == nil {
		writeJSON(w, http.StatusOK, []byte(`{"batch":null}`))
		return nil
	}
	return s.deliver(w, r, d)
}

// begin decides which batch to send; the delivery is nil when there is none. What
// was decided counts when the record of the number is durable.
func (s *Server) begin(acknowledged []string, acknowledges bool) (d *delivery, registered bool, number int64, err error) {
	st := s.store
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.log.Failed(); err != nil {
		return nil, false, 0, err
	}
	state := st.state
	if !state.Registered {
		return nil, false, -1, nil
	}
	record := func(event *atropos.Event) {
		if _, e := st.record(event); err == nil {
			err = e
		}
	}
	record(state.Start())
	for _, id := range acknowledged {
		if event, ok := state.Done(id); ok {
			s.finished()
			record(event)
		}
	}
	for _, id := range state.Misfits() {
		record(state.Dissolve(id))
	}
	now := s.config.now()
	for _, worker := range state.Abandoned(now) {
		record(state.Release(worker))
	}
	batch := state.Next(acknowledges)
	if batch == nil {
		record(state.Form(now))
		batch = state.Next(acknowledges)
	}
	if err != nil {
		return nil, true, 0, err
	}
	if batch != nil {
		if d, err = s.open(batch); err != nil {
			return nil, true, 0, err
		}
		d.acknowledged = acknowledges
		if batch.Tried || batch.Sent {
			s.counters.redelivered.Add(1)
		}
		batch.Tried = true
		batch.Sending++
	}
	return d, true, st.log.Last(), nil
}

// open holds the data of a batch readable. The store's lock is held.
func (s *Server) open(batch *atropos.Batch) (*delivery, error) {
	d := &delivery{batch: batch, id: batch.ID, readers: map[uint64]*journal.Reader{}}
	for _, e := range batch.Entries {
		d.entries = append(d.entries, *e)
		if d.readers[e.Place.File] != nil {
			continue
		}
		reader, err := s.store.log.Open(e.Place.File)
		if err != nil {
			d.close(s)
			return nil, err
		}
		d.readers[e.Place.File] = reader
	}
	return d, nil
}

func (d *delivery) close(s *Server) {
	for _, reader := range d.readers {
		if err := reader.Close(); err != nil {
			s.config.Log.Error("could not close a file of the journal", "error", err)
		}
	}
}

// giveBack makes a batch one to deliver again.
func (s *Server) giveBack(d *delivery) {
	if d == nil {
		return
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	d.batch.Sending--
}

func (s *Server) finished() {
	s.counters.batches.Add(1)
	s.rates.delivered(s.config.now())
}

// deliver sends a batch and notes what became of it.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, d *delivery) error {
	w.Header().Set(atropos.HeaderBatchID, d.id)
	w.Header().Set("ETag", `"`+d.id+`"`)
	err := s.send(w, r, `{"batch":[`, d.entries, d.readers, `]}`)
	// When all is written the batch counts as delivered, although a client that does
	// not acknowledge may never have read it: one that closes its connection after each
	// reply looks the same as one that died.
	if err != nil {
		s.giveBack(d)
		s.counters.interrupted.Add(1)
		s.config.Log.Warn("a batch was not delivered and will be again", "batch", d.id, "error", err)
		s.giveUp(err)
		panic(http.ErrAbortHandler) // the reply is begun: all there is left to do is to break it off
	}
	st := s.store
	st.mu.Lock()
	defer st.mu.Unlock()
	d.batch.Sending--
	if st.state.Batch(d.id) != d.batch {
		return nil // acknowledged already, or reset
	}
	var event *atropos.Event
	if d.acknowledged {
		event = st.state.Sent(d.id)
	} else {
		event, _ = st.state.Done(d.id)
		s.finished()
	}
	if _, err := st.record(event); err != nil {
		s.config.Log.Error("could not write down that a batch was delivered; it may be again", "batch", d.id, "error", err)
	}
	return nil
}

// damage is a group whose data can't be read.
type damage struct {
	entry uint64
	err   error
}

func (d *damage) Error() string { return fmt.Sprintf("the data of group %d: %v", d.entry, d.err) }
func (d *damage) Unwrap() error { return d.err }

// giveUp takes a group out whose data turned out to be damaged on the disk, so that
// the others of its batch can be delivered.
func (s *Server) giveUp(err error) {
	var broken *damage
	if !errors.As(err, &broken) {
		return
	}
	s.config.Log.Error("a group is lost: the disk gave back other bytes than were written", "group", broken.entry, "error", broken.err)
	_, err = s.store.change(func(state *atropos.State) (*atropos.Event, error) {
		s.store.lost++
		return state.Lost(broken.entry), nil
	})
	if err != nil {
		s.config.Log.Error("could not write down that a group is lost", "group", broken.entry, "error", err)
	}
}

// send writes groups between two texts: as they are kept when the client takes
// gzip, and unpacked otherwise.
func (s *Server) send(w http.ResponseWriter, r *http.Request, before string, entries []atropos.Entry, readers map[uint64]*journal.Reader, after string) error {
	size := int64(len(before) + len(after))
	packed := int64(len(gzipHead)+len(stored(before, false))+len(stored(after, true))) + 8
	for i, e := range entries {
		size += e.Size
		packed += e.Place.Length
		if i > 0 {
			size++
			packed += int64(len(stored(",", false)))
		}
	}
	zip := wantsGzip(r) && size >= minPacked
	w.Header().Set("Content-Type", "application/json")
	if zip {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
		size = packed
	}
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	control := http.NewResponseController(w)
	out := bufio.NewWriterSize(&patientWriter{w, control, s.config.Stall, &s.counters.sent}, 256<<10)
	var err error
	if zip {
		err = sendPacked(out, before, entries, readers, after)
	} else {
		err = sendUnpacked(r.Context(), out, before, entries, readers, after)
	}
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = control.Flush()
	}
	if err == nil {
		err = control.SetWriteDeadline(time.Time{})
	}
	if errors.Is(err, http.ErrNotSupported) {
		err = nil
	}
	return err
}

// read reads the data of a group.
func read(readers map[uint64]*journal.Reader, e *atropos.Entry) ([]byte, error) {
	data, err := readers[e.Place.File].Read(e.Place.Offset, e.Place.Length, e.Place.Check)
	if err != nil {
		return nil, &damage{e.ID, err}
	}
	return data, nil
}

func sendPacked(out io.Writer, before string, entries []atropos.Entry, readers map[uint64]*journal.Reader, after string) error {
	var m member
	if _, err := out.Write(append([]byte(gzipHead), stored(before, false)...)); err != nil {
		return err
	}
	m.text(before)
	comma := stored(",", false)
	for i := range entries {
		data, err := read(readers, &entries[i])
		if err != nil {
			return err
		}
		if i > 0 {
			m.text(",")
			if _, err := out.Write(comma); err != nil {
				return err
			}
		}
		m.piece(entries[i].Sum, entries[i].Size)
		if _, err := out.Write(data); err != nil {
			return err
		}
	}
	m.text(after)
	_, err := out.Write(append(stored(after, true), m.tail()...))
	return err
}

// lane unpacks every nth group, each when the one before has been written.
type lane struct {
	ready chan unpacked
	used  chan struct{}
}

type unpacked struct {
	content []byte // valid until the lane goes on
	err     error
}

func (l *lane) run(ctx context.Context, first, step int, entries []atropos.Entry, readers map[uint64]*journal.Reader) {
	var u unpacker
	for i := first; i < len(entries); i += step {
		content, err := read(readers, &entries[i])
		if err == nil {
			if content, err = u.unpack(content, entries[i].Size, entries[i].Sum); err != nil {
				err = &damage{entries[i].ID, err}
			}
		}
		select {
		case l.ready <- unpacked{content, err}:
		case <-ctx.Done():
			return
		}
		select {
		case <-l.used:
		case <-ctx.Done():
			return
		}
	}
}

// sendUnpacked unpacks the next groups, on all processors, while one is being written.
func sendUnpacked(ctx context.Context, out io.Writer, before string, entries []atropos.Entry, readers map[uint64]*journal.Reader, after string) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	lanes := make([]lane, min(len(entries), runtime.GOMAXPROCS(0)+1))
	for i := range lanes {
		lanes[i] = lane{make(chan unpacked), make(chan struct{})}
		running.Go(func() { lanes[i].run(ctx, i, len(lanes), entries, readers) })
	}
	if _, err := io.WriteString(out, before); err != nil {
		return err
	}
	for i := range entries {
		l := &lanes[i%len(lanes)]
		var next unpacked
		select {
		case next = <-l.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		if next.err != nil {
			return next.err
		}
		if i > 0 {
			if _, err := io.WriteString(out, ","); err != nil {
				return err
			}
		}
		if _, err := out.Write(next.content); err != nil {
			return err
		}
		select {
		case l.used <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err := io.WriteString(out, after)
	return err
}

// patientWriter gives up when nothing leaves for a while.
type patientWriter struct {
	w       io.Writer
	control *http.ResponseController
	stall   time.Duration
	written interface{ Add(int64) int64 }
}

func (p *patientWriter) Write(b []byte) (int, error) {
	const step = 1 << 20
	total := 0
	for len(b) > 0 {
		if err := p.control.SetWriteDeadline(time.Now().Add(p.stall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return total, err
		}
		n, err := p.w.Write(b[:min(len(b), step)])
		total += n
		p.written.Add(int64(n))
		if err != nil {
			return total, err
		}
		b = b[n:]
	}
	return total, nil
}

func (s *Server) ackBatch(w http.ResponseWriter, r *http.Request) error {
	body, done, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer done()
	id, err := s.config.Rules.DecodeBatchID(body)
	if err != nil {
		return err
	}
	var known bool
	err = s.store.decide(r.Context(), func(state *atropos.State) (event *atropos.Event, _ error) {
		if event, known = state.Done(id); known {
			s.finished()
			return event, nil
		}
		known = state.Delivered(id)
		return nil, nil
	})
	if err != nil {
		return err
	}
	if !known {
		return reply(w, atropos.Disconnected{Status: atropos.StatusFailure, Error: "no batch of this id was delivered"})
	}
	return replySuccess(w)
}

// emptyExample is what /latest_example gives before any data.
const emptyExample = `{"tokens":[],"masks":[],"scores":[],"advantages":[],"ref_logprobs":[],"generation_params":[],"inference_logprobs":[],"messages":[],"images":[]}`

func (s *Server) latestExample(w http.ResponseWriter, r *http.Request) error {
	st := s.store
	st.mu.Lock()
	latest := st.state.Latest
	if latest == nil {
		st.mu.Unlock()
		writeJSON(w, http.StatusOK, []byte(emptyExample))
		return nil
	}
	entry := *latest
	reader, err := st.log.Open(entry.Place.File)
	number := st.log.Last()
	st.mu.Unlock()
	if err != nil {
		return err
	}
	d := &delivery{readers: map[uint64]*journal.Reader{entry.Place.File: reader}}
	defer d.close(s)
	if err := st.log.Wait(r.Context(), number); err != nil {
		return err
	}
	if err := s.send(w, r, "", []atropos.Entry{entry}, d.readers, ""); err != nil {
		s.giveUp(err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

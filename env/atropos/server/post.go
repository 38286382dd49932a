package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/env/atropos"
	"github.com/hermes-env/hermes-env/env/atropos/journal"
)

// maxKey is how long an idempotency key may be, in bytes.
const maxKey = 512

func (s *Server) scoredData(w http.ResponseWriter, r *http.Request) error {
	return s.post(w, r, false, func(body []byte) ([]*atropos.Incoming, error) {
		group, err := s.config.Rules.DecodeGroup(body)
		return []*atropos.Incoming{group}, err
	})
}

func (s *Server) scoredDataList(w http.ResponseWriter, r *http.Request) error {
	return s.post(w, r, true, s.config.Rules.DecodeGroups)
}

// post takes the groups of one request, all or none.
func (s *Server) post(w http.ResponseWriter, r *http.Request, list bool, decode func([]byte) ([]*atropos.Incoming, error)) error {
	answer, err := s.take(w, r, list, decode)
	if err != nil {
		if rejects(err) {
			s.counters.rejected.Add(1)
			s.config.Log.Warn("refused a post", "path", r.URL.Path, "error", err)
		}
		return err
	}
	return replyPosted(w, answer)
}

// rejects says whether an error is what the post holds, and not the lack of room or
// of a connection.
func rejects(err error) bool {
	var invalid *atropos.InvalidError
	var status *statusError
	return errors.As(err, &invalid) || errors.As(err, &status) && status.code < 500 || errors.Is(err, atropos.ErrOtherPost) || errors.Is(err, atropos.ErrNotUTF8)
}

// replyPosted answers a post. Some keys are there only when groups were buffered.
func replyPosted(w http.ResponseWriter, a *atropos.Answer) error {
	body := []byte(`{"status":"` + a.Status + `"`)
	switch {
	case a.List:
		body = strconv.AppendInt(append(body, `,"groups_processed":`...), a.GroupsProcessed, 10)
		if a.Buffered > 0 {
			body = strconv.AppendInt(append(body, `,"buffered":`...), a.Buffered, 10)
			body = strconv.AppendInt(append(body, `,"last_buffer_size":`...), a.BufferSize, 10)
		}
	case a.Status == atropos.StatusBuffered:
		body = strconv.AppendInt(append(body, `,"buffer_size":`...), a.BufferSize, 10)
	}
	writeJSON(w, http.StatusOK, append(body, '}'))
	return nil
}

// offer is a post that is ready to be taken.
type offer struct {
	groups    []*atropos.Incoming
	pieces    []piece
	list      bool
	key       string // a digest of the one that was sent, or ""
	print     string
	sequences int64
	tokens    int64
	bytes     int64
}

func (s *Server) take(w http.ResponseWriter, r *http.Request, list bool, decode func([]byte) ([]*atropos.Incoming, error)) (*atropos.Answer, error) {
	key := r.Header.Get(atropos.HeaderIdempotencyKey)
	if len(key) > maxKey {
		return nil, &statusError{code: http.StatusUnprocessableEntity, detail: fmt.Sprintf("the idempotency key has %d bytes, and the limit is %d", len(key), maxKey)}
	}
	body, done, err := s.read(w, r)
	if err != nil {
		return nil, err
	}
	defer done()
	o := &offer{list: list}
	if o.groups, err = decode(body); err != nil {
		return nil, err
	}
	if key != "" {
		digest := sha256.Sum256([]byte(key))
		o.key = hex.EncodeToString(digest[:16])
	}
	if err := s.acceptable(o); err != nil {
		return nil, err
	}
	if err := s.packAll(o); err != nil {
		return nil, err
	}
	if key != "" {
		o.print = o.fingerprint()
	}
	return s.queue(r, o)
}

// acceptable asks the state whether it takes the groups, before work is spent on
// them. Those it has taken before, under the same key, it would take again.
func (s *Server) acceptable(o *offer) (err error) {
	s.store.look(func(state *atropos.State) {
		if !state.Knows(o.key) {
			err = accept(state, o)
		}
	})
	return err
}

func accept(state *atropos.State, o *offer) error {
	for i, g := range o.groups {
		err := state.Accept(g)
		invalid, ok := err.(*atropos.InvalidError)
		if !ok {
			if err != nil {
				return err
			}
			continue
		}
		if o.list {
			for k := range invalid.Problems {
				p := &invalid.Problems[k]
				p.Loc = append([]string{strconv.Itoa(i)}, p.Loc...)
			}
		}
		return invalid
	}
	return nil
}

// packAll packs the groups, on all processors.
func (s *Server) packAll(o *offer) error {
	o.pieces = make([]piece, len(o.groups))
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i, g := range o.groups {
		workers.Go(func() (err error) {
			o.pieces[i], err = s.pack.pack(g.Parts)
			return err
		})
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	for i, g := range o.groups {
		o.sequences += g.Sequences
		o.tokens += g.Tokens
		o.bytes += int64(len(o.pieces[i].packed))
	}
	return nil
}

// fingerprint tells the content of a post from that of others.
func (o *offer) fingerprint() string {
	var sum uint32
	var size int64
	for _, p := range o.pieces {
		sum = combineSums(sum, p.sum, p.size)
		size += p.size
	}
	return strconv.FormatUint(uint64(sum), 16) + "-" + strconv.FormatInt(size, 16) + "-" + strconv.Itoa(len(o.pieces))
}

// queue hands the groups to the state once there is room, and returns when they
// are durable.
func (s *Server) queue(r *http.Request, o *offer) (*atropos.Answer, error) {
	var deadline <-chan time.Time
	for {
		answer, number, room, why, err := s.tryQueue(o)
		if err != nil {
			return nil, err
		}
		if answer != nil {
			return answer, s.store.log.Wait(r.Context(), number)
		}
		if deadline == nil {
			timer := time.NewTimer(max(0, s.config.Patience))
			defer timer.Stop()
			deadline = timer.C
		}
		select {
		case <-room:
			continue
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-s.closing:
			why = "the server is shutting down"
		case <-deadline:
		}
		s.counters.refused.Add(1)
		return nil, &statusError{code: http.StatusServiceUnavailable, detail: why + ": try again later", retry: 5 * time.Second}
	}
}

// tryQueue is one try of queue: an answer and the number to wait for, or the reason
// why there is no room and a channel that is closed when there may be some.
func (s *Server) tryQueue(o *offer) (answer *atropos.Answer, number int64, room <-chan struct{}, why string, err error) {
	st := s.store
	full := s.config.diskFull(o.bytes)
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.log.Failed(); err != nil {
		return nil, 0, nil, "", err
	}
	if o.key != "" {
		if answer, err = st.state.Answered(o.key, o.print); err != nil {
			return nil, 0, nil, "", err
		}
		if answer != nil {
			s.counters.duplicates.Add(1)
			return answer, st.log.Last(), nil, "", nil
		}
	}
	if err := accept(st.state, o); err != nil {
		return nil, 0, nil, "", err
	}
	if why = st.full(o.sequences, o.bytes); why == "" && full != "" {
		st.lacksSpace(o.bytes, full)
		why = full
	}
	if why != "" {
		return nil, 0, st.room, why, nil
	}
	entries := make([]*atropos.Entry, len(o.groups))
	data := make([][]byte, len(o.groups))
	var offset int64
	for i, g := range o.groups {
		p := o.pieces[i]
		length := int64(len(p.packed))
		entries[i] = &atropos.Entry{Sequences: g.Sequences, Tokens: g.Tokens, EnvID: g.EnvID, Size: p.size, Sum: p.sum,
			Place: atropos.Place{Offset: offset, Length: length, Check: journal.Checksum(p.packed)}}
		data[i] = p.packed
		offset += length
	}
	now := s.config.now()
	st.hasSpace(now)
	answer, event := st.state.Add(entries, o.list, o.key, o.print, now)
	if number, err = st.record(event, data...); err != nil {
		return nil, 0, nil, "", err
	}
	s.rates.added(now, int64(len(entries)), o.sequences, o.tokens)
	s.counters.groups.Add(int64(len(entries)))
	s.counters.sequences.Add(o.sequences)
	s.counters.tokens.Add(o.tokens)
	return answer, number, nil, "", nil
}

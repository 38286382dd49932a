package compress

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// journal keeps summaries that were paid for until the output is whole. Its key is the
// content of the row together with what decides the region, so that it serves a file that
// was reordered or added to, and never another question.
type journal struct {
	path string

	mu    sync.Mutex
	file  *os.File // opened with the first summary
	err   error    // of the first write that failed
	known map[string]journalEntry
}

type journalEntry struct {
	Key     string `json:"key"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
	Summary string `json:"summary"`
	Calls   int    `json:"calls"`
	Errors  int    `json:"errors"`
}

// openJournal reads what an earlier session left; a last line that was cut off is removed.
func openJournal(path string) (*journal, error) {
	j := &journal{path: path, known: make(map[string]journalEntry)}
	cut := int64(-1)
	err := trajectories.EachLineOf(path, func(line trajectories.Line) error {
		if !line.Whole {
			cut = line.Offset
			return nil
		}
		var e journalEntry
		if err := json.Unmarshal(line.Text, &e); err != nil || e.Key == "" || e.Summary == "" || e.Start < 0 || e.End <= e.Start {
			return fmt.Errorf("line %d of %s is damaged: remove the file to ask for all summaries again", line.Number, path)
		}
		j.known[e.Key] = e
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err == nil && cut >= 0 {
		err = os.Truncate(path, cut)
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal of summaries: %w", err)
	}
	return j, nil
}

func (j *journal) lookup(key string) (journalEntry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.known[key]
	return e, ok
}

// add makes a summary durable.
func (j *journal) add(e journalEntry) error {
	line, err := chat.Marshal(e)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err // nothing may be written behind a line that was cut off
	}
	if j.file == nil {
		if j.file, err = os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644); err != nil {
			j.file = nil
			return fmt.Errorf("open the journal of summaries: %w", err)
		}
	}
	if _, err = j.file.Write(append(line, '\n')); err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		j.err = fmt.Errorf("write the journal of summaries: %w: make room and run again; what is in it is kept", err)
		return j.err
	}
	j.known[e.Key] = e
	return nil
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

// remove ends the journal of an output that is whole.
func (j *journal) remove() error {
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the journal of summaries: %w", err)
	}
	return nil
}

// rowKey identifies a summary: the row, the region, and what the model is asked with.
func (c *Compressor) rowKey(row []byte, r region) string {
	h := sha256.New()
	s := &c.config.Summarization
	fmt.Fprintf(h, "1\n%q %q %v %d %d %d\n", s.Model, s.BaseURL, s.Temperature, c.config.Compression.SummaryTargetTokens, r.start, r.end)
	h.Write(bytes.TrimSpace(row))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

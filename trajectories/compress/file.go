package compress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/trajectories"
)

// JournalSuffix ends the name of the journal that lies beside an unfinished output.
const JournalSuffix = ".journal"

// FileOptions says what File reads and writes.
type FileOptions struct {
	In, Out string         // JSONL files; Out is replaced when it is whole
	Keep    func(int) bool // which rows are taken, by number from 0, asked in order; nil takes all
	Warn    func(string)   // is told of lines that are no rows and of rows that stayed too long
	Done    func()         // is called after every row, in order; nil: nobody
}

// job is a row on its way.
type job struct {
	line   []byte
	number int // of its line, from 1
	result rowResult
	done   chan struct{}
}

// File compresses a file. Rows come out in their order; memory holds a bounded number of
// them. When it fails the old output, if any, is still there, and summaries that were paid
// for are in the journal, where the next call finds them. A dry run writes nothing.
func (c *Compressor) File(ctx context.Context, o FileOptions) (*Metrics, error) {
	m := &Metrics{Started: c.now()}
	defer func() { m.Ended = c.now() }()
	if c.client == nil {
		return m, c.stream(ctx, o, io.Discard, nil, m)
	}
	if same(o.In, o.Out) {
		return m, fmt.Errorf("compress %s: the output is the input itself: choose another name", o.In)
	}
	j, err := openJournal(o.Out + JournalSuffix)
	if err != nil {
		return m, err
	}
	err = trajectories.ReplaceFile(o.Out, func(w io.Writer) error { return c.stream(ctx, o, w, j, m) })
	if closeErr := j.close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close the journal of summaries: %w", closeErr)
	}
	if err != nil {
		return m, fmt.Errorf("compress %s: %w", o.In, err)
	}
	if m.Failed > 0 {
		return m, nil // the next run asks for what failed alone
	}
	return m, j.remove()
}

func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

var errEnough = errors.New("enough")

func (c *Compressor) stream(ctx context.Context, o FileOptions, w io.Writer, j *journal, m *Metrics) error {
	requests := c.config.Processing.MaxConcurrentRequests
	group, ctx := errgroup.WithContext(ctx)
	// How far rows may be ahead of the slowest one: this bounds memory.
	ordered := make(chan *job, 2*requests+c.config.Processing.NumWorkers)
	work := make(chan *job)
	bad := 0
	group.Go(func() error {
		defer close(ordered)
		defer close(work)
		row := -1
		err := trajectories.EachLineOf(o.In, func(line trajectories.Line) error {
			text := line.Text
			if line.Number == 1 {
				text = bytes.TrimPrefix(text, []byte("\ufeff"))
			}
			text = bytes.TrimSpace(text)
			if len(text) == 0 {
				return nil
			}
			if row++; o.Keep != nil && !o.Keep(row) {
				return nil
			}
			if text[0] != '{' || !json.Valid(text) {
				bad++
				o.Warn(fmt.Sprintf("%s, line %d is no JSON object and is left out", o.In, line.Number))
				return nil
			}
			next := &job{line: bytes.Clone(text), number: line.Number, done: make(chan struct{})}
			for _, to := range []chan<- *job{ordered, work} {
				select {
				case to <- next:
				case <-ctx.Done():
					return errEnough
				}
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			return nil // whoever ended it says why
		}
		return err
	})
	for range requests {
		group.Go(func() error {
			for next := range work {
				var err error
				if next.result, err = c.row(ctx, next.line, j); err != nil {
					return fmt.Errorf("line %d: %w", next.number, err)
				}
				close(next.done)
			}
			return nil
		})
	}
	group.Go(func() error { return c.write(ctx, o, w, ordered, m) })
	err := group.Wait()
	m.BadLines = bad
	return err
}

// write writes the rows in their order.
func (c *Compressor) write(ctx context.Context, o FileOptions, w io.Writer, ordered <-chan *job, m *Metrics) error {
	out := bufio.NewWriterSize(w, 256<<10)
	for next := range ordered {
		select {
		case <-next.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		res := &next.result
		m.add(&res.metrics)
		if res.bare {
			m.WithoutConversation++
		}
		if res.fromJournal {
			m.FromJournal++
		}
		if res.failure != nil {
			m.Failed++
			o.Warn(fmt.Sprintf("%s, line %d stays as it is: %v", o.In, next.number, res.failure))
		}
		if res.out == nil {
			m.NotSaved++
		} else {
			if _, err := out.Write(res.out); err != nil {
				return err
			}
			if err := out.WriteByte('\n'); err != nil {
				return err
			}
		}
		if o.Done != nil {
			o.Done()
		}
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return out.Flush()
}

// CountRows returns how many rows a file has, lines that are no JSON among them.
func CountRows(path string) (n int, err error) {
	err = trajectories.EachLineOf(path, func(line trajectories.Line) error {
		if len(bytes.TrimSpace(bytes.TrimPrefix(line.Text, []byte("\ufeff")))) > 0 {
			n++
		}
		return nil
	})
	return n, err
}

// Sample chooses percent of n rows at random, at least one, the same for the same seed.
// The function it returns has to be asked for every row in order.
func Sample(n int, percent float64, seed int64) func(row int) bool {
	rng := rand.New(rand.NewPCG(uint64(seed), 0x636f6d7072657373))
	wanted := max(1, int(float64(n)*percent/100))
	return func(row int) bool {
		if rng.IntN(max(1, n-row)) >= wanted {
			return false
		}
		wanted--
		return true
	}
}

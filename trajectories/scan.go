package trajectories

import (
	"context"
	"errors"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// scanBytes is how much of a file is handed to one processor at a time.
const scanBytes = 1 << 20

// scannedLine is one line of a file of rollouts and what it says.
type scannedLine struct {
	number int   // from 1
	offset int64 // of its first byte
	length int64 // without the newline
	whole  bool  // the newline is there
	entry  Entry
	err    error // why it is no record of a rollout
}

// chunk is a number of consecutive lines on their way through a processor.
type chunk struct {
	text   []byte
	lines  []scannedLine
	parsed chan struct{} // closed when entries and errors of the lines are known
}

// parseLines reads the lines there are and calls visit for each, in order and one at a
// time; parsing uses every processor. A line without newline comes last, after the
// input was read to its end. It stops at the first error of visit.
func parseLines(lines *lineReader, visit func(scannedLine) error) error {
	group, ctx := errgroup.WithContext(context.Background())
	workers := runtime.GOMAXPROCS(0)
	jobs := make(chan *chunk)             // to the workers
	ordered := make(chan *chunk, workers) // to the visitor
	group.Go(func() error {
		defer close(jobs)
		defer close(ordered)
		return readChunks(ctx, lines, jobs, ordered)
	})
	for range workers {
		group.Go(func() error {
			for c := range jobs {
				c.parse()
			}
			return nil
		})
	}
	group.Go(func() error {
		for c := range ordered {
			<-c.parsed
			for _, l := range c.lines {
				if err := visit(l); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return group.Wait()
}

// readChunks cuts the input into chunks until it ends or the context does.
func readChunks(ctx context.Context, lines *lineReader, jobs, ordered chan<- *chunk) error {
	for {
		c, err := readChunk(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(c.lines) > 0 {
			select {
			case ordered <- c:
			case <-ctx.Done():
				return nil // whoever ended it has the reason
			}
			jobs <- c // never for long: the workers take chunks until there are no more
		}
		if err != nil {
			return nil
		}
	}
}

func readChunk(lines *lineReader) (*chunk, error) {
	c := &chunk{text: make([]byte, 0, scanBytes+64<<10), parsed: make(chan struct{})}
	for len(c.text) < scanBytes {
		line, whole, err := lines.next()
		if err != nil {
			return c, err
		}
		c.text = append(c.text, line...)
		c.lines = append(c.lines, scannedLine{number: lines.number, offset: lines.offset, length: int64(len(line)), whole: whole})
		if !whole {
			return c, io.EOF // not read on: the visitor may be about to complete the line
		}
	}
	return c, nil
}

func (c *chunk) parse() {
	defer close(c.parsed)
	rest := c.text
	for i := range c.lines {
		l := &c.lines[i]
		l.entry, l.err = parseEntry(rest[:l.length])
		rest = rest[l.length:]
	}
	c.text = nil
}

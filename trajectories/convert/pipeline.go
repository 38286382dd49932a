package convert

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Sizes of what is handed to one processor at a time.
const (
	chunkBytes   = 1 << 20
	chunkRecords = 256
)

// chunk is a number of consecutive records on their way through a processor.
type chunk[T any] struct {
	file    string
	first   int // ordinal of its first record over all files
	text    []byte
	records []record
	ends    []int // of each record in text
	results []T
	done    chan struct{} // closed when results are there
}

// newChunk returns an empty chunk whose text has room for what a chunk usually holds, so that
// it does not grow piece by piece.
func newChunk[T any](file string, first int) *chunk[T] {
	return &chunk[T]{file: file, first: first, text: make([]byte, 0, chunkBytes+chunkBytes/8), done: make(chan struct{})}
}

// errStop ends the reading early, without an error.
var errStop = errors.New("stop")

// eachParallel reads the records of files in order, lets every processor work on
// them, and gives the results to consume in the order of the records, one at a
// time. A bounded number of chunks is in memory.
func eachParallel[T any](ctx context.Context, files []string, progress *atomic.Int64, work func(file string, ordinal int, r record) T, consume func(T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	workers := max(2, runtime.GOMAXPROCS(0))
	jobs := make(chan *chunk[T])
	ordered := make(chan *chunk[T], workers)
	group.Go(func() error {
		defer close(jobs)
		defer close(ordered)
		return readChunks(ctx, files, progress, jobs, ordered)
	})
	for range workers {
		group.Go(func() error {
			for c := range jobs {
				start := 0
				for i, r := range c.records {
					r.text = c.text[start:c.ends[i]]
					start = c.ends[i]
					c.results = append(c.results, work(c.file, c.first+i, r))
				}
				c.text, c.records = nil, nil
				close(c.done)
			}
			return nil
		})
	}
	group.Go(func() error {
		for c := range ordered {
			select {
			case <-c.done:
			case <-ctx.Done():
				return context.Cause(ctx) // or rows would be missing without an error
			}
			for _, r := range c.results {
				if err := consume(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	err := group.Wait()
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func readChunks[T any](ctx context.Context, files []string, progress *atomic.Int64, jobs, ordered chan<- *chunk[T]) error {
	ordinal := 0
	for _, file := range files {
		c := newChunk[T](file, ordinal)
		send := func() error {
			if len(c.records) == 0 {
				return nil
			}
			select {
			case ordered <- c:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			select {
			case jobs <- c:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			c = newChunk[T](file, ordinal)
			return nil
		}
		err := eachRecord(ctx, file, progress, func(r record) error {
			ordinal++
			c.text = append(c.text, r.text...)
			c.ends = append(c.ends, len(c.text))
			r.text = nil
			c.records = append(c.records, r)
			if len(c.text) >= chunkBytes || len(c.records) >= chunkRecords {
				return send()
			}
			return nil
		})
		if err == nil {
			err = send()
		}
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			return fmt.Errorf("convert %s: %w", file, err)
		}
	}
	return nil
}

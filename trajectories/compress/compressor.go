package compress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
)

// Compressor compresses rows. It may be used from many goroutines at once.
type Compressor struct {
	config  Config
	counter Counter
	client  model.Client
	workers chan struct{} // a place for every row that is parsed and counted
	now     func() time.Time
}

// New returns a compressor. client writes the summaries and brings its own patience with
// failures; nil makes every run a dry one.
func New(config Config, counter Counter, client model.Client) (*Compressor, error) {
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("settings of the compressor: %w", err)
	}
	return &Compressor{config: config, counter: counter, client: client, workers: make(chan struct{}, config.Processing.NumWorkers), now: time.Now}, nil
}

// rowResult is what became of a row.
type rowResult struct {
	out         []byte // nil when the row is not saved
	metrics     RowMetrics
	bare        bool  // it has no conversation
	failure     error // why the row stayed as it was although it is too long
	fromJournal bool
}

// row compresses one row. The error ends the whole run; whatever concerns this row alone
// is in the result, and the row stays as it was.
func (c *Compressor) row(ctx context.Context, line []byte, j *journal) (rowResult, error) {
	select {
	case c.workers <- struct{}{}:
	case <-ctx.Done():
		return rowResult{}, context.Cause(ctx)
	}
	turns, total, ok := parseTurns(line, c.counter)
	r, tokens, worth := c.plan(turns, total)
	<-c.workers
	res := rowResult{out: line, bare: !ok, metrics: RowMetrics{
		OriginalTokens: total, CompressedTokens: total, OriginalTurns: len(turns), CompressedTurns: len(turns), Start: -1, End: -1,
	}}
	m := &res.metrics
	target := c.config.Compression.TargetMaxTokens
	if !worth {
		m.Skipped, m.StillOver = ok && total <= target, total > target
		c.drop(&res)
		return res, nil
	}
	notice := c.notice(turns, r)
	var summary string
	if c.client == nil {
		m.CompressedTokens = total - tokens + c.config.Compression.SummaryTargetTokens + notice
	} else {
		key := c.rowKey(line, r)
		known, found := j.lookup(key)
		if !found {
			var n calls
			var err error
			known.Summary, n, err = c.ask(ctx, turns, r, tokens)
			m.Calls, m.Errors = n.made, n.failed
			if err != nil {
				var failure *model.Error
				switch {
				case ctx.Err() != nil:
					return res, context.Cause(ctx)
				case errors.As(err, &failure) && failure.Fatal():
					return res, err
				}
				res.failure, m.StillOver = err, total > target
				m.Skipped = !m.StillOver
				return res, nil
			}
			if err := j.add(journalEntry{key, r.start, r.end, known.Summary, n.made, n.failed}); err != nil {
				return res, err
			}
		} else {
			res.fromJournal = true
			m.Calls, m.Errors = known.Calls, known.Errors
		}
		summary = known.Summary
		m.CompressedTokens = total - tokens + c.counter.Count(summary) + notice
	}
	m.Compressed = true
	m.Start, m.End = r.start, r.end
	m.CompressedTurns = len(turns) - r.len() + 1
	m.StillOver = m.CompressedTokens > target
	if c.client != nil {
		var encoded json.RawMessage
		if c.config.Metrics.Enabled && c.config.Metrics.PerTrajectory {
			encoded = m.encode()
		}
		text := ""
		if c.config.Output.AddSummaryNotice {
			text = c.config.Output.SummaryNoticeText
		}
		out, err := replaceTurns(line, turns, r, summary, text, encoded)
		if err != nil {
			return res, fmt.Errorf("write a compressed row: %w", err)
		}
		res.out = out
	}
	c.drop(&res)
	return res, nil
}

// plan decides whether a row is compressed, and which of its turns are summarised.
func (c *Compressor) plan(turns []turn, total int) (r region, tokens int, worth bool) {
	size := &c.config.Compression
	need := total - size.TargetMaxTokens + size.SummaryTargetTokens
	if total <= size.TargetMaxTokens {
		if c.config.Processing.SkipUnderTarget {
			return r, 0, false
		}
		need = math.MaxInt
	} else {
		need += c.notice(turns, region{len(turns), len(turns)})
	}
	r, found := findRegion(turns, &c.config, need)
	if !found {
		return r, 0, false
	}
	for _, t := range turns[r.start:r.end] {
		tokens += t.tokens
	}
	return r, tokens, tokens > size.SummaryTargetTokens
}

// notice is what the notice in the system turns before a region costs, in tokens.
func (c *Compressor) notice(turns []turn, r region) (tokens int) {
	if !c.config.Output.AddSummaryNotice {
		return 0
	}
	for _, t := range turns[:r.start] {
		if t.role == "system" {
			tokens += c.counter.Count(t.value+c.config.Output.SummaryNoticeText) - t.tokens
		}
	}
	return tokens
}

// ask is summarise within the time a trajectory has.
func (c *Compressor) ask(ctx context.Context, turns []turn, r region, tokens int) (string, calls, error) {
	limit := c.config.timeout()
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	summary, n, err := c.summarise(bounded, turns, r, tokens)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = fmt.Errorf("no summary within %s (processing.per_trajectory_timeout)", limit)
	}
	return summary, n, err
}

// drop leaves a row out that is still too long, where the settings want that.
func (c *Compressor) drop(res *rowResult) {
	if res.metrics.StillOver && !c.config.Processing.SaveOverLimit {
		res.out = nil
	}
}

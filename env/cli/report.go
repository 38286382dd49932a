package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/internal/atomicfile"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/report"
	"github.com/hermes-env/hermes-env/trajectories/stats"
)

type reportCommand struct {
	Directory   string `arg:"" name:"run" help:"Run directory."`
	Out         string `name:"out" short:"o" placeholder:"FILE" help:"File to write [report.html in the run directory]; - for standard output."`
	Transcripts int    `name:"transcripts" default:"1000" help:"Most transcripts to include; more rollouts are sampled evenly."`
	tamperedFlag
	Size int `name:"size" default:"40" placeholder:"MIB" help:"Room for all transcripts together; long texts are cut to fit."`
	priceFlags
}

// Run writes the HTML report of a run.
func (c *reportCommand) Run(s *session) error {
	if c.Transcripts < 1 || c.Size < 1 {
		return fail(ExitUsage, errors.New("--transcripts and --size want a number from 1"))
	}
	if err := c.check(); err != nil {
		return fail(ExitUsage, err)
	}
	run, err := openStored(c.Directory)
	if err != nil {
		return err
	}
	filter, err := c.filter()
	if err != nil {
		return fail(ExitUsage, err)
	}
	rollouts, err := run.count(filter)
	if err != nil {
		return fail(ExitUsage, err)
	}
	builder := report.NewBuilder(report.Config{Rollouts: rollouts, Transcripts: c.Transcripts, Bytes: c.Size << 20, Groups: run.manifest.Command != "evaluate"})
	settings := c.config()
	settings.KnownTools, settings.Tampered = run.manifest.ToolNames, filter
	collector, got := stats.New(settings), newScores()
	err = run.Each(func(r *trajectories.Rollout) error {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		collector.Rollout(r)
		if !filter.Takes(trajectories.KindsOfTampering(r.Tampering)) {
			return nil
		}
		got.add(r)
		return builder.Add(r)
	})
	if err != nil {
		return fail(ExitUsage, err)
	}
	page := run.page(got)
	result := collector.Result()
	page.Warnings = append(page.Warnings, run.tamperingWarnings(result, filter)...)
	if err := describeGroups(result, run.Reader); err != nil {
		return fail(ExitUsage, err)
	}
	if page.Dropped, err = droppedGroups(run.Reader); err != nil {
		return fail(ExitUsage, err)
	}
	page.Made = s.app.now()
	out := c.Out
	if out == "" {
		out = filepath.Join(c.Directory, "report.html")
	}
	if err := s.writeFile(out, func(w io.Writer) error { return builder.WriteRun(w, page, result) }); err != nil {
		return err
	}
	for _, w := range page.Warnings {
		fmt.Fprintln(s.app.Stderr, "warning: "+w)
	}
	return nil
}

// droppedGroups are the steps whose groups are not trained on, with the reason.
func droppedGroups(run *trajectories.Reader) (map[int]string, error) {
	dropped := make(map[int]string)
	err := run.GroupDecisions(func(d trajectories.GroupDecision) error {
		if delete(dropped, d.Step); !d.Kept {
			dropped[d.Step] = d.Reason
		}
		return nil
	})
	return dropped, err
}

// page describes the run as a whole.
func (s *storedRun) page(got *scores) report.Run {
	estimate := env.ClusteredMean(got.byItem)
	m := s.manifest
	p := report.Run{
		Title: m.Environment, Subtitle: strings.Join([]string{m.Command, s.model()}, " · "), Version: Version(), Source: filepath.Join(s.Dir(), "rollouts.jsonl"),
		Scored: estimate.N, Items: estimate.Clusters, Rollouts: got.rollouts, Passed: got.passes(), Config: prettyJSON(m.Config), Warnings: s.warnings(got, estimate),
	}
	if estimate.N > 0 {
		p.Mean = &estimate.Mean
		if !math.IsNaN(estimate.StdErr) {
			p.StdErr = &estimate.StdErr
		}
	}
	if threshold := s.config.Get("env.pass_threshold"); threshold.Exists() {
		p.Threshold = "score ≥ " + threshold.String()
	}
	if got.counted > estimate.N && estimate.N > 0 {
		zero := got.sum / float64(got.counted)
		p.AsZero = &zero
	}
	if m.Command == "evaluate" {
		for _, rate := range got.passAtK() {
			p.PassAtK = append(p.PassAtK, report.Rate(rate))
		}
	}
	add := func(name, value string) {
		if value != "" {
			p.Facts = append(p.Facts, report.Fact{Name: name, Value: value})
		}
	}
	add("run directory", s.Dir())
	add("status", string(m.Status))
	add("started", m.StartedAt)
	add("ended", m.EndedAt)
	add("sessions", fmt.Sprint(len(m.Sessions)))
	add("sandbox", s.config.Get("env.terminal_backend").String())
	add("tools", strings.Join(m.ToolNames, ", "))
	add("hermes-env", m.Versions.HermesEnv+" ("+m.Versions.Go+")")
	add("configuration digest", m.ConfigDigest)
	add("dataset digest", m.DatasetDigest)
	return p
}

func (a *App) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

// writeFile writes a result through a temporary file, so that nobody sees half of
// it, and says where it is. The name - is standard output.
func (s *session) writeFile(path string, write func(io.Writer) error) (err error) {
	if path == "-" {
		buffered := bufio.NewWriterSize(s.app.Stdout, 256<<10)
		return errors.Join(write(buffered), buffered.Flush())
	}
	var size int64
	err = atomicfile.WriteFrom(path, func(w io.Writer) error {
		counted := &countingWriter{w: w}
		buffered := bufio.NewWriterSize(counted, 256<<10)
		err := errors.Join(write(buffered), buffered.Flush())
		size = counted.n
		return err
	})
	if err != nil {
		return fail(ExitStore, fmt.Errorf("write %s: %w", path, err))
	}
	fmt.Fprintf(s.app.Stdout, "%s (%s)\n", path, fileSize(size))
	return nil
}

// countingWriter counts the bytes that go through it.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

func fileSize(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.0f KiB", float64(n)/1024)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

// DefaultShardBytes is the size of a file after which the next one begins.
const DefaultShardBytes = 500 << 20

// Options say what is converted into what.
type Options struct {
	Inputs []string // run directories, folders of data files, or files
	From   Format   // "" means: tell by each record
	To     Format
	// For is who trains on the files, which decides on columns and values of the format
	// messages; "" writes the format itself.
	For Consumer
	// Encoding of tabular formats; "" means JSON Lines.
	Encoding table.Encoding
	// Out is a new folder, or one file if it ends in .jsonl or .parquet.
	Out       string
	Overwrite bool // replace what an earlier conversion left there
	// ShardBytes is the size of a file after which the next one begins; 0 means
	// DefaultShardBytes, a negative number one file whatever its size.
	ShardBytes int64
	// SplitCompleted puts rows of rollouts that the model did not finish into a split
	// of their own, failed, beside completed.
	SplitCompleted bool
	Pairing        Pairing // of preference pairs
	Filter         Filter
	// InvalidArguments says what becomes of rows with broken tool calls; "" is
	// ExcludeInvalid for formats whose consumers read arguments, else KeepInvalid.
	InvalidArguments InvalidArguments
	Text             TextConfig // for the format text
	// Strict refuses input with a line that can't be read.
	Strict bool
	// Removed is a new file that lists the rows left out and why; "" for none.
	Removed string
	Version string // of the program, for the files
	// Progress is told how much of all that is to be read has been read, in bytes,
	// several times a second; nil for nobody.
	Progress func(done, total int64)

	registry *chat.Toolset     // tools of the run
	tools    []json.RawMessage // their definitions
	omit     bool              // the run leaves out empty think blocks
	live     bool              // the input is being written
}

func (o *Options) grouping() bool {
	return o.Filter.BestOfGroup || o.To == Preference || o.To == Groups
}

// ErrUsage marks what the caller has to change; nothing was written.
var ErrUsage = errors.New("can't convert")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUsage, fmt.Errorf(format, args...))
}

// single says whether the output is one file.
func (o *Options) single() bool {
	switch strings.ToLower(filepath.Ext(o.Out)) {
	case ".jsonl", ".parquet":
		return true
	}
	return false
}

func (o *Options) check() error {
	if err := o.checkFor(); err != nil {
		return err
	}
	d := describe(o.To)
	if d.Text == "" {
		return usage("unknown target format %q", o.To)
	}
	if o.From != "" && !describe(o.From).Read {
		return usage("the format %s can't be read", o.From)
	}
	if len(o.Inputs) == 0 || o.Out == "" {
		return usage("input and output must be named")
	}
	extension := strings.TrimPrefix(strings.ToLower(filepath.Ext(o.Out)), ".")
	if o.Encoding == "" {
		o.Encoding = table.JSONLines
		if o.single() && d.Parquet {
			o.Encoding = table.Encoding(extension)
		}
	}
	switch {
	case o.Encoding != table.JSONLines && o.Encoding != table.Parquet:
		return usage("the encoding is %q: want jsonl or parquet", o.Encoding)
	case o.Encoding == table.Parquet && !d.Parquet:
		return usage("the format %s can't be written as Parquet", o.To)
	case o.single() && string(o.Encoding) != extension:
		return usage("the output %s would be written as %s: give another name or encoding", o.Out, o.Encoding)
	case o.single() && o.To == ATIF:
		return usage("the format atif writes a file per rollout: give a folder, or use atif-jsonl")
	case o.single() && o.SplitCompleted:
		return usage("two splits don't fit into one file: give a folder")
	case o.SplitCompleted && (o.To == Preference || o.To == Groups || o.To == ATIF):
		return usage("the format %s has no rows of one rollout each to split", o.To)
	}
	if err := o.Pairing.check(o.To); err != nil {
		return err
	}
	if err := o.Filter.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if o.Filter.Tampered == "" && !o.To.records() {
		o.Filter.Tampered = trajectories.TamperedExclude
	}
	if err := o.checkInvalid(); err != nil {
		return err
	}
	o.Filter.scored = !o.Filter.IncludeUnscored && !o.To.records()
	return nil
}

// files lists what is read, and takes over what a run directory knows.
func (o *Options) files() (files []string, total int64, err error) {
	for _, input := range o.Inputs {
		info, err := os.Stat(input)
		if err != nil {
			return nil, 0, usage("%w", err)
		}
		if !info.IsDir() {
			files = append(files, input)
			continue
		}
		run, err := trajectories.OpenReadOnly(input)
		switch {
		case err == nil:
			if len(o.Inputs) == 1 {
				if err := o.takeRun(run.Manifest()); err != nil {
					return nil, 0, err
				}
			}
			record, err := trajectories.RecordFiles(input)
			if err != nil {
				return nil, 0, usage("%w", err)
			}
			files = append(files, record...)
			continue
		case !errors.Is(err, trajectories.ErrNotRun):
			return nil, 0, usage("%w", err)
		}
		found, err := FilesIn(input)
		if err != nil {
			return nil, 0, usage("%w", err)
		}
		files = append(files, found...)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return nil, 0, usage("%w", err)
		}
		total += info.Size()
	}
	return files, total, nil
}

// takeRun takes over what run.json says about the tools.
func (o *Options) takeRun(m trajectories.Manifest) error {
	if err := json.Unmarshal(m.Tools, &o.tools); err != nil && m.Tools != nil {
		return usage("read the tools in run.json: %w", err)
	}
	if o.tools == nil {
		o.tools = []json.RawMessage{}
	}
	for i, t := range o.tools {
		o.tools[i] = json.RawMessage(compact(string(t))) // run.json is laid out for people
	}
	o.registry = toolset(o.tools, m.ToolNames)
	o.omit = m.OmitEmptyThink
	o.live = m.Status == trajectories.StatusRunning
	return nil
}

// Run converts. The error is ErrUsage when nothing can be done before something
// is changed; the report is then still returned where the input was read.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	var text *textWriter
	if o.To == Text || o.For.flat() {
		var err error
		if text, err = newTextWriter(o.Text); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUsage, err)
		}
	}
	files, total, err := o.files()
	if err != nil {
		return nil, err
	}
	out, err := newOutput(o.Out, o.single(), o.Overwrite)
	if err != nil {
		return nil, err
	}
	report := &Report{To: o.To, For: o.For, Encoding: string(o.Encoding), Out: o.Out, Sources: o.Inputs, Lines: []Broken{}, Notes: []string{}}
	var read atomic.Int64
	stop := watch(&read, 2*total, o.Progress)
	defer stop()
	d := &decoder{from: o.From, tools: o.tools}
	sets, err := readEvaluationSets(ctx, &o.Filter.Text)
	if err != nil {
		return nil, err
	}
	rules, err := newTextRules(&o.Filter.Text, sets)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	removed, err := newRemovedList(&o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, removed.close(false)) }()
	chooser, err := newPlanner(&o, report, rules, removed)
	if err != nil {
		return nil, err
	}
	p, err := chooser.run(ctx, files, d, &read)
	if err != nil {
		return nil, err
	}
	if o.Strict && report.Broken > 0 {
		return report, usage("%d lines can't be read, the first is %s", report.Broken, report.Lines[0].String())
	}
	if p.count == 0 {
		return report, fmt.Errorf("%w: %w: %s", ErrUsage, errNothing, reasons(report))
	}
	read.Store(total)
	if err := out.begin(); err != nil {
		return nil, diskTrouble(err)
	}
	defer out.discard()
	w, err := newWriter(&o, out, p, report, text)
	if err != nil {
		return nil, diskTrouble(err)
	}
	if err := w.run(ctx, files, d, &read); err != nil {
		return nil, diskTrouble(err)
	}
	if err := removed.close(true); err != nil {
		return nil, diskTrouble(err)
	}
	if err := out.commit(); err != nil {
		return nil, diskTrouble(err)
	}
	return report, nil
}

// diskTrouble adds to an error of the disk what the user can do; others stay as they are.
func diskTrouble(err error) error {
	var place *fs.PathError
	if !errors.As(err, &place) {
		return err
	}
	return fmt.Errorf("%w: nothing of the output is left there, the input is as it was; %s and convert again", err, trajectories.DiskAdvice(err))
}

// reasons says why nothing is left.
func reasons(r *Report) string {
	if r.Read == 0 && r.Broken > 0 {
		return fmt.Sprintf("none of %d lines could be read, the first is %s", r.Broken, r.Lines[0].String())
	}
	if len(r.Filtered) == 0 {
		return "the input has no rows"
	}
	return countsText(r.Filtered)
}

// countsText lists counts in one line.
func countsText(list []Count) string {
	var parts []string
	for _, c := range list {
		parts = append(parts, fmt.Sprintf("%d rows: %s", c.Rows, c.What))
	}
	return strings.Join(parts, "; ")
}

// watch tells the progress until the function it returns is called.
func watch(read *atomic.Int64, total int64, tell func(done, total int64)) (stop func()) {
	if tell == nil {
		return func() {}
	}
	ended, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				tell(min(read.Load(), total), total)
			}
		}
	}()
	return func() {
		close(ended)
		<-finished
	}
}

// output is where a conversion goes: written under another name, renamed when it
// is complete.
type output struct {
	path      string
	single    bool
	overwrite bool
	dir       string // temporary folder
	committed bool
}

// newOutput refuses a place that is taken, before anything is read.
func newOutput(path string, single, overwrite bool) (*output, error) {
	out := &output{path: filepath.Clean(path), single: single, overwrite: overwrite}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return out, nil
	case err != nil:
		return nil, usage("%w", err)
	case !overwrite:
		if entries, err := os.ReadDir(path); err == nil && info.IsDir() && len(entries) == 0 {
			return out, nil
		}
		return nil, usage("%s exists: choose another --out, or replace it with --overwrite", path)
	case single && info.IsDir():
		return nil, usage("%s is a folder", path)
	case !single && !info.IsDir():
		return nil, usage("%s is a file", path)
	case !single:
		if _, err := os.Stat(filepath.Join(path, ReportFile)); err != nil {
			if entries, err := os.ReadDir(path); err != nil || len(entries) > 0 {
				return nil, usage("%s was not written by a conversion (it has no %s): it is not replaced", path, ReportFile)
			}
		}
	}
	return out, nil
}

const partial = ".partial-"

// begin makes the temporary folder and removes those of conversions to the same
// place that were killed on this machine.
func (o *output) begin() error {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	parent, base := filepath.Dir(o.path), filepath.Base(o.path)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	prefix := "." + base + partial + host + "-"
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), prefix)
		var pid int
		if _, err := fmt.Sscanf(rest, "%d", &pid); !ok || err != nil || alive(pid) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(parent, e.Name())); err != nil {
			return err
		}
	}
	o.dir = filepath.Join(parent, fmt.Sprintf("%s%d", prefix, os.Getpid()))
	return os.Mkdir(o.dir, 0o755)
}

// discard removes what an unfinished conversion has written.
func (o *output) discard() {
	if o.dir != "" && !o.committed {
		_ = os.RemoveAll(o.dir) // the error that led here is the one to report
	}
}

// commit puts the finished output in its place.
func (o *output) commit() error {
	if o.single {
		name := filepath.Base(o.path)
		if err := os.Rename(filepath.Join(o.dir, name), o.path); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(o.dir, ReportFile), o.path+"."+ReportFile); err != nil {
			return err
		}
		return os.RemoveAll(o.dir)
	}
	old := o.dir + "-old"
	if _, err := os.Stat(o.path); err == nil {
		if err := os.Rename(o.path, old); err != nil {
			return err
		}
	}
	if err := os.Rename(o.dir, o.path); err != nil {
		return err
	}
	o.committed = true
	return os.RemoveAll(old)
}

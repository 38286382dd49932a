package trajectories

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/internal/atomicfile"
	"github.com/hermes-env/hermes-env/internal/textutil"
)

// decisionsFile says what became of the groups that were not kept whole.
const decisionsFile = "group_decisions.jsonl"

// GroupDecision is what became of a group that was not kept whole, one line of
// group_decisions.jsonl. Of several lines for a step the last one holds.
type GroupDecision struct {
	Step   int
	ItemID string
	// Kept says that the group goes on with the rollouts that are not left out, which
	// are all of them when an earlier decision was taken back; else it was dropped.
	Kept     bool
	Reason   string   // why it was dropped, a word to count by
	Text     string   // the reason for people
	Rollouts []string // ids of its rollouts, by attempt
	Rules    string   // what the decision rests on besides; "" for one that is not to be relied on again
	LeftOut  []LeftOut
}

// LeftOut is a rollout that is no part of its group.
type LeftOut struct {
	Attempt int
	Reason  string // a word to count by
	Text    string // the reason for people
}

// GroupCounts counts groups that were not kept whole.
type GroupCounts struct {
	Dropped map[string]int // groups, by reason
	LeftOut map[string]int // rollouts that groups go on without, by reason
}

// GroupDecisions is the durable memory of decisions about groups. Its methods may be
// called from several goroutines.
type GroupDecisions struct {
	path   string
	mu     sync.Mutex
	file   appendFile
	size   int64
	known  map[int]decided
	failed error
}

// decided is what is kept in memory of a decision.
type decided struct {
	kept    bool
	reason  string
	basis   uint64 // of rollouts and rules; 0: not to be relied on
	leftOut []string
}

// OpenGroupDecisions opens the memory of the run's decisions about groups. A torn last
// line, which a kill can leave, is removed. Close it before the run.
func (r *Run) OpenGroupDecisions() (*GroupDecisions, error) {
	d := &GroupDecisions{path: r.path(decisionsFile), known: map[int]decided{}}
	if err := d.restore(); err != nil {
		return nil, fmt.Errorf("open %s: %w", d.path, err)
	}
	file, err := r.settings.open(d.path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", d.path, err)
	}
	d.file = file
	if err := atomicfile.SyncDir(r.dir); err != nil {
		return nil, firstOf(fmt.Errorf("open %s: %w", d.path, err), file.Close())
	}
	return d, nil
}

func (d *GroupDecisions) restore() error {
	err := eachDecision(d.path, func(l *lineReader, decision GroupDecision) {
		d.note(&decision)
		d.size = l.end
	})
	if err != nil {
		return ignoreMissing(err)
	}
	info, err := os.Stat(d.path)
	if err != nil || info.Size() == d.size {
		return err
	}
	return os.Truncate(d.path, d.size) // made durable with the next line; until then it is torn again
}

// Stands says whether a group of these rollouts was dropped under these rules, so that
// judging it again would drop it again.
func (d *GroupDecisions) Stands(step int, rollouts []string, rules string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.known[step]
	return ok && !known.kept && known.basis != 0 && known.basis == basis(rollouts, rules)
}

// Has says whether there is a decision about the group of a step.
func (d *GroupDecisions) Has(step int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.known[step]
	return ok
}

// Record appends a decision and returns once it is durable. The error is ErrFailed when
// the disk refused now or earlier.
func (d *GroupDecisions) Record(decision GroupDecision) error {
	line := append(decision.append(nil), '\n')
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return d.failed
	}
	if err := writeSync(d.file, line); err != nil {
		if undo := errors.Join(d.file.Truncate(d.size), d.file.Sync()); undo != nil {
			err = fmt.Errorf("%w (and taking back the part already written: %w)", err, undo)
		}
		d.failed = diskFailure("write to "+d.path, err)
		return d.failed
	}
	d.size += int64(len(line))
	d.note(&decision)
	return nil
}

// Counts returns what the decisions that hold add up to.
func (d *GroupDecisions) Counts() GroupCounts {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := GroupCounts{Dropped: map[string]int{}, LeftOut: map[string]int{}}
	for _, known := range d.known {
		counts.add(known)
	}
	return counts
}

// Close closes the file; every decision recorded is durable already.
func (d *GroupDecisions) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if errors.Is(d.failed, ErrClosed) {
		return nil
	}
	d.failed = fmt.Errorf("write to %s: %w", d.path, ErrClosed)
	return d.file.Close()
}

func (d *GroupDecisions) note(decision *GroupDecision) {
	known := decided{kept: decision.Kept, reason: decision.Reason, basis: basis(decision.Rollouts, decision.Rules)}
	if decision.Kept {
		for _, l := range decision.LeftOut {
			known.leftOut = append(known.leftOut, l.Reason)
		}
	}
	d.known[decision.Step] = known
}

func (c *GroupCounts) add(known decided) {
	if !known.kept {
		c.Dropped[known.reason]++
	}
	for _, reason := range known.leftOut {
		c.LeftOut[reason]++
	}
}

// basis is a digest of what a decision rests on, 0 when it is not to be relied on.
func basis(rollouts []string, rules string) uint64 {
	if rules == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, rules)
	for _, id := range rollouts {
		_, _ = io.WriteString(h, "\x00"+id)
	}
	return max(1, h.Sum64())
}

// GroupDecisions calls visit with every decision that holds, in the order of steps in
// which they were first decided. A run without any has none to visit.
func (r *Reader) GroupDecisions(visit func(GroupDecision) error) error {
	path := filepath.Join(r.dir, decisionsFile)
	var order []int
	last := map[int]GroupDecision{}
	err := eachDecision(path, func(_ *lineReader, d GroupDecision) {
		if _, seen := last[d.Step]; !seen {
			order = append(order, d.Step)
		}
		last[d.Step] = d
	})
	if err := ignoreMissing(err); err != nil {
		return err
	}
	for _, step := range order {
		if err := visit(last[step]); err != nil {
			return err
		}
	}
	return nil
}

// GroupCounts counts the groups that were not kept whole.
func (r *Reader) GroupCounts() (GroupCounts, error) {
	d := GroupDecisions{known: map[int]decided{}}
	err := eachDecision(filepath.Join(r.dir, decisionsFile), func(_ *lineReader, decision GroupDecision) { d.note(&decision) })
	return d.Counts(), ignoreMissing(err)
}

// eachDecision reads the whole lines of the file at path.
func eachDecision(path string, visit func(*lineReader, GroupDecision)) error {
	return eachLineOf(path, func(l *lineReader, line []byte) error {
		d, err := decodeDecision(line)
		if err != nil {
			return fmt.Errorf("%w: %s line %d: %w: repair or remove that line", ErrCorrupt, path, l.number, err)
		}
		visit(l, d)
		return nil
	})
}

func (d *GroupDecision) append(dst []byte) []byte {
	e := encoder{buf: append(dst, '{')}
	e.integer("step", int64(d.Step))
	e.text("item_id", d.ItemID)
	e.boolean("kept", d.Kept)
	if !d.Kept {
		e.text("reason", d.Reason)
		e.text("text", d.Text)
	}
	if len(d.LeftOut) > 0 {
		e.key("left_out")
		e.raw('[')
		for i, l := range d.LeftOut {
			if i > 0 {
				e.raw(',')
			}
			e.raw('{')
			e.integer("attempt", int64(l.Attempt))
			e.text("reason", l.Reason)
			e.text("text", l.Text)
			e.raw('}')
		}
		e.raw(']')
	}
	e.texts("rollouts", d.Rollouts)
	e.text("rules", d.Rules)
	return append(e.buf, '}')
}

// decodeDecision reads a line. Its texts do not share the line's memory.
func decodeDecision(line []byte) (GroupDecision, error) {
	v := gjson.ParseBytes(line)
	if !validJSON(line) || !v.IsObject() {
		return GroupDecision{}, errors.New("not a JSON object")
	}
	step, kept, reason := v.Get("step"), v.Get("kept"), strings.Clone(v.Get("reason").String())
	switch {
	case step.Type != gjson.Number || step.Num < 0 || step.Num != float64(step.Int()):
		return GroupDecision{}, fmt.Errorf("the step is %s, not a number from 0", textutil.Shorten(shown(step), 80))
	case !kept.IsBool():
		return GroupDecision{}, fmt.Errorf("kept is %s, not true or false", textutil.Shorten(shown(kept), 80))
	case !kept.Bool() && reason == "":
		return GroupDecision{}, errors.New("a group was dropped without a reason")
	}
	d := GroupDecision{
		Step: int(step.Int()), ItemID: strings.Clone(v.Get("item_id").String()), Kept: kept.Bool(), Reason: reason, Text: strings.Clone(v.Get("text").String()),
		Rules: strings.Clone(v.Get("rules").String()),
	}
	for _, id := range textList(v.Get("rollouts")) {
		d.Rollouts = append(d.Rollouts, strings.Clone(id))
	}
	v.Get("left_out").ForEach(func(_, l gjson.Result) bool {
		d.LeftOut = append(d.LeftOut, LeftOut{
			Attempt: int(l.Get("attempt").Int()), Reason: strings.Clone(l.Get("reason").String()), Text: strings.Clone(l.Get("text").String()),
		})
		return true
	})
	return d, nil
}

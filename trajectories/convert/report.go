package convert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

// ReportFile is the name of the report beside the files of a conversion.
const ReportFile = "loss.json"

// maxNamed is how many broken lines are named; all are counted.
const maxNamed = 20

// Count is a number of rows and why.
type Count struct {
	What  string `json:"what"`
	Rows  int64  `json:"rows"`
	Times int64  `json:"times,omitempty"` // where one row has several
}

// Broken names a line that could not be read.
type Broken struct {
	File    string `json:"file"`
	Line    int64  `json:"line"`
	Problem string `json:"problem"`
}

// Report says what a conversion did.
type Report struct {
	To       Format   `json:"to"`
	For      Consumer `json:"for,omitempty"`
	Encoding string   `json:"encoding"`
	Out      string   `json:"out"`
	Sources  []string `json:"sources"`
	Formats  []Count  `json:"formats"`  // of the records read
	Read     int64    `json:"read"`     // rows
	Written  int64    `json:"written"`  // rows, pairs or groups
	Kept     int64    `json:"kept"`     // rows that passed the filters
	Filtered []Count  `json:"filtered"` // why rows were left out
	// EvaluationSets says what was found of the sets that rows must not contain.
	EvaluationSets []EvaluationSet `json:"evaluation_sets,omitempty"`
	Lost           []Count         `json:"lost"`    // what the target can't carry
	MadeUp         []Count         `json:"made_up"` // what the source lacks and the target needs
	Broken         int64           `json:"broken"`  // lines that could not be read
	Lines          []Broken        `json:"broken_lines"`
	Notes          []string        `json:"notes"`
	Splits         []table.Split   `json:"-"`
	Files          []reportFile    `json:"files"`
}

type reportFile struct {
	Name  string `json:"name"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
}

// JSON returns the report as an indented JSON object.
func (r *Report) JSON() ([]byte, error) {
	raw, err := chat.Marshal(r)
	if err != nil {
		return nil, err
	}
	var out []byte
	if out, err = indent(raw); err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

func indent(raw []byte) ([]byte, error) {
	var buf bytes.Buffer
	err := json.Indent(&buf, raw, "", "  ")
	return buf.Bytes(), err
}

// tally counts rows by what they have in common.
type tally map[string]*Count

func (t tally) add(what string, rows, times int64) {
	c := t[what]
	if c == nil {
		c = &Count{What: what}
		t[what] = c
	}
	c.Rows += rows
	c.Times += times
}

// list returns the counts, the largest first.
func (t tally) list() []Count {
	list := make([]Count, 0, len(t))
	for _, c := range t {
		if c.Times == c.Rows {
			c.Times = 0
		}
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Count) int {
		if a.Rows != b.Rows {
			return cmp.Compare(b.Rows, a.Rows)
		}
		return cmp.Compare(a.What, b.What)
	})
	return list
}

// maxKinds bounds how many different things are counted apart.
const maxKinds = 1000

func (t tally) addLoss(l loss) {
	what := l.what
	if len(t) >= maxKinds && t[what] == nil {
		what = "other things"
	}
	t.add(what, 1, l.count)
}

// String names the place of a broken line and what is wrong with it.
func (b *Broken) String() string { return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Problem) }

package report

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories"
)

// Config bounds a report.
type Config struct {
	Rollouts    int // that will be added; decides how much room each transcript gets
	Transcripts int // at most so many transcripts, spread evenly over the run; 0 means 1,000
	Bytes       int // for all transcripts together, in the file; 0 means 40 MiB
	Items       int // at most so many rows of the matrix; 0 means 1,000
	// Groups makes a row of each group of rollouts, as runs for training data have them,
	// in place of each item. Transcripts are then chosen by whole groups.
	Groups bool
}

// Builder collects what the report of a run shows. It keeps the figures of every
// rollout and the compressed transcripts, never a conversation.
type Builder struct {
	config Config
	stride int // every so many rollouts have a transcript
	share  int // bytes for one transcript
	added  int
	cells  []cell
	packed []packed
	items  map[string]int // position in order
	order  []string
	words  map[string]string
	links  map[string]string // to transcripts of rollouts with tampering, by id
}

// cell is one attempt in the matrix.
type cell struct {
	item       int
	attempt    int
	step       int
	outcome    trajectories.Outcome
	score      *float64
	passed     *bool
	turns      int
	seconds    float64
	category   string
	difficulty string
	group      int
	tampering  *trajectories.TamperingKinds
	transcript int // number of its transcript, -1 without one
}

type packed struct {
	number int
	data   string
}

// NewBuilder returns an empty builder.
func NewBuilder(config Config) *Builder {
	if config.Transcripts <= 0 {
		config.Transcripts = 1000
	}
	if config.Bytes <= 0 {
		config.Bytes = 40 << 20
	}
	if config.Items <= 0 {
		config.Items = 1000
	}
	b := &Builder{config: config, items: map[string]int{}, words: map[string]string{}, links: map[string]string{}, stride: 1}
	b.stride = max(1, (config.Rollouts+config.Transcripts-1)/config.Transcripts)
	b.share = config.Bytes / max(1, min(config.Rollouts, config.Transcripts))
	return b
}

// Add takes one rollout.
func (b *Builder) Add(r *trajectories.Rollout) error {
	key := r.ItemID
	if b.config.Groups {
		key = strconv.Itoa(r.Step) + "\x00" + key
	}
	at, known := b.items[key]
	if !known {
		at = len(b.order)
		item := strings.Clone(r.ItemID) // a rollout's texts share the memory of its whole line
		if !b.config.Groups {
			key = item
		}
		b.items[key] = at
		b.order = append(b.order, item)
	}
	outcome, err := trajectories.ParseOutcome(string(r.Outcome))
	if err != nil {
		return err
	}
	metadata := gjson.ParseBytes(r.Metadata)
	c := cell{
		item: at, attempt: r.Attempt, step: r.Step, outcome: outcome, score: r.Score, passed: r.Passed, turns: r.TurnsUsed, seconds: r.Timings.Total,
		category: b.word(metadata.Get("category").String(), 60), difficulty: b.word(metadata.Get("difficulty").String(), 30), group: r.Group, transcript: -1,
		tampering: trajectories.KindsOfTampering(r.Tampering),
	}
	if b.chosen(r.Step) && len(b.packed) < b.config.Transcripts {
		data, err := pack(r, b.share)
		if err != nil {
			return err
		}
		c.transcript = len(b.packed)
		b.packed = append(b.packed, packed{c.transcript, data})
		if c.tampering != nil {
			b.links[strings.Clone(r.ID)] = fmt.Sprintf("#t%d", c.transcript)
		}
	}
	b.added++
	b.cells = append(b.cells, c)
	return nil
}

// chosen says whether the next rollout has a transcript: one of every stride, at
// another place in each, so that the choice keeps no step with attempts or items.
// With groups it depends on the step alone, so that a group has all or none.
func (b *Builder) chosen(step int) bool {
	place := uint64(b.added / b.stride)
	if b.config.Groups {
		place = uint64(step)
	}
	h := place*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	if b.config.Groups {
		return h%uint64(b.stride) == 0
	}
	return b.stride == 1 || uint64(b.added%b.stride) == h%uint64(b.stride)
}

// word returns a text on one line, the same text always from the same memory.
func (b *Builder) word(s string, n int) string {
	s = OneLine(s, n)
	known, ok := b.words[s]
	if !ok {
		known = strings.Clone(s)
		b.words[known] = known
	}
	return known
}

// matrixRow is one item of the matrix as the template shows it.
type matrixRow struct {
	Item       string
	Category   string
	Difficulty string
	Mean       string
	MeanValue  float64 // for sorting; -1 when nothing is scored
	Passed     int
	Scored     int
	Attempts   int
	State      string // all, some, none or unscored
	Cells      []matrixCell
	Seconds    string
	SecondsSum float64
	Turns      string
	TurnsMean  float64

	Step    int
	Tags    string // words the rows are chosen by, apart from the state
	Dropped string // why the group is not trained on, "" for one that is
	Compare string // link to the group's transcripts beside each other, "" without

	group int
}

// matrixCell is one attempt as the template shows it.
type matrixCell struct {
	Empty bool
	Class string // pass, fail, part or an outcome without a score
	Text  string // what it shows
	Label string // the same in words
	Link  string // of its transcript, "" without one
}

// matrix returns the rows, and how many items there are in all.
func (b *Builder) matrix(dropped map[int]string) (rows []matrixRow, columns, items int) {
	byItem := make([][]cell, len(b.order))
	for _, c := range b.cells {
		byItem[c.item] = append(byItem[c.item], c)
	}
	sampled := len(b.order) > b.config.Items
	for i, cells := range byItem {
		if sampled && !anyTranscript(cells) {
			continue
		}
		if len(rows) == b.config.Items {
			break
		}
		sort.SliceStable(cells, func(i, j int) bool {
			if cells[i].step != cells[j].step {
				return cells[i].step < cells[j].step
			}
			return cells[i].attempt < cells[j].attempt
		})
		row := newMatrixRow(b.order[i], cells)
		if b.config.Groups {
			row.describeGroup(cells, dropped)
		}
		columns = max(columns, len(row.Cells))
		rows = append(rows, row)
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].group < rows[j].group })
	return rows, columns, len(b.order)
}

func anyTranscript(cells []cell) bool {
	for _, c := range cells {
		if c.transcript >= 0 {
			return true
		}
	}
	return false
}

// maxCells bounds the attempts shown of one item.
const maxCells = 100

func newMatrixRow(item string, cells []cell) matrixRow {
	row := matrixRow{Item: Visible(item), MeanValue: -1, Mean: "–", group: cells[0].group, Attempts: len(cells)}
	sum, seconds, turns := 0.0, 0.0, 0
	for _, c := range cells {
		row.group = min(row.group, c.group)
		if row.Category == "" {
			row.Category, row.Difficulty = c.category, c.difficulty
		}
		seconds += c.seconds
		turns += c.turns
		if c.score != nil {
			row.Scored++
			sum += *c.score
		}
		if c.passed != nil && *c.passed {
			row.Passed++
		}
		if len(row.Cells) < maxCells {
			row.Cells = append(row.Cells, newMatrixCell(item, c))
		}
	}
	n := float64(len(cells))
	row.SecondsSum, row.Seconds = seconds/n, Seconds(seconds/n)
	row.TurnsMean, row.Turns = float64(turns)/n, strconv.FormatFloat(float64(turns)/n, 'f', 1, 64)
	row.Tags = tamperingTags(cells)
	row.State = "unscored"
	if row.Scored > 0 {
		row.MeanValue = sum / float64(row.Scored)
		row.Mean = strconv.FormatFloat(row.MeanValue, 'f', 2, 64)
		switch row.Passed {
		case 0:
			row.State = "none"
		case row.Scored:
			row.State = "all"
		default:
			row.State = "some"
		}
	}
	return row
}

// tamperingTags are the words to choose rows by.
func tamperingTags(cells []cell) string {
	acted, noted := false, false
	for _, c := range cells {
		acted = acted || c.tampering != nil && c.tampering.Acted
		noted = noted || c.tampering != nil && !c.tampering.Acted
	}
	var tags []string
	if acted {
		tags = append(tags, "tampered")
	}
	if noted {
		tags = append(tags, "noted")
	}
	return strings.Join(tags, " ")
}

// describeGroup adds what there is to say of a row that is a group.
func (row *matrixRow) describeGroup(cells []cell, dropped map[int]string) {
	row.Step, row.Dropped = cells[0].step, dropped[cells[0].step]
	same := true
	var transcripts []string
	for _, c := range cells {
		first := cells[0].score
		same = same && c.score != nil && first != nil && *c.score == *first
		if c.transcript >= 0 {
			transcripts = append(transcripts, strconv.Itoa(c.transcript))
		}
	}
	spread := "differ"
	if same {
		spread = "same"
	}
	row.Tags = strings.TrimSpace(spread + " " + row.Tags)
	if row.Dropped != "" {
		row.Tags += " dropped"
	}
	if len(transcripts) > 1 {
		row.Compare = "#g" + strings.Join(transcripts, ",")
	}
}

func newMatrixCell(item string, c cell) matrixCell {
	out := matrixCell{}
	result := ""
	switch {
	case c.score == nil:
		out.Class, out.Text = "o-"+outcomeClass(string(c.outcome)), outcomeSign(c.outcome)
		result = "no score: " + string(c.outcome)
	case c.passed != nil && *c.passed:
		out.Class, out.Text, result = "pass", "✓", "passed"
	case c.passed != nil:
		out.Class, out.Text, result = "fail", "✗", "failed"
		if *c.score > 0 {
			out.Class = "part"
		}
	default:
		out.Class, out.Text, result = "part", "•", "scored"
	}
	if c.score != nil {
		result += fmt.Sprintf(", score %.3g", *c.score)
		if *c.score != 0 && *c.score != 1 {
			out.Text = strconv.FormatFloat(*c.score, 'f', 2, 64)
		}
		if c.outcome != trajectories.OutcomeScored {
			result += " (" + string(c.outcome) + ")"
			out.Text += "°"
		}
	}
	if k := c.tampering; k != nil && k.Acted {
		result += ", the agent tampered with the verification: " + OneLine(strings.Join(k.Active, ", "), 120)
		out.Text += " ⚑"
	} else if k != nil {
		result += ", noted: " + OneLine(strings.Join(k.Noted, ", "), 120)
	}
	out.Label = fmt.Sprintf("%s, attempt %d: %s, %d turns, %s", OneLine(item, 80), c.attempt, result, c.turns, Seconds(c.seconds))
	if c.transcript >= 0 {
		out.Link = fmt.Sprintf("#t%d", c.transcript)
	}
	return out
}

// outcomeSign is the letter of an outcome without a score.
func outcomeSign(o trajectories.Outcome) string {
	switch o {
	case trajectories.OutcomeModelError:
		return "M"
	case trajectories.OutcomeSandboxError:
		return "S"
	case trajectories.OutcomeVerifierError:
		return "V"
	case trajectories.OutcomeEnvironmentError:
		return "E"
	case trajectories.OutcomeCancelled:
		return "C"
	case trajectories.OutcomeLimit:
		return "L"
	}
	return "A"
}

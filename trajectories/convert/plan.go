package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/textfilter"
)

// plan is what the first reading finds out: which rows are kept, what the rows
// have anywhere, and which belong together. It holds a few dozen bytes per row.
type plan struct {
	first    []uint32 // index of the first row of each record
	kept     []bool   // by row
	features features
	registry *chat.Toolset
	attempts map[int]int        // of rows whose attempt is made up
	numbers  map[int]int        // group numbers of rows whose group is made up
	pairs    map[int][]pairSide // by row, for preference pairs
	members  map[int]*rowSet    // by row, for groups
	count    int64              // rows kept
}

// pairSide says which side of which pair a row is.
type pairSide struct {
	pair   int // number of the pair
	chosen bool
}

// rowSet is the rows of one group that are kept.
type rowSet struct{ number, size int }

// sight is what a worker sees in one row.
type sight struct {
	reason    string                // why it is dropped
	found     []textfilter.Overlap  // of evaluation sets, if that is why
	near      *textfilter.Signature // for near-duplicates
	whole     key                   // of the messages, for duplicates
	group     key
	score     float64
	scored    bool
	passed    *bool
	side      Side
	features  features
	tools     []json.RawMessage
	names     []string
	noAttempt bool
	noGroup   bool
}

// sights is what a worker sees in one record.
type sights struct {
	file   string
	number int64
	torn   bool
	format Format
	err    error
	rows   []sight
}

// planner consumes the first reading.
type planner struct {
	options  *Options
	report   *Report
	plan     *plan
	formats  tally
	filtered tally
	whole    map[key]uint32 // row that is kept
	groups   map[key]*groupSeen
	order    []*groupSeen
	tools    map[string]bool            // definitions seen, as text
	byName   map[string]json.RawMessage // the first definition of each tool
	conflict map[string]bool
	rules    *textRules
	near     *textfilter.NearIndex // nil unless near-duplicates are left out
	removed  *removedList
	given    []givenPair // of the source
}

// groupSeen is what is known of the rows that share a prompt.
type groupSeen struct {
	number, rows int
	best, worst  int // rows with the highest and lowest score, -1 for none
	high, low    float64
	kept         []int
	scores       []scoredRow // for preference pairs
}

func newPlanner(o *Options, report *Report, rules *textRules, removed *removedList) (*planner, error) {
	p := &planner{
		options: o, report: report, rules: rules, removed: removed, formats: tally{}, filtered: tally{},
		plan:  &plan{attempts: map[int]int{}, numbers: map[int]int{}},
		whole: map[key]uint32{}, groups: map[key]*groupSeen{}, tools: map[string]bool{}, byName: map[string]json.RawMessage{}, conflict: map[string]bool{},
	}
	if removed != nil {
		removed.plan = p.plan
	}
	if threshold := o.Filter.Text.NearDuplicates; threshold > 0 {
		var err error
		if p.near, err = textfilter.NewNearIndex(threshold); err != nil {
			return nil, usage("--near-duplicates: %w", err)
		}
	}
	return p, nil
}

func (p *planner) run(ctx context.Context, files []string, d *decoder, progress *atomic.Int64) (*plan, error) {
	grouping := p.options.grouping()
	err := eachParallel(ctx, files, progress, func(file string, _ int, r record) sights {
		s := sights{file: file, number: r.number, torn: r.torn}
		var rows []*Row
		s.format, rows, s.err = d.decode(file, r)
		if s.err != nil {
			return s
		}
		for _, row := range rows {
			s.rows = append(s.rows, p.look(row, grouping))
		}
		return s
	}, p.add)
	if err != nil {
		return nil, err
	}
	p.finish()
	return p.plan, nil
}

// look is what one row says; it runs on every processor.
func (p *planner) look(r *Row, grouping bool) sight {
	s := sight{reason: p.options.Filter.rejects(r), tools: r.Tools, noAttempt: r.madeUp("attempt"), noGroup: r.madeUp("group")}
	if r.Score != nil {
		s.score, s.scored = *r.Score, true
	}
	s.passed, s.side = r.Passed, r.Side
	if s.reason == "" {
		s.reason = p.options.sideUnfit(r)
	}
	if s.reason == "" {
		s.reason = p.options.unansweredRow(r)
	}
	if s.reason == "" && p.options.To == KTO {
		if _, known := p.options.Pairing.label(r); !known {
			s.reason = "neither right nor wrong (--chosen-min and --rejected-max say which scores are)"
		}
	}
	if s.reason == "" && !s.scored && (p.options.To == Preference && s.side == "" || p.options.To == Groups) {
		s.reason = "no score"
	}
	if s.reason == "" && p.options.InvalidArguments == ExcludeInvalid && invalidCalls(r.Messages) > 0 {
		s.reason = "arguments of a tool call are not a JSON object (--invalid-arguments keeps or repairs them)"
	}
	if s.reason == "" {
		s.reason = p.options.For.unfit(r)
	}
	if s.reason == "" {
		s.reason, s.found = p.rules.rejects(r)
	}
	if s.reason != "" {
		s.tools, s.names = nil, nil
		return s
	}
	if r.Tools == nil {
		s.names = r.Rollout.Tools
	}
	if d := p.options.Filter.Dedupe; d != "" {
		s.whole = digest(r.Messages, d == DedupePrompt)
		if s.side == Rejected && p.options.To == Preference {
			s.whole[0] ^= 1 // both sides have the same prompt
		}
	}
	s.near = p.rules.sign(r)
	if grouping || s.noAttempt || s.noGroup {
		s.group = groupKey(r)
	}
	f := &s.features
	f.score, f.passed, f.toolsets = r.Score != nil, r.Passed != nil, len(r.Toolsets) > 0
	if p.options.To == ShareGPT || p.options.To == ShareGPTPublished {
		if item, _ := trajectories.SplitMetadata(r.Metadata); item != nil {
			f.own = typeOfValue(gjson.ParseBytes(item), 0)
		}
	}
	f.tools = hasTools(r)
	f.tokens, f.masks, f.logprobs = r.Tokens != nil, r.Masks != nil, r.Logprobs != nil
	for _, m := range r.Messages {
		f.calls = f.calls || len(m.ToolCalls()) > 0
		f.answers = f.answers || m.Role() == chat.RoleTool
		f.reasoning = f.reasoning || m.NativeReasoning() != ""
	}
	return s
}

// add takes what was seen in one record, in order.
func (p *planner) add(s sights) error {
	p.plan.first = append(p.plan.first, uint32(len(p.plan.kept)))
	p.removed.record(s.file, s.number)
	if s.err != nil {
		if s.torn && p.options.live {
			return nil // a run that is being written
		}
		p.report.Broken++
		broken := Broken{filepath.ToSlash(s.file), s.number, s.err.Error()}
		if len(p.report.Lines) < maxNamed {
			p.report.Lines = append(p.report.Lines, broken)
		}
		p.removed.broken(broken)
		return nil
	}
	p.formats.add(string(s.format), 1, 1)
	p.takeGiven(len(p.plan.kept), s.rows)
	for i := range s.rows {
		p.addRow(&s.rows[i])
	}
	return nil
}

func (p *planner) addRow(s *sight) {
	p.report.Read++
	index := len(p.plan.kept)
	p.plan.kept = append(p.plan.kept, false)
	if s.reason != "" {
		p.filtered.add(s.reason, 1, 1)
		r := Removed{Reason: s.reason}
		if s.found != nil {
			p.rules.sets.take(s.found)
			r.Evaluation = p.rules.sets.evaluation(s.found)
		}
		p.removed.row(index, r)
		return
	}
	if p.options.Filter.Dedupe != "" {
		if other, found := p.whole[s.whole]; found {
			p.duplicate(index, int(other), 1, "the same "+p.options.Filter.Dedupe+" as an earlier row")
			return
		}
		p.whole[s.whole] = uint32(index)
	}
	if s.near != nil {
		if other, similarity, found := p.near.FindOrAdd(index, s.near); found {
			p.duplicate(index, other, similarity, fmt.Sprintf("similar to an earlier row by %g or more (--near-duplicates)", p.options.Filter.Text.NearDuplicates))
			return
		}
	}
	p.plan.kept[index] = true
	p.addTools(s)
	p.plan.features.merge(&s.features)
	if s.group == (key{}) {
		return
	}
	g := p.groups[s.group]
	if g == nil {
		g = &groupSeen{number: len(p.order), best: -1, worst: -1}
		p.groups[s.group] = g
		p.order = append(p.order, g)
	}
	if s.noAttempt {
		p.plan.attempts[index] = g.rows
	}
	if s.noGroup {
		p.plan.numbers[index] = g.number
	}
	g.rows++
	if p.options.grouping() {
		g.kept = append(g.kept, index)
	}
	if p.options.To == Preference && s.side == "" {
		g.scores = append(g.scores, scoredRow{index, s.score, s.passed})
	}
	if s.scored && (g.best < 0 || s.score > g.high) {
		g.best, g.high = index, s.score
	}
	if s.scored && (g.worst < 0 || s.score < g.low) {
		g.worst, g.low = index, s.score
	}
}

// duplicate leaves out a row that is similar to one that is kept.
func (p *planner) duplicate(row, other int, similarity float64, why string) {
	p.filtered.add(why, 1, 1)
	p.removed.duplicate(row, other, similarity, why)
}

func (p *planner) addTools(s *sight) {
	for _, t := range s.tools {
		if p.tools[string(t)] {
			continue
		}
		p.tools[string(t)] = true
		name := definitionName(t)
		if old := p.byName[name]; old != nil && string(old) != string(t) {
			p.conflict[name] = true
		} else if name != "" {
			p.byName[name] = t
		}
	}
	for _, name := range s.names {
		if _, ok := p.byName[name]; !ok && name != "" {
			p.byName[name] = nil
		}
	}
}

func (f *features) merge(g *features) {
	f.score = f.score || g.score
	f.passed = f.passed || g.passed
	f.toolsets = f.toolsets || g.toolsets
	f.tokens = f.tokens || g.tokens
	f.masks = f.masks || g.masks
	f.logprobs = f.logprobs || g.logprobs
	f.calls = f.calls || g.calls
	f.answers = f.answers || g.answers
	f.reasoning = f.reasoning || g.reasoning
	if g.own != nil {
		f.own = mergeTypes(f.own, g.own)
	}
	f.tools = f.tools || g.tools
}

// drop leaves out a row that was kept so far.
func (p *planner) drop(row int, why string) {
	if p.plan.kept[row] {
		p.plan.kept[row] = false
		p.filtered.add(why, 1, 1)
		p.removed.row(row, Removed{Reason: why})
	}
}

// finish makes the choices that need all rows.
func (p *planner) finish() {
	o := p.options
	if o.Filter.BestOfGroup {
		for _, g := range p.order {
			for _, row := range g.kept {
				if g.best < 0 {
					p.drop(row, "no score to choose the best of its prompt by")
				} else if row != g.best {
					p.drop(row, "not the best of its prompt")
				}
			}
		}
	}
	switch o.To {
	case Preference:
		p.pair()
	case Groups:
		p.collect()
	default:
		p.sample()
	}
	for _, kept := range p.plan.kept {
		if kept {
			p.plan.count++
		}
	}
	p.plan.registry = p.registry()
	p.plan.features.toolNames = p.plan.registry.Names()
	if n := len(p.conflict); n > 0 {
		p.report.Notes = append(p.report.Notes, "tools are defined differently in different rows; each row keeps its own definitions")
	}
	if sets := p.rules.sets; sets != nil {
		p.report.EvaluationSets = sets.sets
		if sets.common > 0 {
			p.report.Notes = append(p.report.Notes, fmt.Sprintf("%d n-grams that many rows of the evaluation sets repeat are taken for instructions and not looked for", sets.common))
		}
	}
	p.report.Formats, p.report.Filtered = p.formats.list(), p.filtered.list()
	p.report.Kept = p.plan.count
}

func (p *planner) sample() {
	n := p.options.Filter.Sample
	if n == 0 {
		return
	}
	var kept []int
	for row, k := range p.plan.kept {
		if k {
			kept = append(kept, row)
		}
	}
	chosen := choose(kept, n, p.options.Filter.Seed)
	for _, row := range kept {
		if !chosen[row] {
			p.drop(row, "not in the sample")
		}
	}
}

// chosenGroups returns the groups of a sample; all of them without one.
func (p *planner) chosenGroups(fit func(*groupSeen) bool) map[int]bool {
	var numbers []int
	for _, g := range p.order {
		if fit(g) {
			numbers = append(numbers, g.number)
		}
	}
	n := p.options.Filter.Sample
	if n == 0 {
		n = len(numbers)
	}
	return choose(numbers, n, p.options.Filter.Seed)
}

// pair makes the preference pairs.
func (p *planner) pair() {
	p.plan.pairs = map[int][]pairSide{}
	pairs := p.givenPairs()
	why := map[int]string{} // by row
	for _, g := range p.order {
		var rows []scoredRow
		for _, r := range g.scores {
			if p.plan.kept[r.index] {
				rows = append(rows, r)
			}
		}
		if len(rows) == 0 {
			continue
		}
		list, reason := p.options.Pairing.pairs(rows)
		if reason == "" {
			reason = "neither the best nor the worst of its prompt"
		}
		for _, r := range rows {
			why[r.index] = reason
		}
		pairs = append(pairs, list...)
	}
	numbers := make([]int, len(pairs))
	for i := range numbers {
		numbers[i] = i
	}
	n := p.options.Filter.Sample
	if n == 0 {
		n = len(numbers)
	}
	chosen := choose(numbers, n, p.options.Filter.Seed)
	for i, pair := range pairs {
		for side, row := range pair {
			if chosen[i] {
				p.plan.pairs[row] = append(p.plan.pairs[row], pairSide{i, side == 0})
			} else {
				why[row] = "not in the sample"
			}
		}
	}
	for i := range p.given {
		for _, row := range []int{p.given[i].chosen.index, p.given[i].rejected.index} {
			if p.plan.pairs[row] == nil {
				p.drop(row, why[row])
			}
		}
	}
	for _, g := range p.order {
		for _, r := range g.scores {
			if p.plan.pairs[r.index] == nil {
				p.drop(r.index, why[r.index])
			}
		}
	}
}

// collect notes which rows a group has.
func (p *planner) collect() {
	p.plan.members = map[int]*rowSet{}
	chosen := p.chosenGroups(func(*groupSeen) bool { return true })
	number := 0
	for _, g := range p.order {
		set := &rowSet{number: number}
		for _, row := range g.kept {
			if !chosen[g.number] {
				p.drop(row, "not in the sample")
				continue
			}
			if p.plan.kept[row] {
				set.size++
				p.plan.members[row] = set
			}
		}
		if set.size > 0 {
			number++
		}
	}
}

// registry is every tool that any row was offered, or the run's own.
func (p *planner) registry() *chat.Toolset {
	if p.options.registry != nil {
		return p.options.registry
	}
	names := make([]string, 0, len(p.byName))
	for name := range p.byName {
		names = append(names, name)
	}
	sort.Strings(names)
	definitions := make([]json.RawMessage, 0, len(names))
	for _, name := range names {
		if d := p.byName[name]; d != nil {
			definitions = append(definitions, d)
		}
	}
	return toolset(definitions, names)
}

// errNothing: no row is left.
var errNothing = errors.New("nothing is left to write")

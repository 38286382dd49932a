package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/atif"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

// finishedRow is one row ready to be written.
type finishedRow struct {
	index    int
	row      *Row      // where rows have to be put together
	values   table.Row // of a tabular format
	line     []byte    // of any other
	split    bool      // belongs to the second split
	losses   losses    // of its conversation
	members  []string  // of the record, lost
	madeUp   []string  // of the record
	repaired int       // calls whose arguments were replaced
	err      error
}

// writer is the second reading: it writes the rows that the plan keeps.
type writer struct {
	options  *Options
	out      *output
	plan     *plan
	report   *Report
	builder  *builder
	consumer *consumerRows // of a conversion for a consumer
	target   Description
	shards   []*table.Shards // by split
	lost     tally
	madeUp   tally

	pairs  map[int]*Row       // waiting for their other side, by pair
	groups map[*rowSet][]*Row // waiting for the others
	names  map[string]int     // of ATIF documents
	files  []reportFile
}

func newWriter(o *Options, out *output, p *plan, report *Report, text *textWriter) (*writer, error) {
	w := &writer{options: o, out: out, plan: p, report: report, target: describe(o.To), lost: tally{}, madeUp: tally{},
		pairs: map[int]*Row{}, groups: map[*rowSet][]*Row{}, names: map[string]int{}}
	f := p.features
	if o.Encoding == table.Parquet {
		f = f.all()
	}
	if o.To == ShareGPT || o.To == ShareGPTPublished {
		f.score, f.toolsets = true, true
	}
	w.builder = newBuilder(o.To, f, p.registry, text, o.omit)
	if o.For != "" {
		w.consumer = &consumerRows{consumer: o.For, text: text, features: p.features}
		w.builder.schema = nil
		if o.Encoding == table.Parquet {
			w.builder.schema = flatSchema()
		}
		w.target.everyone, w.target.Carries = false, describe(OpenAI).Carries
	}
	if o.To == ATIF {
		return w, nil
	}
	names := []string{"train"}
	if o.SplitCompleted {
		names = []string{"completed", "failed"}
	}
	if o.InvalidArguments == ApartInvalid {
		names = []string{"train", invalidSplit}
	}
	dir, single := filepath.Join(out.dir, "data"), ""
	if out.single {
		dir, single = out.dir, filepath.Base(out.path)
	} else if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	shard := o.ShardBytes
	if shard == 0 {
		shard = DefaultShardBytes
	}
	if single != "" {
		shard = 0
	}
	for _, name := range names {
		s, err := table.NewShards(table.Target{Dir: dir, Name: name, Encoding: o.Encoding, Schema: w.builder.schema, CreatedBy: "hermes-env " + o.Version, ShardBytes: max(0, shard), Single: single})
		if err != nil {
			return nil, err
		}
		w.shards = append(w.shards, s)
	}
	return w, nil
}

func (w *writer) run(ctx context.Context, files []string, d *decoder, progress *atomic.Int64) error {
	err := eachParallel(ctx, files, progress, func(file string, ordinal int, r record) []finishedRow {
		return w.work(d, file, ordinal, r)
	}, func(rows []finishedRow) error {
		for i := range rows {
			if err := w.put(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && w.report.Written == 0 && w.options.To == Preference && len(w.pairs) == 0 {
		err = fmt.Errorf("%w: %w: %s", ErrUsage, errNothing, countsText(w.lost.list()))
	}
	if err == nil && (len(w.pairs) > 0 || len(w.groups) > 0) {
		err = errors.New("the input changed while it was read: rows seen before are gone")
	}
	if err != nil {
		for _, s := range w.shards {
			err = errors.Join(err, s.Abort())
		}
		return err
	}
	return w.finish()
}

// work makes what is to be written of a record; it runs on every processor.
func (w *writer) work(d *decoder, file string, ordinal int, r record) []finishedRow {
	if ordinal >= len(w.plan.first) {
		return nil // added since the first reading
	}
	first, end := int(w.plan.first[ordinal]), len(w.plan.kept)
	if ordinal+1 < len(w.plan.first) {
		end = int(w.plan.first[ordinal+1])
	}
	wanted := false
	for _, kept := range w.plan.kept[first:end] {
		wanted = wanted || kept
	}
	if !wanted {
		return nil
	}
	_, rows, err := d.decode(file, r)
	if err != nil || len(rows) != end-first {
		return []finishedRow{{err: fmt.Errorf("%s:%d changed while it was read", file, r.number)}}
	}
	var list []finishedRow
	for i, row := range rows {
		if w.plan.kept[first+i] {
			list = append(list, w.prepare(row, first+i))
		}
	}
	return list
}

func (w *writer) prepare(r *Row, index int) finishedRow {
	if n, ok := w.plan.attempts[index]; ok {
		r.Attempt = n
	}
	if n, ok := w.plan.numbers[index]; ok {
		r.Group = n
	}
	f := finishedRow{index: index, split: w.options.SplitCompleted && !r.FinishedNaturally}
	switch w.options.InvalidArguments {
	case ApartInvalid:
		f.split = invalidCalls(r.Messages) > 0
	case RepairInvalid:
		f.repaired, f.err = repairArguments(r.Messages)
		if f.err != nil {
			return f
		}
	}
	for _, m := range members() {
		if r.madeUp(m.name) {
			if w.target.carries(m.name) {
				f.madeUp = append(f.madeUp, m.name)
			}
		} else if m.has(r) && !(w.target.carries(m.name) && (r.Exact || !w.wholeTokens() || !tokenMember(m.name))) {
			f.members = append(f.members, m.name)
		}
	}
	for _, what := range r.Lost {
		if what == lossSurrogates && w.keepsBytes() {
			continue
		}
		f.losses.add(what, 1)
	}
	var more losses
	switch {
	case w.consumer == nil || w.options.To == Preference:
	case w.options.To == KTO:
		right, _ := w.options.Pairing.label(r)
		f.line, more = w.consumer.ktoLine(r, right)
		f.losses = append(f.losses, more...)
		return f
	case w.options.Encoding == table.Parquet:
		f.values, more, f.err = w.consumer.row(r)
		f.losses = append(f.losses, more...)
		return f
	default:
		f.line, more, f.err = w.consumer.line(r)
		f.losses = append(f.losses, more...)
		return f
	}
	switch w.options.To {
	case Preference, Groups, ATIF:
		f.row = r
	case Rollouts:
		f.line, f.err = trajectories.AppendRollout(nil, r.Rollout)
	case OpenAI:
		f.line = openAILine(r)
	case ATIFLines:
		f.line, more, f.err = w.atifLine(r)
	default:
		f.values, more, f.err = w.builder.row(r)
	}
	f.losses = append(f.losses, more...)
	return f
}

// keepsBytes reports whether the target has the bytes of messages as they were.
func (w *writer) keepsBytes() bool {
	return w.consumer == nil && (w.options.To == OpenAI || w.options.To == Rollouts || w.options.To == Groups)
}

// wholeTokens says whether the target holds token sequences only as the record
// has them, with masks and log-probabilities.
func (w *writer) wholeTokens() bool {
	switch w.options.To {
	case Rollouts, ATIF, ATIFLines:
		return true
	}
	return false
}

func tokenMember(name string) bool {
	return name == "tokens" || name == "masks" || name == "logprobs"
}

// openAILine is a row as fine-tuning services take it.
func openAILine(r *Row) []byte {
	line := append([]byte(`{"messages":`), chat.AppendMessages(nil, r.Messages)...)
	if tools := toolsText(r); tools != "[]" {
		line = append(append(line, `,"tools":`...), tools...)
	}
	return append(line, '}')
}

// put writes a row, in the order of the input.
func (w *writer) put(f *finishedRow) error {
	if f.err != nil {
		return f.err
	}
	for _, l := range f.losses {
		w.lost.addLoss(l)
	}
	for _, m := range f.members {
		w.lost.add(m, 1, 1)
	}
	for _, m := range f.madeUp {
		w.madeUp.add(m, 1, 1)
	}
	if f.repaired > 0 {
		w.madeUp.add("arguments of tool calls that were not a JSON object", 1, int64(f.repaired))
	}
	switch w.options.To {
	case Preference:
		return w.putPair(f)
	case Groups:
		return w.putGroup(f)
	case ATIF:
		return w.putDocument(f.row)
	}
	shard := w.shards[0]
	if f.split {
		shard = w.shards[1]
	}
	w.report.Written++
	if f.values != nil {
		return shard.Write(f.values)
	}
	return shard.WriteLine(f.line)
}

// putPair writes the pairs of a row whose other side is there.
func (w *writer) putPair(f *finishedRow) error {
	for _, side := range w.plan.pairs[f.index] {
		other := w.pairs[side.pair]
		if other == nil {
			w.pairs[side.pair] = f.row
			continue
		}
		delete(w.pairs, side.pair)
		chosen, rejected := f.row, other
		if !side.chosen {
			chosen, rejected = other, f.row
		}
		if err := w.writePair(chosen, rejected); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) writePair(chosen, rejected *Row) error {
	prompt := commonPrompt(chosen.Messages, rejected.Messages)
	if prompt < 0 {
		w.report.Notes = appendOnce(w.report.Notes, "pairs were left out whose rollouts have different prompts, though the same item")
		w.lost.add("pairs whose prompts differ", 1, 1)
		return nil
	}
	if w.consumer == nil && sameSides(chosen.Messages, rejected.Messages) {
		w.lost.add(reasonSameSides, 1, 1)
		return nil
	}
	if w.consumer != nil {
		line, l, why, err := w.consumer.pairLine(chosen, rejected, prompt)
		if err != nil {
			return err
		}
		for _, one := range l {
			w.lost.addLoss(one)
		}
		if why != "" {
			w.lost.add(why, 1, 1)
			return nil
		}
		w.report.Written++
		return w.shards[0].WriteLine(line)
	}
	var l losses
	list := func(messages []chat.Message, f *features) table.Value {
		v, more := messageValues(messages, f)
		l = append(l, more...)
		return v
	}
	values := map[string]table.Value{
		"prompt": list(chosen.Messages[:prompt], &features{}), "chosen": list(chosen.Messages[prompt:], &w.builder.features), "rejected": list(rejected.Messages[prompt:], &w.builder.features),
		"score_chosen": optionalFloat(chosen.Score), "score_rejected": optionalFloat(rejected.Score),
		"item_id": table.Text(chosen.ItemID), "rollout_id_chosen": table.Text(chosen.ID), "rollout_id_rejected": table.Text(rejected.ID),
	}
	if chosen.Score != nil && rejected.Score != nil {
		values["margin"] = table.Float(*chosen.Score - *rejected.Score)
	}
	if hasTools(chosen) {
		values["tools"] = table.Text(toolsText(chosen))
	}
	for _, one := range l {
		w.lost.addLoss(one)
	}
	w.report.Written++
	return w.shards[0].Write(w.builder.fill(values))
}

// commonPrompt is the number of messages before the first one that the model
// wrote, -1 when they differ.
func commonPrompt(a, b []chat.Message) int {
	for i := 0; ; i++ {
		if i >= len(a) || i >= len(b) {
			return i
		}
		if a[i].Role() == chat.RoleAssistant || b[i].Role() == chat.RoleAssistant {
			if a[i].Role() != b[i].Role() {
				return -1
			}
			return i
		}
		if a[i].Role() != b[i].Role() || string(a[i].JSON()) != string(b[i].JSON()) {
			return -1
		}
	}
}

func appendOnce(list []string, text string) []string {
	for _, have := range list {
		if have == text {
			return list
		}
	}
	return append(list, text)
}

// putGroup writes a group once all of its rows are there.
func (w *writer) putGroup(f *finishedRow) error {
	set := w.plan.members[f.index]
	w.groups[set] = append(w.groups[set], f.row)
	if len(w.groups[set]) < set.size {
		return nil
	}
	rows := w.groups[set]
	delete(w.groups, set)
	g := trajectories.Group{Step: set.number}
	sampled := true // all sequences of a group have log-probabilities or none
	for _, r := range rows {
		sampled = sampled && r.Tokens != nil && len(r.Masks) == len(r.Tokens) && len(r.Logprobs) == len(r.Tokens)
	}
	for _, r := range rows {
		s := trajectories.Sequence{Score: *r.Score, Messages: r.Messages}
		if r.Tokens != nil && len(r.Masks) == len(r.Tokens) {
			s.Tokens, s.Masks = narrow(r.Tokens), narrow(r.Masks)
			if sampled {
				s.Logprobs = r.Logprobs
			} else if r.Logprobs != nil {
				w.lost.add("logprobs (not all rollouts of the group have them)", 1, 1)
			}
		} else {
			w.madeUp.add("tokens and masks (placeholders that must not be trained on)", 1, 1)
		}
		g.Sequences = append(g.Sequences, s)
	}
	line, err := trajectories.AppendGroup(nil, g, true)
	if err != nil {
		return err
	}
	w.report.Written++
	return w.shards[0].WriteLine(line)
}

func narrow(list []int64) []int {
	out := make([]int, len(list))
	for i, n := range list {
		out[i] = int(n)
	}
	return out
}

func (w *writer) atifConfig(r *Row) atif.Config {
	c := atif.Config{AgentVersion: w.options.Version}
	if r.Tools != nil {
		c.ToolDefinitions = joinJSON(r.Tools)
	}
	return c
}

// atifLosses are what a document could not carry, and what it would say otherwise
// when it is read back.
func atifLosses(r *Row, doc *atif.Trajectory, list []atif.Loss) (l losses) {
	for _, one := range list {
		l.add(one.What, one.Count)
	}
	back, err := doc.Messages()
	if err != nil {
		back = nil
	}
	every := map[string]bool{}
	for _, m := range r.Messages {
		for _, c := range m.ToolCalls() {
			every[c.ID] = true
		}
	}
	l.add("messages that read differently afterwards (ids, images)", differences(r.Messages, back, every))
	return l
}

func (w *writer) atifLine(r *Row) ([]byte, losses, error) {
	doc, lost, err := atif.FromRollout(r.Rollout, w.atifConfig(r))
	if err != nil {
		return nil, nil, err
	}
	line, err := chat.Marshal(doc)
	return line, atifLosses(r, doc, lost), err
}

// putDocument writes the ATIF document of a rollout, and its images beside it.
func (w *writer) putDocument(r *Row) error {
	name := fileName(r.ID)
	if n := w.names[name]; n > 0 {
		name = fmt.Sprintf("%s-%d", name, n+1)
	}
	w.names[fileName(r.ID)]++
	c := w.atifConfig(r)
	c.SaveImage = func(image, _ string, data []byte) (string, error) {
		path := filepath.Join(name+"_images", image)
		if err := os.MkdirAll(filepath.Join(w.out.dir, filepath.Dir(path)), 0o755); err != nil {
			return "", err
		}
		return filepath.ToSlash(path), os.WriteFile(filepath.Join(w.out.dir, path), data, 0o644)
	}
	doc, lost, err := atif.FromRollout(r.Rollout, c)
	if err != nil {
		return err
	}
	for _, l := range atifLosses(r, doc, lost) {
		w.lost.addLoss(l)
	}
	raw, err := doc.JSON()
	if err != nil {
		return err
	}
	w.report.Written++
	w.files = append(w.files, reportFile{Name: name + ".json", Rows: 1, Bytes: int64(len(raw))})
	return os.WriteFile(filepath.Join(w.out.dir, name+".json"), raw, 0o644)
}

// fileName reduces an id to what is safe as the name of a file.
func fileName(id string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, id)
	return name[:min(len(name), 100)]
}

// finish closes the files and writes the card and the report.
func (w *writer) finish() error {
	r := w.report
	for _, s := range w.shards {
		split, err := s.Close()
		if err != nil {
			return err
		}
		for _, f := range split.Files {
			name := f.Name
			if !w.out.single {
				name = "data/" + name
			}
			w.files = append(w.files, reportFile{name, f.Rows, f.Size})
		}
		split.Paths = "data/" + split.Name + "-*"
		r.Splits = append(r.Splits, split)
	}
	sort.SliceStable(w.files, func(i, j int) bool { return w.files[i].Name < w.files[j].Name })
	r.Files, r.Lost, r.MadeUp = w.files, w.lost.list(), w.madeUp.list()
	if r.Files == nil {
		r.Files = []reportFile{}
	}
	raw, err := r.JSON()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(w.out.dir, ReportFile), raw, 0o644); err != nil {
		return err
	}
	if w.out.single || w.options.To == ATIF {
		return nil
	}
	companions, err := w.options.For.companions(filepath.Base(w.out.path))
	if err != nil {
		return err
	}
	for name, content := range companions {
		if err := os.WriteFile(filepath.Join(w.out.dir, name), content, 0o644); err != nil {
			return err
		}
	}
	card := w.card()
	return os.WriteFile(filepath.Join(w.out.dir, "README.md"), []byte(card.Text()), 0o644)
}

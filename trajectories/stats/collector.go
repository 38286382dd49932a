package stats

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories"
)

// Config says how to describe.
type Config struct {
	// Prices in USD per million tokens, for the tokens of the agent; all zero takes the
	// cost that rows were recorded with. A zero CachedPrice charges cached prompt tokens
	// like the others.
	PromptPrice, CompletionPrice, CachedPrice float64
	// KnownTools are the names of the run's tools; calls of others are marked. nil: unknown.
	KnownTools []string
	// Top is how many slow, expensive and tampered rows to name, 10 when 0.
	Top int
	// Tampered chooses the rows to describe by whether the agent tampered with the
	// verification; "" takes all.
	Tampered trajectories.TamperedFilter
}

// maxTracked bounds what is remembered per row to find duplicates and items: a
// few dozen bytes each. Further rows are counted, but not compared.
const maxTracked = 5_000_000

// maxProblems is how many broken lines are named.
const maxProblems = 20

// row is what every format of a row is reduced to.
type row struct {
	format           string
	id, item         string
	attempt          int
	outcome          string
	score            *float64
	passed           *bool
	errorClass, stop string
	finishes         []string
	model            string
	turns            int
	tokens           bool // token counts are known
	prompt, cached   int64
	completion       int64
	seconds          float64
	time             Time
	tools            map[string]trajectories.ToolStat
	assistants       int
	reasoned         int
	characters       int
	promptHash       uint64
	wholeHash        uint64
	finished         time.Time
	spend            *trajectories.Spend // nil where a row does not tell
	tampering        []trajectories.Tampering
	metadata         gjson.Result
}

// Collector gathers rows. It is not safe for concurrent use.
type Collector struct {
	config   Config
	known    map[string]bool
	result   Result
	formats  counter
	outcomes counter
	errors   counter
	stops    counter
	finishes counter
	models   counter
	groups   map[[2]string]*GroupedScore
	sums     map[[2]string]float64
	tools    map[string]*Tool
	items    map[uint64]*itemScore
	prompts  map[uint64]uint64 // of the first user message: the item it came with
	wholes   map[uint64]struct{}
	line     timeline
	cost     Cost
	paid     int // rows whose cost is known, and that used something
	tampered tamperings
	limits   testLimits

	score, turns, calls, prompt, completion, characters, seconds numbers
	slowest, expensive, dearest                                  leaders // expensive by tokens, dearest by cost
}

type itemScore struct {
	n   int
	sum float64
}

// New returns an empty collector.
func New(config Config) *Collector {
	if config.Top == 0 {
		config.Top = 10
	}
	c := &Collector{
		config: config, formats: counter{}, outcomes: counter{}, errors: counter{}, stops: counter{}, finishes: counter{}, models: counter{},
		groups: map[[2]string]*GroupedScore{}, sums: map[[2]string]float64{}, tools: map[string]*Tool{}, items: map[uint64]*itemScore{},
		prompts: map[uint64]uint64{}, wholes: map[uint64]struct{}{}, tampered: newTamperings(config.Top), limits: newTestLimits(config.Top),
		slowest:   leaders{limit: config.Top, value: func(n Notable) float64 { return n.Seconds }},
		expensive: leaders{limit: config.Top, value: func(n Notable) float64 { return float64(n.Tokens) }},
		dearest:   leaders{limit: config.Top, value: func(n Notable) float64 { return n.USD }},
	}
	if config.KnownTools != nil {
		c.known = make(map[string]bool)
		for _, name := range config.KnownTools {
			c.known[name] = true
		}
	}
	return c
}

// Broken records a line that could not be read.
func (c *Collector) Broken(file string, line int, problem string) {
	c.result.Broken++
	if len(c.result.Problems) < maxProblems {
		c.result.Problems = append(c.result.Problems, BrokenLine{file, line, problem})
	}
}

// Rollout adds a recorded rollout.
func (c *Collector) Rollout(r *trajectories.Rollout) { c.add(fromRollout(r)) }

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

func (c *Collector) add(r row) {
	if !c.config.Tampered.Takes(trajectories.KindsOfTampering(r.tampering)) {
		c.result.Skipped++
		return
	}
	c.result.Rows++
	c.formats.add(r.format)
	for _, named := range []struct {
		counter counter
		name    string
	}{{c.outcomes, r.outcome}, {c.errors, r.errorClass}, {c.stops, r.stop}, {c.models, r.model}} {
		if named.name != "" {
			named.counter.add(named.name)
		}
	}
	for _, f := range r.finishes {
		c.finishes.add(f)
	}
	c.addScore(&r)
	c.addTools(&r)
	c.addDuplicates(&r)
	if r.turns > 0 || r.format == formatRollout {
		c.turns.add(float64(r.turns))
	}
	c.characters.add(float64(r.characters))
	if r.seconds > 0 {
		c.seconds.add(r.seconds)
	}
	t := &c.result.Time
	t.Model += r.time.Model
	t.Tools += r.time.Tools
	t.Sandbox += r.time.Sandbox
	t.Verify += r.time.Verify
	t.Harness += r.time.Harness
	c.result.Reasoning.Turns += r.assistants
	c.result.Reasoning.With += r.reasoned
	if r.assistants > 0 && r.reasoned == 0 {
		c.result.Reasoning.RowsWithout++
	}
	c.line.add(r.finished, r.completion)
	usd := c.addCost(&r)
	if r.tokens {
		c.prompt.add(float64(r.prompt))
		c.completion.add(float64(r.completion))
	}
	name := trajectories.ItemName(r.item, json.RawMessage(r.metadata.Raw))
	c.tampered.add(&r, name)
	c.limits.add(&r, name)
	n := Notable{Item: r.item, Name: name, Attempt: r.attempt, ID: r.id, Outcome: r.outcome, Score: r.score, Seconds: r.seconds, Tokens: r.prompt + r.completion, Turns: r.turns, USD: usd}
	c.slowest.add(n)
	c.expensive.add(n)
	c.dearest.add(n)
}

// addCost adds what a row cost, by the prices given or else as it was recorded, and
// returns it, 0 where it is not known.
func (c *Collector) addCost(r *row) float64 {
	if c.priced() {
		usd := c.agentCost(r)
		if r.tokens && r.prompt+r.completion > 0 {
			c.paid++
			c.cost.TotalUSD += usd
		}
		return usd
	}
	if r.spend == nil || r.spend.Calls() == 0 {
		if r.prompt+r.completion > 0 {
			c.cost.Unknown++
		}
		return 0
	}
	usd, known := r.spend.USD()
	if !known {
		c.cost.Unknown++
		return 0
	}
	c.paid++
	c.cost.TotalUSD += usd
	for _, part := range []struct {
		bill *trajectories.Bill
		sum  *float64
	}{{&r.spend.Judge, &c.cost.JudgeUSD}, {&r.spend.FailedTries, &c.cost.FailedTriesUSD}} {
		if part.bill.USD != nil {
			*part.sum += *part.bill.USD
		}
	}
	return usd
}

func (c *Collector) priced() bool { return c.config.PromptPrice != 0 || c.config.CompletionPrice != 0 }

// agentCost is what the agent's tokens cost at the prices given.
func (c *Collector) agentCost(r *row) float64 {
	cached := c.config.CachedPrice
	if cached == 0 {
		cached = c.config.PromptPrice
	}
	return (float64(r.prompt-r.cached)*c.config.PromptPrice + float64(r.cached)*cached + float64(r.completion)*c.config.CompletionPrice) / 1e6
}

func (c *Collector) addScore(r *row) {
	if r.passed != nil {
		c.result.Score.Judged++
		if *r.passed {
			c.result.Score.Passed++
		}
	}
	for _, kind := range []string{"category", "difficulty"} {
		name := r.metadata.Get(kind).String()
		if name == "" || len(c.groups) >= maxNames {
			continue
		}
		key := [2]string{kind, strings.Clone(name)}
		g := c.groups[key]
		if g == nil {
			g = &GroupedScore{Kind: kind, Name: key[1]}
			c.groups[key] = g
		}
		g.Rows++
		if r.score != nil {
			g.Scored++
			c.sums[key] += *r.score
		}
		if r.passed != nil && *r.passed {
			g.Passed++
		}
	}
	var item *itemScore
	if r.item != "" {
		h := hash(r.item)
		if item = c.items[h]; item == nil && len(c.items) < maxTracked {
			item = &itemScore{}
			c.items[h] = item
		}
	}
	if r.score == nil {
		return
	}
	c.score.add(*r.score)
	if item != nil {
		item.n++
		item.sum += *r.score
	}
}

func (c *Collector) addTools(r *row) {
	calls := 0
	for name, s := range r.tools {
		if s.Count == 0 && s.Success+s.Failure == 0 {
			continue
		}
		t := c.tools[name]
		if t == nil {
			if len(c.tools) >= maxNames {
				name = otherName
			}
			if t = c.tools[name]; t == nil {
				t = &Tool{Name: strings.Clone(name), Unknown: c.known != nil && !c.known[name]}
				c.tools[t.Name] = t
			}
		}
		calls += s.Count
		t.Calls += s.Count
		t.Success += s.Success
		t.Failure += s.Failure
		t.Rows++
	}
	if r.assistants > 0 {
		c.calls.add(float64(calls))
	}
}

func (c *Collector) addDuplicates(r *row) {
	if r.assistants > 0 {
		if _, seen := c.wholes[r.wholeHash]; seen {
			c.result.Duplicates.Conversations++
		} else if len(c.wholes) < maxTracked {
			c.wholes[r.wholeHash] = struct{}{}
		}
	}
	if r.promptHash == 0 {
		return
	}
	item := hash(r.item)
	if r.item == "" {
		item = uint64(c.result.Rows) // every row is an item of its own
	}
	if first, seen := c.prompts[r.promptHash]; seen {
		if first != item {
			c.result.Duplicates.Prompts++
		}
	} else if len(c.prompts) < maxTracked {
		c.prompts[r.promptHash] = item
	}
}

// Result describes the rows so far.
func (c *Collector) Result() *Result {
	r := c.result
	r.Formats, r.Outcomes, r.Errors, r.Stops, r.Finishes, r.Models = c.formats.list(), c.outcomes.list(), c.errors.list(), c.stops.list(), c.finishes.list(), c.models.list()
	r.Items, r.Tampering, r.TestLimits = len(c.items), c.tampered.result(), c.limits.result()
	r.Score.Distribution = c.score.distribution(10)
	r.Score.StdErr = c.standardError()
	r.Turns, r.ToolCalls = c.turns.distribution(12), c.calls.distribution(12)
	r.PromptTokens, r.CompletionTokens = c.prompt.distribution(12), c.completion.distribution(12)
	r.Characters, r.Seconds = c.characters.distribution(12), c.seconds.distribution(12)
	r.Throughput = c.line.result()
	r.Slowest, r.Expensive = c.slowest.list, c.expensive.list
	r.Tools = []Tool{}
	for _, t := range c.tools {
		r.Tools = append(r.Tools, *t)
	}
	sort.Slice(r.Tools, func(i, j int) bool {
		if r.Tools[i].Calls != r.Tools[j].Calls {
			return r.Tools[i].Calls > r.Tools[j].Calls
		}
		return r.Tools[i].Name < r.Tools[j].Name
	})
	r.Groups = []GroupedScore{}
	for key, g := range c.groups {
		copied := *g
		if g.Scored > 0 {
			mean := c.sums[key] / float64(g.Scored)
			copied.Mean = &mean
		}
		r.Groups = append(r.Groups, copied)
	}
	sort.Slice(r.Groups, func(i, j int) bool {
		if r.Groups[i].Kind != r.Groups[j].Kind {
			return r.Groups[i].Kind < r.Groups[j].Kind
		}
		return r.Groups[i].Name < r.Groups[j].Name
	})
	if c.priced() || c.cost.TotalUSD > 0 {
		cost := c.cost
		if c.paid > 0 {
			cost.MeanUSD = cost.TotalUSD / float64(c.paid)
		}
		if r.Score.Passed > 0 {
			cost.PerPassUSD = cost.TotalUSD / float64(r.Score.Passed)
		}
		r.Cost, r.Expensive = &cost, c.dearest.list
	}
	return &r
}

// standardError is the standard error of the mean score clustered by item, from
// the sums per item: SE² = C/(C−1) · Σ (s_c − n_c·mean)² / N².
func (c *Collector) standardError() *float64 {
	mean, clusters, n, squares := c.score.sum/float64(c.score.n), 0.0, 0, 0.0
	var parts []float64
	for _, item := range c.items {
		if item.n == 0 {
			continue
		}
		clusters++
		n += item.n
		residual := item.sum - float64(item.n)*mean
		parts = append(parts, residual*residual)
	}
	if clusters < 2 || n != c.score.n {
		return nil
	}
	sort.Float64s(parts) // a fixed order of summation gives the same digits every time
	for _, p := range parts {
		squares += p
	}
	se := math.Sqrt(clusters/(clusters-1)*squares) / float64(n)
	return &se
}

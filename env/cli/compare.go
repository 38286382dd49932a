package cli

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/compare"
	"github.com/hermes-env/hermes-env/trajectories/report"
)

type compareCommand struct {
	A     string `arg:"" name:"run-a" help:"Run directory to compare with."`
	B     string `arg:"" name:"run-b" help:"Run directory whose gain or loss is shown."`
	JSON  bool   `name:"json" help:"Print JSON instead of a table."`
	Items int    `name:"items" default:"10" help:"Most items to list of each kind; --json has all."`
	tamperedFlag
	FailIfWorse bool `name:"fail-if-worse" help:"End with exit code 1 when the 95 % interval of the difference lies below 0."`
}

// comparison is what compare prints as JSON.
type comparison struct {
	A        comparedRun `json:"a"`
	B        comparedRun `json:"b"`
	Warnings []string    `json:"warnings"`
	Compared []string    `json:"settings_compared"` // differences in model, server and agent
	Settings []string    `json:"settings_other"`    // differences in anything else
	Verdict  string      `json:"verdict"`

	TamperedA comparedTampering `json:"tampered_a"`
	TamperedB comparedTampering `json:"tampered_b"`
	*compare.Result
}

type comparedRun struct {
	Dir         string `json:"dir"`
	Environment string `json:"environment"`
	Model       string `json:"model"`
	Command     string `json:"command"`
}

// Run compares two runs.
func (c *compareCommand) Run(s *session) error {
	if c.Items < 0 {
		return fail(ExitUsage, fmt.Errorf("--items is %d: want a number from 0", c.Items))
	}
	a, err := openStored(c.A)
	if err != nil {
		return err
	}
	b, err := openStored(c.B)
	if err != nil {
		return err
	}
	if a.manifest.Environment != b.manifest.Environment {
		return fail(ExitUsage, fmt.Errorf("the runs can't be compared: %s is of environment %s and %s of %s", c.A, a.manifest.Environment, c.B, b.manifest.Environment))
	}
	filter, err := c.filter()
	if err != nil {
		return fail(ExitUsage, err)
	}
	sideA, tamperedA, err := a.side(s, filter)
	if err != nil {
		return fail(ExitUsage, err)
	}
	sideB, tamperedB, err := b.side(s, filter)
	if err != nil {
		return fail(ExitUsage, err)
	}
	result, err := compare.Compare(sideA, sideB)
	if err != nil {
		return fail(ExitUsage, fmt.Errorf("the runs can't be compared: %w%s", err, whyNoPairs(result)))
	}
	out := &comparison{A: a.compared(), B: b.compared(), Warnings: compareWarnings(a, b, result), TamperedA: tamperedA, TamperedB: tamperedB, Result: result}
	out.Warnings = append(out.Warnings, tamperedWarnings(filter, tamperedA, tamperedB)...)
	out.Compared, out.Settings = settingsApart(a.manifest, b.manifest)
	out.Verdict = verdict(result)
	if c.JSON {
		line, err := chat.Marshal(out)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.app.Stdout, "%s\n", line); err != nil {
			return err
		}
	} else {
		p := comparePrinter{color: useColor(s.app.Stdout, s.app.Getenv), items: c.Items}
		if _, err := fmt.Fprint(s.app.Stdout, p.page(out)); err != nil {
			return err
		}
	}
	if c.FailIfWorse && result.Paired.High != nil && *result.Paired.High < 0 {
		return fail(ExitBelow, errors.New(out.Verdict))
	}
	return nil
}

// side reads the rollouts of a run that a filter takes, and counts by all of them whose
// agent tampered with the verification and which are left out.
func (s *storedRun) side(session *session, filter trajectories.TamperedFilter) (*compare.Side, comparedTampering, error) {
	side := compare.NewSide()
	var t comparedTampering
	err := s.EachEntry(func(e trajectories.Entry) error {
		if e.Tampered() {
			t.Rollouts++
		}
		if filter.Takes(e.Tampering) {
			side.Add(e)
		} else {
			t.LeftOut++
		}
		return session.ctx.Err()
	})
	return side, t, err
}

// comparedTampering counts rollouts of one run.
type comparedTampering struct {
	Rollouts int `json:"rollouts"` // whose agent tampered with the verification
	LeftOut  int `json:"left_out"` // by --tampered
}

func tamperedWarnings(filter trajectories.TamperedFilter, a, b comparedTampering) []string {
	switch {
	case filter != trajectories.TamperedInclude:
		return []string{fmt.Sprintf("only some rollouts are compared (--tampered %s): %d of A and %d of B are left out", filter, a.LeftOut, b.LeftOut)}
	case a.Rollouts+b.Rollouts > 0:
		return []string{fmt.Sprintf("the agent tampered with the verification in %s of A and %d of B, which count as they are scored; --tampered exclude leaves them out", count(a.Rollouts, "rollout"), b.Rollouts)}
	}
	return nil
}

func (s *storedRun) compared() comparedRun {
	return comparedRun{Dir: s.Dir(), Environment: s.manifest.Environment, Model: s.model(), Command: s.manifest.Command}
}

func whyNoPairs(r *compare.Result) string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d items %s", n, what))
		}
	}
	add(len(r.OnlyA), "are only in the first")
	add(len(r.OnlyB), "are only in the second")
	add(len(r.Changed), "have other contents in the two")
	add(len(r.UnscoredA), "have no score in the first")
	add(len(r.UnscoredB), "have no score in the second")
	if len(parts) == 0 {
		return " (nothing was attempted)"
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// settingsApart lists the settings that differ: those a comparison is usually
// about, and the others.
func settingsApart(a, b trajectories.Manifest) (compared, other []string) {
	compared, other = []string{}, []string{}
	for _, line := range trajectories.DiffConfigs(a.Config, b.Config) {
		if strings.HasPrefix(line, "openai.") || strings.HasPrefix(line, "openai:") || strings.HasPrefix(line, "agent:") {
			compared = append(compared, line)
		} else {
			other = append(other, line)
		}
	}
	return compared, other
}

func compareWarnings(a, b *storedRun, r *compare.Result) []string {
	list := []string{}
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for name, run := range map[string]*storedRun{"A": a, "B": b} {
		if run.manifest.Status != trajectories.StatusDone {
			add("run %s is not complete (%s)", name, run.manifest.Status)
		}
		for _, reason := range run.manifest.Deviations {
			add("run %s departs from the published protocol: %s", name, reason)
		}
		for _, change := range run.manifest.ConfigHistory {
			add("run %s is mixed from several configurations: %s", name, change.Sentence())
		}
	}
	sort.Strings(list)
	m, n := a.manifest, b.manifest
	if m.DatasetDigest != n.DatasetDigest {
		add("the datasets differ: %s and %s", orUnknown(m.DatasetDigest), orUnknown(n.DatasetDigest))
	}
	if m.Command != n.Command {
		add("A is a run of %s, B of %s", m.Command, n.Command)
	}
	if m.Versions.HermesEnv != n.Versions.HermesEnv {
		add("made by different versions: %s and %s", m.Versions.HermesEnv, n.Versions.HermesEnv)
	}
	if k := len(r.Changed); k > 0 {
		add("%d items have other contents in the two runs and are not compared: %s", k, some(r.Changed, 5))
	}
	if k := len(r.OnlyA) + len(r.OnlyB); k > 0 {
		add("%d items were attempted only in A and %d only in B; they are not compared", len(r.OnlyA), len(r.OnlyB))
	}
	if k := len(r.UnscoredA) + len(r.UnscoredB); k > 0 {
		add("%d items have no score in A and %d none in B; they count only in the second line of the table", len(r.UnscoredA), len(r.UnscoredB))
	}
	return list
}

func orUnknown(digest string) string {
	if digest == "" {
		return "unknown"
	}
	return digest
}

func some(names []string, n int) string {
	shown := make([]string, 0, n)
	for _, name := range names[:min(n, len(names))] {
		shown = append(shown, report.OneLine(name, 60))
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - n; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// verdict says in a sentence what the comparison shows.
func verdict(r *compare.Result) string {
	d := r.Paired
	if d.Low == nil {
		return fmt.Sprintf("B − A is %+.3f on a single item: that shows nothing", d.Mean)
	}
	interval := fmt.Sprintf("B − A = %+.3f, 95 %% interval %+.3f to %+.3f", d.Mean, *d.Low, *d.High)
	switch {
	case *d.StdErr == 0 && d.Mean == 0:
		return "no difference: the same mean score on each of the " + fmt.Sprint(d.Items) + " items"
	case *d.Low > 0:
		return "B is better: " + interval
	case *d.High < 0:
		return "B is worse: " + interval
	}
	return "no difference can be shown: " + interval
}

// comparePrinter lays out a comparison for a terminal.
type comparePrinter struct {
	color bool
	items int
	b     strings.Builder
}

func (p *comparePrinter) bold(s string) string {
	if !p.color {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}

func (p *comparePrinter) page(c *comparison) string {
	fmt.Fprintf(&p.b, "%s\n", p.bold(c.A.Environment+" · paired by item"))
	fmt.Fprintf(&p.b, "  A  %s (%s)\n  B  %s (%s)\n", c.A.Dir, report.OneLine(c.A.Model, 80), c.B.Dir, report.OneLine(c.B.Model, 80))
	fmt.Fprintf(&p.b, "\n  %-30s  %6s  %7s  %7s  %8s  %7s  %18s  %7s\n", "", "items", "A", "B", "B − A", "±SE", "95 % interval", "p")
	p.difference("scored in both runs", c.Paired)
	p.difference("every unscored rollout as 0", c.UnscoredAsZero)
	fmt.Fprintf(&p.b, "\n  rollouts        A %d attempted, %d scored · B %d attempted, %d scored\n", c.RolloutsA.Attempted, c.RolloutsA.Scored, c.RolloutsB.Attempted, c.RolloutsB.Scored)
	fmt.Fprintf(&p.b, "  sign test       B better on %d items, worse on %d, equal on %d: p = %.3g (exact)\n", c.Sign.Better, c.Sign.Worse, c.Sign.Ties, c.Sign.P)
	if m := c.McNemar; m != nil {
		fmt.Fprintf(&p.b, "  McNemar         both pass %d, only A %d, only B %d, both fail %d: p = %.3g (exact)\n", m.BothPass, m.OnlyA, m.OnlyB, m.BothFail, m.P)
	}
	fmt.Fprintf(&p.b, "\n  %s\n", p.bold(c.Verdict))
	p.flips("passed in most attempts of A, not of B", c.Lost, c.Items)
	p.flips("passed in most attempts of B, not of A", c.Gained, c.Items)
	p.list("settings compared", c.Compared)
	p.list("other settings that differ", c.Settings)
	if len(c.Warnings) > 0 {
		fmt.Fprintf(&p.b, "\n%s\n", p.bold("careful"))
		for _, w := range c.Warnings {
			fmt.Fprintf(&p.b, "  %s\n", w)
		}
	}
	return p.b.String()
}

func (p *comparePrinter) difference(label string, d compare.Difference) {
	se, interval, probability := "–", "–", "–"
	if d.StdErr != nil {
		se, interval = fmt.Sprintf("%.3f", *d.StdErr), fmt.Sprintf("%+.3f … %+.3f", *d.Low, *d.High)
	}
	if d.P != nil {
		probability = fmt.Sprintf("%.3g", *d.P)
	}
	fmt.Fprintf(&p.b, "  %-30s  %6d  %7.3f  %7.3f  %+8.3f  %s  %s  %s\n", label, d.Items, d.MeanA, d.MeanB, d.Mean, right(se, 7), right(interval, 18), right(probability, 7))
}

// right pads a text that may hold characters of several bytes.
func right(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}

func (p *comparePrinter) flips(title string, ids []string, items []compare.Item) {
	if len(ids) == 0 {
		return
	}
	fmt.Fprintf(&p.b, "\n%s\n", p.bold(fmt.Sprintf("%s: %d", title, len(ids))))
	byID := make(map[string]compare.Item, len(items))
	for _, it := range items {
		byID[it.ID] = it
	}
	for _, id := range ids[:min(p.items, len(ids))] {
		it := byID[id]
		name := report.OneLine(trajectories.ShortItemID(id), 50)
		fmt.Fprintf(&p.b, "  %s%s  %.2f (%d) → %.2f (%d)\n", name, strings.Repeat(" ", 50-utf8.RuneCountInString(name)), it.MeanA, it.ScoredA, it.MeanB, it.ScoredB)
	}
	if more := len(ids) - p.items; more > 0 {
		fmt.Fprintf(&p.b, "  and %d more (--items, --json)\n", more)
	}
}

func (p *comparePrinter) list(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(&p.b, "\n%s\n", p.bold(title))
	const limit = 20
	for _, line := range lines[:min(limit, len(lines))] {
		fmt.Fprintf(&p.b, "  %s\n", report.OneLine(line, 160))
	}
	if more := len(lines) - limit; more > 0 {
		fmt.Fprintf(&p.b, "  and %d more\n", more)
	}
}

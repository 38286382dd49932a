package cli

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/report"
	"github.com/hermes-env/hermes-env/trajectories/stats"
)

// statsPrinter lays out statistics for a terminal of 80 to 100 columns.
type statsPrinter struct {
	color bool
	b     strings.Builder
}

const (
	statsBars  = 28 // columns of the longest bar
	statsNames = 12 // lines of a list
)

func (p *statsPrinter) bold(s string) string {
	if !p.color {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}

func (p *statsPrinter) title(s string) { fmt.Fprintf(&p.b, "\n%s\n", p.bold(s)) }

func (p *statsPrinter) line(label, format string, args ...any) {
	fmt.Fprintf(&p.b, "  %-12s %s\n", label, fmt.Sprintf(format, args...))
}

// page returns the whole text.
func (p *statsPrinter) page(source, subtitle string, r *stats.Result) string {
	fmt.Fprintf(&p.b, "%s\n", p.bold(report.OneLine(source, 200)))
	if subtitle != "" {
		fmt.Fprintf(&p.b, "%s\n", report.OneLine(subtitle, 200))
	}
	p.overview(r)
	p.counts("outcomes", r.Outcomes)
	p.tampering(r.Tampering)
	p.counts("groups left out", r.DroppedGroups)
	p.counts("rollouts left out of groups", r.LeftOut)
	p.histogram("score", r.Score.Distribution)
	p.groups(r.Groups)
	p.spreads(r)
	p.tools(r.Tools)
	p.quality(r)
	p.counts("errors", r.Errors)
	p.counts("why the agent stopped", r.Stops)
	p.throughput(r.Throughput)
	p.notables("slowest", r.Slowest)
	p.notables("most expensive", r.Expensive)
	p.broken(r)
	return p.b.String()
}

func (p *statsPrinter) overview(r *stats.Result) {
	p.b.WriteString("\n")
	for _, change := range r.Mixed {
		p.line("mixed", "%s", report.OneLine(change, 400))
	}
	rows := trajectories.Thousands(int64(r.Rows))
	if r.Items > 0 {
		rows += fmt.Sprintf(" of %s items", trajectories.Thousands(int64(r.Items)))
	}
	if r.Skipped > 0 {
		rows += fmt.Sprintf("; %s left out (--tampered)", trajectories.Thousands(int64(r.Skipped)))
	}
	p.line("rows", "%s", rows)
	if s := r.Score; s.N > 0 {
		text := fmt.Sprintf("%.3f", s.Mean)
		if s.StdErr != nil {
			text += fmt.Sprintf(" ± %.3f (standard error clustered by item)", *s.StdErr)
		}
		p.line("mean score", "%s over %s scored rows", text, trajectories.Thousands(int64(s.N)))
		if s.Judged > 0 {
			p.line("passed", "%s of %s (%s)", trajectories.Thousands(int64(s.Passed)), trajectories.Thousands(int64(s.Judged)), report.Percent(s.Passed, s.Judged))
		}
	}
	if t := r.Tampering; t.Found() {
		var parts []string
		if t.Rows > 0 {
			parts = append(parts, fmt.Sprintf("%s of %s: %s", count(t.Rows, "row"), count(t.Items, "item"), countsText(t.Kinds)))
		}
		if t.Noted > 0 {
			parts = append(parts, fmt.Sprintf("noted without effect in %d: %s", t.Noted, countsText(t.NotedKinds)))
		}
		p.line("tampering", "%s", strings.Join(parts, "; "))
	}
	if r.CompletionTokens.N > 0 {
		p.line("tokens", "%s prompt + %s completion", trajectories.Thousands(int64(r.PromptTokens.Sum)), trajectories.Thousands(int64(r.CompletionTokens.Sum)))
	}
	if r.Cost != nil {
		text := fmt.Sprintf("%s, %s per row", trajectories.Dollars(r.Cost.TotalUSD), trajectories.Dollars(r.Cost.MeanUSD))
		if r.Cost.PerPassUSD > 0 {
			text += fmt.Sprintf(", %s per passed row", trajectories.Dollars(r.Cost.PerPassUSD))
		}
		for _, part := range []struct {
			usd  float64
			what string
		}{{r.Cost.JudgeUSD, "for judging"}, {r.Cost.FailedTriesUSD, "for tries that failed"}} {
			if part.usd > 0 {
				text += fmt.Sprintf("; %s of it %s", trajectories.Dollars(part.usd), part.what)
			}
		}
		if r.Cost.Unknown > 0 {
			text += fmt.Sprintf("; what %s cost is not known", count(r.Cost.Unknown, "row"))
		}
		p.line("cost", "%s", text)
	}
	t := r.Time
	if all := t.Model + t.Tools + t.Sandbox + t.Verify + t.Harness; all > 0 {
		share := func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v/all) }
		p.line("time", "model %s · tools %s · sandbox %s · verifier %s · harness %s", share(t.Model), share(t.Tools), share(t.Sandbox), share(t.Verify), share(t.Harness))
	}
}

// bar draws a share of the longest bar in eighths of a column.
func bar(value, most float64) string {
	if most <= 0 || value <= 0 {
		return ""
	}
	eighths := int(math.Max(1, math.Round(value/most*statsBars*8)))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return text
}

func (p *statsPrinter) counts(title string, counts []stats.Count) {
	if len(counts) == 0 {
		return
	}
	p.title(title)
	width, most, total := 0, 0, 0
	for _, c := range counts {
		total += c.Count
		most = max(most, c.Count)
	}
	shown := counts[:min(statsNames, len(counts))]
	for _, c := range shown {
		width = max(width, utf8.RuneCountInString(report.OneLine(c.Name, 40)))
	}
	for _, c := range shown {
		name := report.OneLine(c.Name, 40)
		fmt.Fprintf(&p.b, "  %s%s  %9s  %7s  %s\n", name, strings.Repeat(" ", width-utf8.RuneCountInString(name)), trajectories.Thousands(int64(c.Count)), report.Percent(c.Count, total), bar(float64(c.Count), float64(most)))
	}
	if more := len(counts) - len(shown); more > 0 {
		fmt.Fprintf(&p.b, "  and %d more\n", more)
	}
}

func (p *statsPrinter) histogram(title string, d stats.Distribution) {
	if d.N == 0 || len(d.Histogram) < 2 {
		return
	}
	p.title(title)
	most := 0
	for _, h := range d.Histogram {
		most = max(most, h.Count)
	}
	for i, h := range d.Histogram {
		end := "<"
		if i == len(d.Histogram)-1 {
			end = "≤"
		}
		label := fmt.Sprintf("%s … %s %s", report.Short(h.From), end, report.Short(h.To))
		p.b.WriteString(strings.TrimRight(fmt.Sprintf("  %-16s  %9s  %s", label, trajectories.Thousands(int64(h.Count)), bar(float64(h.Count), float64(most))), " ") + "\n")
	}
}

func (p *statsPrinter) groups(groups []stats.GroupedScore) {
	kind := ""
	for _, g := range groups {
		if g.Kind != kind {
			kind = g.Kind
			p.title("by " + kind)
		}
		mean := "     –"
		if g.Mean != nil {
			mean = fmt.Sprintf("%6.3f", *g.Mean)
		}
		name := report.OneLine(g.Name, 30)
		fmt.Fprintf(&p.b, "  %s%s  %s  %5d passed of %d scored, %d rows\n", name, strings.Repeat(" ", 30-utf8.RuneCountInString(name)), mean, g.Passed, g.Scored, g.Rows)
	}
}

func (p *statsPrinter) spreads(r *stats.Result) {
	p.title("per row")
	fmt.Fprintf(&p.b, "  %-18s  %9s  %9s  %9s  %9s  %9s  %9s\n", "", "least", "median", "mean", "90 %", "99 %", "most")
	sampled := false
	for _, s := range []struct {
		name string
		d    stats.Distribution
		unit func(float64) string
	}{
		{"turns", r.Turns, report.Short}, {"tool calls", r.ToolCalls, report.Short}, {"prompt tokens", r.PromptTokens, report.Short},
		{"completion tokens", r.CompletionTokens, report.Short}, {"characters", r.Characters, report.Short}, {"time", r.Seconds, report.Seconds},
	} {
		if s.d.N == 0 {
			continue
		}
		sampled = sampled || s.d.Sampled
		fmt.Fprintf(&p.b, "  %-18s", s.name)
		for _, v := range []float64{s.d.Min, s.d.P50, s.d.Mean, s.d.P90, s.d.P99, s.d.Max} {
			fmt.Fprintf(&p.b, "  %9s", s.unit(v))
		}
		p.b.WriteByte('\n')
	}
	if sampled {
		p.b.WriteString("  (medians and percentages from a sample of 65,536 rows; the rest is exact)\n")
	}
}

func (p *statsPrinter) tools(tools []stats.Tool) {
	if len(tools) == 0 {
		return
	}
	p.title("tools")
	fmt.Fprintf(&p.b, "  %-30s  %9s  %9s  %8s  %9s\n", "", "calls", "failed", "share", "rows")
	for _, t := range tools[:min(2*statsNames, len(tools))] {
		name := report.OneLine(t.Name, 30)
		note := ""
		if t.Unknown {
			note = "  not a tool of the run"
		}
		fmt.Fprintf(&p.b, "  %s%s  %9s  %9s  %8s  %9s%s\n", name, strings.Repeat(" ", 30-utf8.RuneCountInString(name)), trajectories.Thousands(int64(t.Calls)),
			trajectories.Thousands(int64(t.Failure)), report.Percent(t.Failure, t.Success+t.Failure), trajectories.Thousands(int64(t.Rows)), note)
	}
	if more := len(tools) - 2*statsNames; more > 0 {
		fmt.Fprintf(&p.b, "  and %d more\n", more)
	}
}

func (p *statsPrinter) quality(r *stats.Result) {
	p.title("conversations")
	p.line("reasoning", "%s of %s assistant turns; %s rows have none", report.Percent(r.Reasoning.With, r.Reasoning.Turns), trajectories.Thousands(int64(r.Reasoning.Turns)), trajectories.Thousands(int64(r.Reasoning.RowsWithout)))
	p.line("duplicates", "%s conversations repeat an earlier one, %s prompts occur under another item", trajectories.Thousands(int64(r.Duplicates.Conversations)), trajectories.Thousands(int64(r.Duplicates.Prompts)))
}

func (p *statsPrinter) throughput(t stats.Throughput) {
	if len(t.Bins) < 2 {
		return
	}
	most, total := 0, 0
	for _, b := range t.Bins {
		most = max(most, b.Rows)
		total += b.Rows
	}
	var line strings.Builder
	for _, b := range t.Bins {
		level := 0
		if b.Rows > 0 {
			level = 1 + int(math.Round(float64(b.Rows)/float64(most)*7))
		}
		line.WriteString(string([]rune(" ▁▂▃▄▅▆▇█")[min(level, 8)]))
	}
	seconds := float64(int64(len(t.Bins)) * t.BinSeconds)
	p.title("throughput")
	fmt.Fprintf(&p.b, "  %s\n  %s to %s: %.1f rows per minute, a column is %s, at most %d rows\n", line.String(), t.Start, t.End, float64(total)/seconds*60, report.Seconds(float64(t.BinSeconds)), most)
}

func (p *statsPrinter) notables(title string, list []stats.Notable) {
	if len(list) == 0 {
		return
	}
	p.title(title)
	for _, n := range list {
		score := "–"
		if n.Score != nil {
			score = fmt.Sprintf("%.2f", *n.Score)
		}
		name := report.OneLine(n.Name, 34)
		money := ""
		if n.USD > 0 {
			money = "  " + trajectories.Dollars(n.USD)
		}
		fmt.Fprintf(&p.b, "  %s%s  #%-3d %-14s %5s  %4d turns  %9s tokens  %8s%s\n", name, strings.Repeat(" ", 34-utf8.RuneCountInString(name)), n.Attempt, report.OneLine(n.Outcome, 14), score,
			n.Turns, trajectories.Thousands(n.Tokens), report.Seconds(n.Seconds), money)
	}
}

func (p *statsPrinter) broken(r *stats.Result) {
	if r.Broken == 0 {
		return
	}
	p.title(fmt.Sprintf("%s lines could not be read", trajectories.Thousands(int64(r.Broken))))
	for _, b := range r.Problems {
		fmt.Fprintf(&p.b, "  %s line %d: %s\n", report.OneLine(b.File, 60), b.Line, report.OneLine(b.Problem, 200))
	}
	if more := r.Broken - len(r.Problems); more > 0 {
		fmt.Fprintf(&p.b, "  and %s more\n", trajectories.Thousands(int64(more)))
	}
}

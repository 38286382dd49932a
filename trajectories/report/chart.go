package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/stats"
)

// Charts are SVG made here, coloured by the page's style sheet so that they follow
// its dark mode. Each says in words what it shows.

const (
	chartWidth  = 360.0
	chartHeight = 132.0
	chartBottom = 20.0 // for the labels
)

// histogramChart draws the bars of a distribution.
func histogramChart(title string, d stats.Distribution, label func(float64) string) template.HTML {
	if len(d.Histogram) == 0 {
		return ""
	}
	top := 0
	for _, b := range d.Histogram {
		top = max(top, b.Count)
	}
	var b strings.Builder
	openSVG(&b, chartWidth, chartHeight, fmt.Sprintf("%s: %d values from %s to %s, median %s", title, d.N, label(d.Min), label(d.Max), label(d.P50)))
	n := float64(len(d.Histogram))
	width := chartWidth / n
	for i, bar := range d.Histogram {
		h := 0.0
		if top > 0 {
			h = (chartHeight - chartBottom - 14) * float64(bar.Count) / float64(top)
		}
		if bar.Count > 0 {
			h = math.Max(h, 1.5)
		}
		x, y := float64(i)*width, chartHeight-chartBottom-h
		fmt.Fprintf(&b, `<rect class="bar" x="%.2f" y="%.2f" width="%.2f" height="%.2f"><title>%s to %s: %d</title></rect>`,
			x+0.5, y, math.Max(width-1, 0.5), h, html.EscapeString(label(bar.From)), html.EscapeString(label(bar.To)), bar.Count)
		if bar.Count > 0 && width >= 24 {
			fmt.Fprintf(&b, `<text class="count" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, x+width/2, y-3, Short(float64(bar.Count)))
		}
	}
	axis(&b, label(d.Histogram[0].From), label(d.Histogram[len(d.Histogram)-1].To))
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// timelineChart draws how many rows finished when.
func timelineChart(t stats.Throughput) template.HTML {
	if len(t.Bins) < 2 {
		return ""
	}
	top := 0
	for _, bin := range t.Bins {
		top = max(top, bin.Rows)
	}
	const width = 760.0
	var b strings.Builder
	openSVG(&b, width, chartHeight, fmt.Sprintf("Rollouts finished per %s, at most %d", binName(t.BinSeconds), top))
	step := width / float64(len(t.Bins))
	for i, bin := range t.Bins {
		h := (chartHeight - chartBottom - 14) * float64(bin.Rows) / float64(max(top, 1))
		if bin.Rows == 0 {
			continue
		}
		fmt.Fprintf(&b, `<rect class="bar" x="%.2f" y="%.2f" width="%.2f" height="%.2f"><title>%s: %d rollouts, %s completion tokens</title></rect>`,
			float64(i)*step+0.3, chartHeight-chartBottom-h, math.Max(step-0.6, 0.5), h, html.EscapeString(bin.Start), bin.Rows, trajectories.Thousands(bin.Tokens))
	}
	fmt.Fprintf(&b, `<line class="axis" x1="0" x2="%.0f" y1="%.1f" y2="%.1f"/>`, width, chartHeight-chartBottom, chartHeight-chartBottom)
	fmt.Fprintf(&b, `<text class="label" x="0" y="%.1f">%s</text><text class="label" x="%.0f" y="%.1f" text-anchor="end">%s</text>`,
		chartHeight-5, html.EscapeString(t.Start), width, chartHeight-5, html.EscapeString(t.End))
	fmt.Fprintf(&b, `<text class="count" x="0" y="10">%d per %s</text></svg>`, top, binName(t.BinSeconds))
	return template.HTML(b.String())
}

func binName(seconds int64) string {
	d := time.Duration(seconds) * time.Second
	switch {
	case d == time.Second:
		return "second"
	case d == time.Minute:
		return "minute"
	case d == time.Hour:
		return "hour"
	case d%time.Hour == 0:
		return fmt.Sprintf("%d hours", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return fmt.Sprintf("%d seconds", seconds)
}

// shareChart draws counts as the parts of one bar.
func shareChart(title string, counts []stats.Count) template.HTML {
	total := 0
	for _, c := range counts {
		total += c.Count
	}
	if total == 0 {
		return ""
	}
	const width, height = 760.0, 22.0
	words := make([]string, len(counts))
	for i, c := range counts {
		words[i] = fmt.Sprintf("%d %s", c.Count, OneLine(c.Name, 40))
	}
	var b strings.Builder
	openSVG(&b, width, height, title+": "+strings.Join(words, ", "))
	x := 0.0
	for i, c := range counts {
		w := width * float64(c.Count) / float64(total)
		fmt.Fprintf(&b, `<rect class="o-%s" x="%.2f" y="0" width="%.2f" height="%.0f"><title>%s</title></rect>`, outcomeClass(c.Name), x, math.Max(w-1, 0.8), height, html.EscapeString(words[i]))
		x += w
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// outcomeClass is the name of an outcome as a style class: one of the known ones.
func outcomeClass(outcome string) string {
	switch outcome {
	case "scored", "limit", "agent_error", "model_error", "sandbox_error", "verifier_error", "environment_error", "cancelled":
		return outcome
	case "completed":
		return "scored"
	case "partial":
		return "agent_error"
	}
	return "other"
}

func openSVG(b *strings.Builder, width, height float64, words string) {
	escaped := html.EscapeString(words)
	fmt.Fprintf(b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s"><title>%s</title>`, width, height, escaped, escaped)
}

func axis(b *strings.Builder, from, to string) {
	fmt.Fprintf(b, `<line class="axis" x1="0" x2="%.0f" y1="%.1f" y2="%.1f"/>`, chartWidth, chartHeight-chartBottom, chartHeight-chartBottom)
	fmt.Fprintf(b, `<text class="label" x="0" y="%.1f">%s</text><text class="label" x="%.0f" y="%.1f" text-anchor="end">%s</text>`,
		chartHeight-5, html.EscapeString(from), chartWidth, chartHeight-5, html.EscapeString(to))
}

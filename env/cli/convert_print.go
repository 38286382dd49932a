package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/schollz/progressbar/v3"

	"github.com/hermes-env/hermes-env/trajectories/convert"
	"github.com/hermes-env/hermes-env/trajectories/report"
)

// convertSummary is the report for people.
func convertSummary(r *convert.Report) string {
	var b strings.Builder
	unit := "rows"
	switch r.To {
	case convert.Preference:
		unit = "pairs"
	case convert.Groups:
		unit = "groups"
	case convert.ATIF, convert.ATIFLines:
		unit = "documents"
	}
	var bytes int64
	for _, f := range r.Files {
		bytes += f.Bytes
	}
	fmt.Fprintf(&b, "%s: %d %s of %s, %s, %s\n", r.Out, r.Written, unit, count(int(r.Read), "rollout"), count(len(r.Files), "file"), sizeText(bytes))
	section := func(title string, list []convert.Count) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s\n", title)
		w := tabwriter.NewWriter(&b, 2, 4, 2, ' ', tabwriter.AlignRight)
		for _, c := range list {
			times := ""
			if c.Times > 0 {
				times = fmt.Sprintf(" (%d times)", c.Times)
			}
			fmt.Fprintf(w, "  %d\t  %s%s\n", c.Rows, report.OneLine(c.What, 120), times)
		}
		_ = w.Flush() // into memory
	}
	section("left out, in rows:", r.Filtered)
	for _, set := range r.EvaluationSets {
		fmt.Fprintf(&b, "evaluation set %s: %d of %d rows found, in %s", set.Path, set.Found, set.Rows, count(int(set.Left), "row"))
		if set.Short > 0 {
			fmt.Fprintf(&b, "; %d too short to be looked for", set.Short)
		}
		b.WriteByte('\n')
	}
	section("lost, in rows (the format has no place for it):", r.Lost)
	section("made up, in rows (the source does not have it):", r.MadeUp)
	if r.Broken > 0 {
		fmt.Fprintf(&b, "could not be read: %d lines\n", r.Broken)
		for i := range r.Lines {
			fmt.Fprintf(&b, "  %s\n", report.OneLine(r.Lines[i].String(), 300))
		}
		if more := r.Broken - int64(len(r.Lines)); more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	if len(r.Filtered) == 0 && len(r.Lost) == 0 && len(r.MadeUp) == 0 && r.Broken == 0 {
		b.WriteString("nothing was lost\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	return b.String()
}

func sizeText(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d bytes", n)
}

// convertProgress shows a bar on a terminal and nothing elsewhere: a conversion
// has no events to log.
type convertProgress struct {
	bar *progressbar.ProgressBar
	out io.Writer
}

func newConvertProgress(s *session, quiet bool) *convertProgress {
	p := &convertProgress{out: s.app.Stderr}
	if f, ok := s.app.Stderr.(*os.File); ok && !quiet && isTerminal(f) {
		p.bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(f), progressbar.OptionShowBytes(true), progressbar.OptionSetDescription("convert"),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
	}
	return p
}

func (p *convertProgress) tell(done, total int64) {
	if p.bar == nil {
		return
	}
	p.bar.ChangeMax64(total)
	_ = p.bar.Set64(done) // a bar that can't be drawn stops nothing
}

func (p *convertProgress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/compress"
)

// writeMetrics writes the metrics file as Python's json.dump with indent 2 does.
func (j *compressJob) writeMetrics(path string, m *compress.Metrics) error {
	var text bytes.Buffer
	if err := json.Indent(&text, m.Object().Append(nil), "", "  "); err != nil {
		return fmt.Errorf("encode the metrics: %w", err)
	}
	err := trajectories.ReplaceFile(path, func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	})
	if err != nil {
		return fmt.Errorf("write the metrics: %w", err)
	}
	return nil
}

// print reports what became of the files.
func (j *compressJob) print(files []compressFile, metrics string, m *compress.Metrics) error {
	if j.JSON {
		_, err := fmt.Fprintf(j.app.Stdout, "%s\n", m.Object().Append(nil))
		return err
	}
	var b strings.Builder
	verb, about := "compressed", ""
	if j.dry {
		verb, about = "to compress", "about "
	}
	share := func(n int) float64 { return 100 * float64(n) / float64(max(1, m.Total)) }
	fmt.Fprintf(&b, "%d trajectories, tokens counted with %s\n", m.Total, j.counting)
	line := func(what string, n int) { fmt.Fprintf(&b, "  %-22s %8d  (%.1f %%)\n", what, n, share(n)) }
	line(verb, m.Compressed)
	line("under the target", m.Skipped)
	line("still over the target", m.StillOver)
	line("failed, kept as is", m.Failed)
	for _, n := range []struct {
		what  string
		count int
	}{
		{"without conversation", m.WithoutConversation}, {"not saved", m.NotSaved}, {"lines that are no rows", m.BadLines},
	} {
		if n.count > 0 {
			fmt.Fprintf(&b, "  %-22s %8d\n", n.what, n.count)
		}
	}
	before, after := m.Spreads()
	fmt.Fprintf(&b, "tokens  %d → %s%d\n", m.TokensBefore, about, m.TokensAfter)
	fmt.Fprintf(&b, "turns   %d → %d\n", m.TurnsBefore, m.TurnsAfter)
	fmt.Fprintf(&b, "length  smallest %d → %d, median %d → %d, largest %d → %d tokens\n", before.Min, after.Min, before.Median, after.Median, before.Max, after.Max)
	if j.dry {
		b.WriteString("nothing was written\n")
	} else {
		fmt.Fprintf(&b, "calls   %d, of which %d failed", m.Calls, m.Errors)
		if m.FromJournal > 0 {
			fmt.Fprintf(&b, "; %d summaries are those of an earlier session", m.FromJournal)
		}
		fmt.Fprintf(&b, "\ntime    %s\n", since(m.Ended.Sub(m.Started)))
		for _, f := range files {
			fmt.Fprintf(&b, "%s\n", f.out)
		}
		if j.settings.Metrics.Enabled {
			fmt.Fprintf(&b, "%s\n", metrics)
		}
	}
	_, err := io.WriteString(j.app.Stdout, b.String())
	return err
}

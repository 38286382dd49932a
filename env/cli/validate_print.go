package cli

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/hermes-env/hermes-env/env/validation"
	"github.com/hermes-env/hermes-env/trajectories"
)

// validationReport is what a validation found out.
type validationReport struct {
	RunDir      string
	Environment string
	Repeats     int
	Unfinished  int                  // items without a verdict
	Verdicts    []validation.Verdict // in the order of the dataset
	Kept        string               // file that evaluate looks at; "" when they could not be kept
	Notes       []string             // remarks of the environment, such as keys of items that were ignored
}

// validationEvent is the last line of --json.
type validationEvent struct {
	Event       string                  `json:"event"`
	RunDir      string                  `json:"run_dir"`
	Environment string                  `json:"environment"`
	Repeats     int                     `json:"repeats"`
	Unfinished  int                     `json:"unfinished"`
	Counts      map[validation.Kind]int `json:"counts"`
	Verdicts    []validation.Verdict    `json:"verdicts"`
	Notes       []string                `json:"notes,omitempty"`
}

func (r *validationReport) counts() map[validation.Kind]int {
	counts := make(map[validation.Kind]int)
	for _, k := range validation.Kinds() {
		counts[k] = 0
	}
	for _, v := range r.Verdicts {
		counts[v.Kind]++
	}
	return counts
}

// print shows the verdicts to whoever the command was started for.
func (v *validationRun) print(r *validationReport) {
	switch p := v.out.(type) {
	case *jsonPrinter:
		verdicts := r.Verdicts
		if verdicts == nil {
			verdicts = []validation.Verdict{}
		}
		p.write(validationEvent{"validation", r.RunDir, r.Environment, r.Repeats, r.Unfinished, r.counts(), verdicts, r.Notes})
	case *textPrinter:
		fmt.Fprint(p.out, fold(r.text(p.bold), columnsOf(p.out)))
	}
}

// text is the table of verdicts, what is wrong with which item, and the counts.
func (r *validationReport) text(bold func(string) string) string {
	var b strings.Builder
	attempts := "1 attempt"
	if r.Repeats > 1 {
		attempts = fmt.Sprintf("%d attempts", r.Repeats)
	}
	fmt.Fprintf(&b, "\n%s\n", bold(fmt.Sprintf("%s · validate · %s of each agent", r.Environment, attempts)))
	width := len("item")
	for _, v := range r.Verdicts {
		width = max(width, len([]rune(trajectories.ShortItemID(v.ItemID))))
	}
	fmt.Fprintf(&b, "\n  %-*s  %-12s  %8s  %8s  %8s\n", width, "item", "verdict", "oracle", "nop", "seconds")
	for _, v := range r.Verdicts {
		oracle := "-"
		if v.Oracle != nil {
			oracle = fmt.Sprintf("%d/%d", v.Oracle.Passed, v.Oracle.Total())
		}
		fmt.Fprintf(&b, "  %-*s  %-12s  %8s  %8s  %8.1f\n", width, trajectories.ShortItemID(v.ItemID), v.Kind, oracle, fmt.Sprintf("%d/%d", v.Nop.Passed, v.Nop.Total()), v.Seconds)
	}
	for _, v := range r.Verdicts {
		loaded, forged := inProcessText(v), forgeryText(v.Forgeries)
		if v.Kind == validation.Sound && loaded == "" && forged == nil {
			continue
		}
		fmt.Fprintf(&b, "\n  %s\n", bold(fmt.Sprintf("%s is %s", trajectories.ShortItemID(v.ItemID), describeKind(v.Kind))))
		for _, reason := range v.Reasons {
			indented(&b, "    ", reason, maxReasonLines)
		}
		if v.TestOutput != "" {
			b.WriteString("    the verifier printed at its end:\n")
			indented(&b, "      | ", v.TestOutput, maxOutputLines)
		}
		if loaded != "" {
			indented(&b, "    ", loaded, maxReasonLines)
		}
		if len(forged) > 0 {
			fmt.Fprintf(&b, "    %d forgeries, attempts to get the reward without the work:\n", len(v.Forgeries))
		}
		for _, line := range forged {
			indented(&b, "      ", line, maxReasonLines)
		}
	}
	b.WriteString("\n  ")
	counts := r.counts()
	var parts []string
	for _, k := range validation.Kinds() {
		if n := counts[k]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, k))
		}
	}
	if r.Unfinished > 0 {
		parts = append(parts, fmt.Sprintf("%d not finished", r.Unfinished))
	}
	fmt.Fprintf(&b, "%s\n  verdicts   %s\n", bold(strings.Join(parts, ", ")), bold(r.RunDir))
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "  note       %s\n", note)
	}
	if r.Kept != "" {
		fmt.Fprintf(&b, "  kept in    %s\n", r.Kept)
	}
	return b.String()
}

func describeKind(k validation.Kind) string {
	if k == validation.Failing {
		return "not to be judged"
	}
	return string(k)
}

// Lines shown of a reason and of a verifier's output; the verdicts have more.
const (
	maxReasonLines = 8
	maxOutputLines = 12
)

// indented writes the last lines of a text. What a sandbox printed is hostile:
// nothing of it may steer the terminal.
func indented(b *strings.Builder, prefix, text string, limit int) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > limit {
		fmt.Fprintf(b, "%s… %d lines before\n", prefix, len(lines)-limit)
		lines = lines[len(lines)-limit:]
	}
	for _, line := range lines {
		b.WriteString(prefix)
		for _, r := range line {
			if r == '\t' || unicode.IsPrint(r) {
				b.WriteRune(r)
			}
		}
		b.WriteByte('\n')
	}
}

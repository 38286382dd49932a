package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/report"
	"github.com/hermes-env/hermes-env/trajectories/stats"
	"github.com/hermes-env/hermes-env/trajectories/tracking"
)

// tamperedFlag chooses the rollouts of a stored run by whether their agent tampered with
// the verification.
type tamperedFlag struct {
	Tampered string `name:"tampered" placeholder:"include|exclude|only|noted" help:"Rollouts whose agent tampered with the verification: include takes them like all others, exclude leaves them out, only takes no others, noted takes just those where tampering was noted without effect [include]."`
}

func (f *tamperedFlag) filter() (trajectories.TamperedFilter, error) {
	if f.Tampered == "" {
		return trajectories.TamperedInclude, nil
	}
	filter, err := trajectories.ParseTamperedFilter(f.Tampered)
	if err != nil {
		return "", fmt.Errorf("--tampered: %w", err)
	}
	return filter, nil
}

// Bounds of what is named.
const (
	maxKindsNamed   = 6 // in a line
	maxItemsNamed   = 3 // of a kind
	maxEntriesNamed = 3 // of a rollout
)

// tamperingLines say what agents did to the verification of their rollouts; none where
// nothing was found. command is how to describe the rollouts that a filter takes, "" if
// that is not known.
func tamperingLines(t env.TamperingSummary, command func(trajectories.TamperedFilter) string) []string {
	var lines []string
	hint := func(filter trajectories.TamperedFilter) {
		if text := command(filter); text != "" {
			lines = append(lines, "→ "+text)
		}
	}
	if t.Rollouts > 0 {
		lines = append(lines, fmt.Sprintf("%s in %s: %s", count(t.Rollouts, "rollout"), count(t.Items, "item"), kindsText(t.Kinds)))
		hint(trajectories.TamperedOnly)
	}
	if t.Noted > 0 {
		more := ""
		if t.Rollouts > 0 {
			more = " more"
		}
		lines = append(lines, fmt.Sprintf("noted without effect in %d%s: %s", t.Noted, more, kindsText(t.Notes)))
		hint(trajectories.TamperedNoted)
	}
	return lines
}

// kindsText counts rollouts by kind and names their items.
func kindsText(kinds []env.TamperingKind) string {
	var parts []string
	for _, k := range kinds[:min(maxKindsNamed, len(kinds))] {
		var items []string
		for _, item := range k.Items[:min(maxItemsNamed, len(k.Items))] {
			items = append(items, report.OneLine(trajectories.ShortItemID(item), 40))
		}
		if more := len(k.Items) - len(items); more > 0 {
			items = append(items, fmt.Sprintf("%d more", more))
		}
		parts = append(parts, fmt.Sprintf("%s ×%d (%s)", report.OneLine(k.Kind, 40), k.Rollouts, strings.Join(items, ", ")))
	}
	if more := len(kinds) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more kinds", more))
	}
	return strings.Join(parts, ", ")
}

// statsCommand returns the command that describes the rollouts of a run which a filter takes.
func (p *textPrinter) statsCommand(dir string) func(trajectories.TamperedFilter) string {
	return func(filter trajectories.TamperedFilter) string {
		if p.typed == nil {
			return ""
		}
		return fmt.Sprintf("%s --tampered %s", p.typed("stats "+shellWord(dir)), filter)
	}
}

// tamperingEvent is what the summary of --json says of tampering.
type tamperingEvent struct {
	Rollouts int                  `json:"rollouts"` // with an active entry
	Items    int                  `json:"items"`
	Kinds    []tamperingKindEvent `json:"kinds"`
	Noted    int                  `json:"noted_rollouts"` // with entries that are noted only
	Notes    []tamperingKindEvent `json:"noted_kinds"`
}

type tamperingKindEvent struct {
	Kind     string   `json:"kind"`
	Rollouts int      `json:"rollouts"`
	Items    []string `json:"items"`
}

func tamperingEventOf(t env.TamperingSummary) tamperingEvent {
	kinds := func(list []env.TamperingKind) []tamperingKindEvent {
		events := []tamperingKindEvent{}
		for _, k := range list {
			events = append(events, tamperingKindEvent(k))
		}
		return events
	}
	return tamperingEvent{Rollouts: t.Rollouts, Items: t.Items, Kinds: kinds(t.Kinds), Noted: t.Noted, Notes: kinds(t.Notes)}
}

// countTampering counts a rollout under names that every log has.
func countTampering(w *tracking.Window, prefix string, rec *trajectories.Rollout) {
	acted, noted := 0.0, 0.0
	if k := trajectories.KindsOfTampering(rec.Tampering); k != nil {
		for _, kind := range k.Active {
			w.Count(prefix+"tampered/"+kind, 1)
		}
		if k.Acted {
			acted = 1
		} else {
			noted = 1
		}
	}
	w.Count(prefix+"tampered", acted)
	w.Count(prefix+"tampering_noted", noted)
}

// countsText lists counts on one line.
func countsText(counts []stats.Count) string {
	var parts []string
	for _, c := range counts[:min(maxKindsNamed, len(counts))] {
		parts = append(parts, fmt.Sprintf("%s ×%d", report.OneLine(c.Name, 40), c.Count))
	}
	if more := len(counts) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more kinds", more))
	}
	return strings.Join(parts, ", ")
}

// tamperingWarnings say what a reader of the run's figures has to know of tampering.
func (s *storedRun) tamperingWarnings(r *stats.Result, filter trajectories.TamperedFilter) []string {
	var list []string
	if r.Skipped > 0 {
		list = append(list, fmt.Sprintf("%s (--tampered %s).", covered(filter, r.Rows, r.Skipped), filter))
	}
	if t := r.Tampering; t.Rows > 0 {
		what := ""
		switch policy := s.config.Get("env.on_tampering").String(); policy {
		case "keep":
			what = "; their scores count as they are (env.on_tampering keep)"
		case "zero", "unscored":
			what = fmt.Sprintf("; env.on_tampering is %s", policy)
		}
		list = append(list, fmt.Sprintf("The agent tampered with the verification in %s of %s (%s)%s.", count(t.Rows, "rollout"), count(t.Items, "item"), countsText(t.Kinds), what))
	}
	return list
}

// covered says which of a run's rollouts a filter took.
func covered(filter trajectories.TamperedFilter, taken, left int) string {
	which := "whose agent did not tamper with the verification"
	switch filter {
	case trajectories.TamperedOnly:
		which = "whose agent tampered with the verification"
	case trajectories.TamperedNoted:
		which = "with tampering that was noted without effect"
	}
	return fmt.Sprintf("Only the rollouts %s are covered: %d of %d", which, taken, taken+left)
}

// tampering lists the rows whose agent tampered with the verification.
func (p *statsPrinter) tampering(t stats.Tampering) {
	if !t.Found() {
		return
	}
	for _, list := range []struct {
		title string
		kinds []stats.Count
	}{{"tampering with the verification", t.Kinds}, {"tampering noted without effect", t.NotedKinds}} {
		if len(list.kinds) == 0 {
			continue
		}
		p.title(list.title)
		for _, k := range list.kinds[:min(statsNames, len(list.kinds))] {
			fmt.Fprintf(&p.b, "  %-40s  %s\n", report.OneLine(k.Name, 40), count(k.Count, "row"))
		}
		if more := len(list.kinds) - statsNames; more > 0 {
			fmt.Fprintf(&p.b, "  and %d more\n", more)
		}
	}
	p.title("rows with tampering")
	for _, row := range t.Listed {
		score := "–"
		if row.Score != nil {
			score = fmt.Sprintf("%.2f", *row.Score)
		}
		name := report.OneLine(row.Name, 34)
		fmt.Fprintf(&p.b, "  %s%s  #%-3d %-14s %5s  %s\n", name, strings.Repeat(" ", 34-utf8.RuneCountInString(name)), row.Attempt, report.OneLine(row.Outcome, 14), score, report.OneLine(row.ID, 40))
		for _, entry := range row.Tampering[:min(maxEntriesNamed, len(row.Tampering))] {
			noted := ""
			if !entry.Active {
				noted = "noted: "
			}
			fmt.Fprintf(&p.b, "    %s%s\n", noted, report.OneLine(entry.String(), 160))
		}
		if more := len(row.Tampering) - maxEntriesNamed; more > 0 {
			fmt.Fprintf(&p.b, "    and %d more\n", more)
		}
	}
	if more := t.Rows + t.Noted - len(t.Listed); more > 0 {
		fmt.Fprintf(&p.b, "  and %d more (--top)\n", more)
	}
}

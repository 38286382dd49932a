package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"

	"github.com/hermes-env/hermes-env/env/atropos"
)

// viewLine is one line of a view, without its newline. Its tone is that of all of it.
type viewLine struct {
	text string
	tone tone
}

// tone is how a line is shown, as the parameter of a terminal's SGR sequence.
type tone string

const (
	plainTone tone = ""
	boldTone  tone = "1"
	dimTone   tone = "2"
	alarmTone tone = "31"
	warnTone  tone = "33"
)

func (l viewLine) render(color bool) string {
	if !color || l.tone == plainTone {
		return l.text
	}
	return "\x1b[" + string(l.tone) + "m" + l.text + "\x1b[0m"
}

// longGone is after what silence a worker is no longer listed on its own.
const longGone = time.Hour

// listedBatches is how many of the batches that wait are listed.
const listedBatches = 5

// apiView describes a server; columns is the width to fit into, 0 for any.
func apiView(url string, o *atropos.Overview, columns int) []viewLine {
	var v []viewLine
	say := func(tone tone, name, format string, values ...any) {
		v = append(v, viewLine{fmt.Sprintf("%-12s", name) + fmt.Sprintf(format, values...), tone})
	}
	head := printable(url) + " · " + printable(o.Version)
	if o.UptimeSeconds > 0 {
		head += " · up " + spanText(o.UptimeSeconds)
	}
	v = append(v, viewLine{head, boldTone})
	if o.Problem != "" {
		say(alarmTone, "PROBLEM", "%s", printable(o.Problem))
	}
	switch {
	case !o.Registered:
		say(warnTone, "trainer", "none registered")
	case !o.Started && o.UptimeSeconds > 0: // the original does not tell
		say(warnTone, "trainer", "batches of %d, at most %d tokens; has not asked for a batch yet: workers wait", o.Trainer.BatchSize, o.Trainer.MaxTokenLen)
	default:
		steps := fmt.Sprintf("step %d", o.CurrentStep)
		if o.Trainer.NumSteps > 0 {
			steps += fmt.Sprintf(" of %d", o.Trainer.NumSteps)
		}
		if allSteps(o) {
			steps += " · has all its steps"
		}
		silence, tone := trainerSilence(o)
		say(tone, "trainer", "%s · batches of %d, at most %d tokens%s", steps, o.Trainer.BatchSize, o.Trainer.MaxTokenLen, silence)
	}
	if o.UptimeSeconds <= 0 {
		say(plainTone, "queue", "%s", count(int(o.Queue.Groups), "group"))
		return v
	}
	if o.Trainer != nil && o.Trainer.BatchSize > 0 && !allSteps(o) {
		say(plainTone, "next batch", "%s", nextBatchText(o))
	}
	if o.Stuck != "" && !allSteps(o) {
		say(warnTone, "stuck", "%s", printable(o.Stuck))
	}
	say(plainTone, "queue", "%s", amountText(o.Queue))
	if o.Buffered.Groups > 0 {
		say(plainTone, "buffered", "%s · incomplete", amountText(o.Buffered))
	}
	if o.Unbatchable.Groups > 0 {
		say(warnTone, "too large", "%s of the queue: larger than a batch", amountText(o.Unbatchable))
	}
	for i, batch := range o.Batches {
		if i == listedBatches {
			say(plainTone, "", "and %d more", len(o.Batches)-i)
			break
		}
		say(plainTone, "batch", "%s · %s · %s", printable(batch.ID), count(int(batch.Sequences), "sequence"), printable(batch.State))
	}
	say(plainTone, "rates", "%s groups/s · %s tokens/s · %.1f batches/min", rateText(o.Rates.GroupsPerSecond), rateText(o.Rates.TokensPerSecond), o.Rates.BatchesPerMinute)
	t := o.Totals
	say(plainTone, "in", "%s since the start · %d duplicate, %d rejected, %d refused", count(int(t.Groups), "group"), t.Duplicates, t.Rejected, t.Refused)
	batches := "batches"
	if t.Batches == 1 {
		batches = "batch"
	}
	say(plainTone, "out", "%d %s since the start · %d sent again", t.Batches, batches, t.Redelivered)
	return append(v, workerView(o.Workers, columns)...)
}

// trainerSilence says when the trainer last asked for a batch, if that was not just
// now. It may be busy with a step, or gone.
func trainerSilence(o *atropos.Overview) (string, tone) {
	const unremarkable, long = 10, 600 // seconds
	switch {
	case o.UptimeSeconds <= 0 || allSteps(o) || o.TrainerSilent == nil && o.UptimeSeconds < unremarkable:
		return "", plainTone
	case o.TrainerSilent == nil:
		return " · silent since the server started", warnTone
	case *o.TrainerSilent < unremarkable:
		return "", plainTone
	case *o.TrainerSilent < long:
		return " · asked " + spanText(*o.TrainerSilent) + " ago", plainTone
	}
	return " · asked " + spanText(*o.TrainerSilent) + " ago", warnTone
}

// allSteps says whether the trainer was given the batches of all its steps.
func allSteps(o *atropos.Overview) bool {
	return o.Trainer != nil && o.Trainer.NumSteps > 0 && o.CurrentStep >= o.Trainer.NumSteps
}

// workerView is the table of workers. Those that are gone are counted only: each
// start of a worker registers one more.
func workerView(workers []atropos.WorkerOverview, columns int) []viewLine {
	var rows [][]string
	var tones []tone
	var gone []atropos.WorkerOverview
	shown := slices.Clone(workers)
	slices.SortStableFunc(shown, func(a, b atropos.WorkerOverview) int { return cmp.Compare(workerRank(a), workerRank(b)) })
	for _, w := range shown {
		holds := w.Queued.Groups+w.Buffered.Groups > 0
		if !holds && (!w.Connected || !w.Alive && w.SilentSeconds > longGone.Seconds()) {
			gone = append(gone, w)
			continue
		}
		minimum := "-"
		if w.MinBatchAllocation != nil {
			minimum = fmt.Sprintf("%.0f %%", *w.MinBatchAllocation*100)
		}
		rows = append(rows, []string{printable(w.Name), fmt.Sprint(w.EnvID), workerState(w), fmt.Sprint(w.GroupSize), fmt.Sprintf("%.3g", w.Weight),
			minimum, fmt.Sprint(w.Queued.Groups), fmt.Sprint(w.Buffered.Groups), fmt.Sprint(w.Accepted)})
		tone := plainTone
		if !w.Alive {
			tone = warnTone
		}
		tones = append(tones, tone)
	}
	var v []viewLine
	if len(rows) > 0 {
		v = append(v, viewLine{"", plainTone})
		for i, text := range layTable([]string{"WORKER", "ID", "STATE", "SIZE", "WEIGHT", "MIN", "QUEUED", "BUFFERED", "TAKEN"}, rows, columns) {
			line := viewLine{text, boldTone}
			if i > 0 {
				line.tone = tones[i-1]
			}
			v = append(v, line)
		}
	}
	if len(gone) > 0 {
		if len(rows) == 0 {
			v = append(v, viewLine{"", plainTone})
		}
		v = append(v, viewLine{goneText(gone), dimTone})
	}
	return v
}

func goneText(gone []atropos.WorkerOverview) string {
	disconnected := 0
	for _, w := range gone {
		if !w.Connected {
			disconnected++
		}
	}
	var how []string
	if disconnected > 0 {
		how = append(how, fmt.Sprintf("%d disconnected", disconnected))
	}
	if silent := len(gone) - disconnected; silent > 0 {
		how = append(how, fmt.Sprintf("%d silent for more than an hour", silent))
	}
	return count(len(gone), "worker") + " gone: " + strings.Join(how, ", ")
}

func workerRank(w atropos.WorkerOverview) int {
	switch {
	case w.Alive:
		return 0
	case w.Connected:
		return 1
	}
	return 2
}

func workerState(w atropos.WorkerOverview) string {
	silent := spanText(w.SilentSeconds)
	switch {
	case !w.Connected:
		return "disconnected"
	case !w.Alive:
		return "silent " + silent
	case w.SilentSeconds >= 5:
		return "seen " + silent + " ago"
	}
	return "alive"
}

// layTable lays rows out under a head. The first column gives way where the table
// is wider than columns; numbers stand at the right of theirs.
func layTable(head []string, rows [][]string, columns int) []string {
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], textWidth(cell))
		}
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	const least = 8
	if columns > 0 && total > columns {
		widths[0] = max(min(least, widths[0]), widths[0]-(total-columns))
	}
	var text []string
	for _, row := range append([][]string{head}, rows...) {
		var b strings.Builder
		for i, cell := range row {
			if i == 0 {
				cell = clipName(cell, widths[i])
			}
			pad := strings.Repeat(" ", widths[i]-textWidth(cell))
			switch {
			case i == 0 || i == 2: // names
				b.WriteString(cell + pad)
			default:
				b.WriteString(pad + cell)
			}
			if i < len(row)-1 {
				b.WriteString("  ")
			}
		}
		text = append(text, strings.TrimRight(b.String(), " "))
	}
	return text
}

// nextBatchText draws how far the queue fills the next batch, and says when it
// will be full at the present rate.
func nextBatchText(o *atropos.Overview) string {
	const length = 20
	size := o.Trainer.BatchSize
	held := o.Queue.Sequences - o.Unbatchable.Sequences
	full := int(min(1, float64(held)/float64(size)) * length)
	text := fmt.Sprintf("[%s%s] %d of %s", strings.Repeat("#", full), strings.Repeat(".", length-full), held, count(int(size), "sequence"))
	switch missing := size - held; {
	case missing <= 0:
		text += fmt.Sprintf(" · %.1f batches", float64(held)/float64(size))
	case o.Rates.SequencesPerSecond > 0:
		text += " · full in " + spanText(math.Ceil(float64(missing)/o.Rates.SequencesPerSecond)) + " at this rate"
	}
	return text
}

func amountText(a atropos.Amount) string {
	return fmt.Sprintf("%s · %s · %s · %s", count(int(a.Groups), "group"), count(int(a.Sequences), "sequence"), count(int(a.Tokens), "token"), sizeText(a.Bytes))
}

func rateText(r float64) string {
	if r >= 100 {
		return fmt.Sprintf("%.0f", r)
	}
	return fmt.Sprintf("%.1f", r)
}

// spanText shortens a time to two units at most: 8s, 12m 5s, 3h 20m, 4d 7h.
func spanText(seconds float64) string {
	s := int64(min(max(seconds, 0), math.MaxInt32))
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm %ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh %dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd %dh", s/86400, s/3600%24)
}

// printable replaces what would move the cursor or change the terminal: names come
// from whoever reaches the server.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// textWidth is how many columns a terminal takes for a text.
func textWidth(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// clipName shortens the name of a worker and keeps the number at its end, which
// tells it from others.
func clipName(name string, columns int) string {
	const longest = 6
	at := strings.LastIndexByte(name, '_')
	if textWidth(name) <= columns || at < 0 || len(name)-at > min(longest, columns-2) {
		return clip(name, columns)
	}
	return clip(name, columns-(len(name)-at)) + name[at:]
}

// clip shortens a text to so many columns, with an ellipsis.
func clip(text string, columns int) string {
	if textWidth(text) <= columns {
		return text
	}
	if columns <= 0 {
		return ""
	}
	n, end := 1, 0 // one for the ellipsis
	for i, r := range text {
		if n += runeWidth(r); n > columns {
			break
		}
		end = i + len(string(r))
	}
	return text[:end] + "…"
}

package agentloop

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strings"
	"unicode/utf8"
)

// Default sizes of the tool result budgets, in characters.
const (
	DefaultResultChars  = 100_000
	DefaultTurnChars    = 200_000
	DefaultPreviewChars = 1_500
)

// Unlimited as a result limit means that a tool's results are never spilled,
// whatever an override says.
const Unlimited = math.MaxInt

// Budget bounds the tool results a model is shown. A result over its limit is
// written to a file in the sandbox and replaced by a preview and the file's path.
// Zero values mean the defaults.
type Budget struct {
	ResultChars  int            // limit of one result
	TurnChars    int            // limit of all results of one turn; the largest are spilled first
	PreviewChars int            // length of the preview that replaces a spilled result
	Overrides    map[string]int // limits by tool name, before the tool's own
}

// toolResult is one result on its way into the conversation.
type toolResult struct {
	tool, callID string
	text         string
	chars        int
	spilled      bool
}

func (b Budget) withDefaults() Budget {
	if b.ResultChars == 0 {
		b.ResultChars = DefaultResultChars
	}
	if b.TurnChars == 0 {
		b.TurnChars = DefaultTurnChars
	}
	if b.PreviewChars == 0 {
		b.PreviewChars = DefaultPreviewChars
	}
	return b
}

// limit resolves a tool's threshold: pinned by the tool, override, the tool's
// own value, the default.
func (b Budget) limit(tools Tools, tool string) int {
	own := tools.ResultLimit(tool)
	if own == Unlimited {
		return Unlimited
	}
	if n, ok := b.Overrides[tool]; ok {
		return n
	}
	if own > 0 && own < b.ResultChars {
		return own
	}
	return b.ResultChars
}

// spiller writes a result's full text into the sandbox and returns its path there.
type spiller interface {
	Spill(ctx context.Context, tool, callID, text string) (string, error)
}

// apply enforces both budgets over the results of one turn.
func (b Budget) apply(ctx context.Context, tools Tools, results []toolResult) {
	total := 0
	for i := range results {
		r := &results[i]
		r.chars = utf8.RuneCountInString(r.text)
		if limit := b.limit(tools, r.tool); r.chars > limit {
			b.spill(ctx, tools, r)
		}
		total += r.chars
	}
	if total <= b.TurnChars {
		return
	}
	order := make([]int, 0, len(results))
	for i := range results {
		if !results[i].spilled {
			order = append(order, i)
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return results[order[i]].chars > results[order[j]].chars })
	for _, i := range order {
		if total <= b.TurnChars {
			return
		}
		r := &results[i]
		if r.chars <= b.PreviewChars {
			return // a preview would not be shorter
		}
		total -= r.chars
		b.spill(ctx, tools, r)
		total += r.chars
	}
}

// spill replaces the text of r by a preview. When the sandbox can't take the
// file the model is told so; that is no reason to end the rollout.
func (b Budget) spill(ctx context.Context, to spiller, r *toolResult) {
	preview, cut := previewOf(r.text, b.PreviewChars)
	path, err := to.Spill(ctx, r.tool, r.callID, r.text)
	var s strings.Builder
	if err != nil {
		s.WriteString(preview)
		fmt.Fprintf(&s, "\n[Truncated: tool response was %d chars. Full output could not be saved to sandbox.]", r.chars)
	} else {
		s.WriteString("<persisted-output>\n")
		fmt.Fprintf(&s, "This tool result was too large to show (%d characters).\n", r.chars)
		fmt.Fprintf(&s, "Full output saved to: %s\n", path)
		s.WriteString("Read parts of it with read_file (offset and limit) or search it with search_files or terminal.\n\n")
		s.WriteString(preview)
		if cut {
			s.WriteString("\n...")
		}
		s.WriteString("\n</persisted-output>")
	}
	r.text = s.String()
	r.chars = utf8.RuneCountInString(r.text)
	r.spilled = true
}

// previewOf returns the first n characters, cut back to the last line end when
// that lies in the second half.
func previewOf(text string, n int) (preview string, cut bool) {
	end, count := len(text), 0
	for i := range text {
		if count == n {
			end = i
			break
		}
		count++
	}
	if end == len(text) {
		return text, false
	}
	preview = text[:end]
	if i := strings.LastIndexByte(preview, '\n'); i > len(preview)/2 {
		preview = preview[:i]
	}
	return preview, true
}

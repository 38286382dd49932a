package compress

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// RowMetrics says what became of one row.
type RowMetrics struct {
	OriginalTokens, CompressedTokens int
	OriginalTurns, CompressedTurns   int
	Start, End                       int // the turns that were summarised, End not included; -1 without any
	Compressed                       bool
	StillOver                        bool
	Skipped                          bool // under the target
	Calls, Errors                    int
}

func (m *RowMetrics) ratio() float64 {
	if m.OriginalTokens == 0 {
		return 1
	}
	return float64(m.CompressedTokens) / float64(m.OriginalTokens)
}

// encode writes the row's compression_metrics as the original does.
func (m *RowMetrics) encode() json.RawMessage {
	return appendObject(nil, chat.Object{
		{Key: "original_tokens", Value: integer(m.OriginalTokens)},
		{Key: "compressed_tokens", Value: integer(m.CompressedTokens)},
		{Key: "tokens_saved", Value: integer(m.OriginalTokens - m.CompressedTokens)},
		{Key: "compression_ratio", Value: rounded(m.ratio(), 4)},
		{Key: "original_turns", Value: integer(m.OriginalTurns)},
		{Key: "compressed_turns", Value: integer(m.CompressedTurns)},
		{Key: "turns_removed", Value: integer(m.OriginalTurns - m.CompressedTurns)},
		{Key: "compression_region", Value: appendObject(nil, chat.Object{
			{Key: "start_idx", Value: integer(m.Start)},
			{Key: "end_idx", Value: integer(m.End)},
			{Key: "turns_count", Value: integer(m.End - m.Start)},
		})},
		{Key: "was_compressed", Value: strconv.AppendBool(nil, m.Compressed)},
		{Key: "still_over_limit", Value: strconv.AppendBool(nil, m.StillOver)},
		{Key: "skipped_under_target", Value: strconv.AppendBool(nil, m.Skipped)},
		{Key: "summarization_api_calls", Value: integer(m.Calls)},
		{Key: "summarization_errors", Value: integer(m.Errors)},
	})
}

// Metrics says what became of a file or a directory. Every row is in Total.
type Metrics struct {
	Total, Compressed, Skipped, StillOver, Failed int
	TokensBefore, TokensAfter                     int
	TurnsBefore, TurnsAfter                       int
	Calls, Errors                                 int

	WithoutConversation int // rows passed on as they are
	NotSaved            int // rows over the limit that save_over_limit: false left out
	BadLines            int // lines that are no rows
	FromJournal         int // summaries that an earlier, interrupted session had paid for

	Tokenizer string // what tokens were counted with
	Estimated bool
	Started   time.Time
	Ended     time.Time

	ratios                    []float64
	savedTokens, removedTurns int // over compressed rows
	sizesBefore, sizesAfter   []int
}

// Add counts what became of rows elsewhere.
func (m *Metrics) Add(other *Metrics) {
	m.Total += other.Total
	m.Compressed += other.Compressed
	m.Skipped += other.Skipped
	m.StillOver += other.StillOver
	m.Failed += other.Failed
	m.TokensBefore += other.TokensBefore
	m.TokensAfter += other.TokensAfter
	m.TurnsBefore += other.TurnsBefore
	m.TurnsAfter += other.TurnsAfter
	m.Calls += other.Calls
	m.Errors += other.Errors
	m.WithoutConversation += other.WithoutConversation
	m.NotSaved += other.NotSaved
	m.BadLines += other.BadLines
	m.FromJournal += other.FromJournal
	m.ratios = append(m.ratios, other.ratios...)
	m.savedTokens += other.savedTokens
	m.removedTurns += other.removedTurns
	m.sizesBefore = append(m.sizesBefore, other.sizesBefore...)
	m.sizesAfter = append(m.sizesAfter, other.sizesAfter...)
}

func (m *Metrics) add(row *RowMetrics) {
	m.Total++
	m.TokensBefore += row.OriginalTokens
	m.TokensAfter += row.CompressedTokens
	m.TurnsBefore += row.OriginalTurns
	m.TurnsAfter += row.CompressedTurns
	m.Calls += row.Calls
	m.Errors += row.Errors
	m.sizesBefore = append(m.sizesBefore, row.OriginalTokens)
	m.sizesAfter = append(m.sizesAfter, row.CompressedTokens)
	if row.Compressed {
		m.Compressed++
		m.ratios = append(m.ratios, row.ratio())
		m.savedTokens += row.OriginalTokens - row.CompressedTokens
		m.removedTurns += row.OriginalTurns - row.CompressedTurns
	}
	if row.Skipped {
		m.Skipped++
	}
	if row.StillOver {
		m.StillOver++
	}
}

// Spread is the smallest, the largest and the middle of some sizes, in tokens.
type Spread struct{ Min, Median, Max int }

// Spreads returns how long the rows were and how long they are; zeroes without any.
func (m *Metrics) Spreads() (before, after Spread) {
	return spread(m.sizesBefore), spread(m.sizesAfter)
}

func spread(sizes []int) Spread {
	if len(sizes) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(sizes))
	return Spread{sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]}
}

// Object returns the metrics file: the original's sections in its order, and one of our own.
func (m *Metrics) Object() chat.Object {
	ratio, saved, removed := 1.0, 0.0, 0.0
	if n := float64(len(m.ratios)); n > 0 {
		sum := 0.0
		for _, r := range m.ratios {
			sum += r
		}
		ratio, saved, removed = sum/n, float64(m.savedTokens)/n, float64(m.removedTurns)/n
	}
	share := func(a, b int) float64 { return float64(a) / float64(max(b, 1)) }
	return chat.Object{
		section("summary", chat.Object{
			{Key: "total_trajectories", Value: integer(m.Total)},
			{Key: "trajectories_compressed", Value: integer(m.Compressed)},
			{Key: "trajectories_skipped_under_target", Value: integer(m.Skipped)},
			{Key: "trajectories_still_over_limit", Value: integer(m.StillOver)},
			{Key: "trajectories_failed", Value: integer(m.Failed)},
			{Key: "compression_rate", Value: rounded(share(m.Compressed, m.Total), 4)},
		}),
		section("tokens", chat.Object{
			{Key: "total_before", Value: integer(m.TokensBefore)},
			{Key: "total_after", Value: integer(m.TokensAfter)},
			{Key: "total_saved", Value: integer(m.TokensBefore - m.TokensAfter)},
			{Key: "overall_compression_ratio", Value: rounded(share(m.TokensAfter, m.TokensBefore), 4)},
		}),
		section("turns", chat.Object{
			{Key: "total_before", Value: integer(m.TurnsBefore)},
			{Key: "total_after", Value: integer(m.TurnsAfter)},
			{Key: "total_removed", Value: integer(m.TurnsBefore - m.TurnsAfter)},
		}),
		section("averages", chat.Object{
			{Key: "avg_compression_ratio", Value: rounded(ratio, 4)},
			{Key: "avg_tokens_saved_per_compressed", Value: rounded(saved, 1)},
			{Key: "avg_turns_removed_per_compressed", Value: rounded(removed, 2)},
		}),
		section("summarization", chat.Object{
			{Key: "total_api_calls", Value: integer(m.Calls)},
			{Key: "total_errors", Value: integer(m.Errors)},
			{Key: "success_rate", Value: rounded(1-share(m.Errors, m.Calls), 4)},
		}),
		section("processing", chat.Object{
			{Key: "start_time", Value: moment(m.Started)},
			{Key: "end_time", Value: moment(m.Ended)},
			{Key: "duration_seconds", Value: rounded(m.Ended.Sub(m.Started).Seconds(), 2)},
		}),
		section("hermes_env", chat.Object{
			{Key: "tokenizer", Value: trajectories.AppendPythonString(nil, m.Tokenizer)},
			{Key: "tokens_estimated", Value: strconv.AppendBool(nil, m.Estimated)},
			{Key: "rows_without_conversation", Value: integer(m.WithoutConversation)},
			{Key: "rows_not_saved_over_limit", Value: integer(m.NotSaved)},
			{Key: "bad_lines", Value: integer(m.BadLines)},
			{Key: "summaries_from_journal", Value: integer(m.FromJournal)},
		}),
	}
}

func section(name string, object chat.Object) chat.Field {
	return chat.Field{Key: name, Value: object.Append(nil)}
}

func integer(n int) json.RawMessage { return strconv.AppendInt(nil, int64(n), 10) }

// rounded writes a float as Python writes round(f, digits).
func rounded(f float64, digits int) json.RawMessage {
	power := math.Pow10(digits)
	text := strconv.FormatFloat(math.Round(f*power)/power, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return json.RawMessage(text)
}

func moment(t time.Time) json.RawMessage {
	return chat.AppendString(nil, t.UTC().Format("2006-01-02T15:04:05.000000"))
}

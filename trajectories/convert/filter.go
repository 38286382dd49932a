package convert

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Ways to drop rows that say the same.
const (
	DedupeConversation = "conversation" // rows with the same messages, the first stays
	DedupePrompt       = "prompt"       // rows with the same prompt, the first stays
)

// Filter says which rows are kept. The zero value keeps all, but in formats to
// train on neither rows whose agent tampered with the verification nor rollouts that failed
// or were cancelled.
type Filter struct {
	// Tampered chooses rows by whether the agent tampered with the verification; "" is
	// TamperedInclude for records (rollouts, ATIF) and else TamperedExclude.
	Tampered trajectories.TamperedFilter
	// IncludeUnscored keeps rollouts that failed or were cancelled in formats to train on.
	IncludeUnscored bool
	// IncludeUnanswered keeps rows without an answer of the model, and those whose last answer
	// is empty, in formats to train on that can hold them.
	IncludeUnanswered  bool
	MinScore, MaxScore *float64 // a row without a score fails both
	Outcomes           []string // any of them; empty: all
	Passed             *bool
	WithReasoning      bool     // any assistant message has some
	FinishReasons      []string // of the last turn, or why the loop stopped; empty: all
	MaxTurns           int      // model calls; 0: no limit
	MaxTokens          int64    // of the conversation; 0: no limit
	MaxChars           int64    // of the conversation; 0: no limit
	Dedupe             string   // "", DedupeConversation or DedupePrompt
	DropHallucinated   bool     // rows that call a tool they were not offered
	BestOfGroup        bool     // of each prompt and step, the row with the highest score
	Sample             int      // this many of what is left, chosen at random; 0: all
	Seed               int64    // of the choice
	Text               TextFilter

	scored bool // keep only outcomes that may carry a score
}

// Check says what is wrong with a filter.
func (f *Filter) Check() error {
	var problems []error
	for _, s := range []*float64{f.MinScore, f.MaxScore} {
		if s != nil && math.IsNaN(*s) {
			problems = append(problems, errors.New("a score limit is not a number"))
		}
	}
	if f.MinScore != nil && f.MaxScore != nil && *f.MinScore > *f.MaxScore {
		problems = append(problems, fmt.Errorf("--min-score %g is above --max-score %g: nothing would be left", *f.MinScore, *f.MaxScore))
	}
	if f.Tampered != "" {
		if _, err := trajectories.ParseTamperedFilter(string(f.Tampered)); err != nil {
			problems = append(problems, fmt.Errorf("--tampered: %w", err))
		}
	}
	for _, o := range f.Outcomes {
		if _, err := trajectories.ParseOutcome(o); err != nil {
			problems = append(problems, fmt.Errorf("--outcome: %w; there are: %v", err, trajectories.Outcomes()))
		}
	}
	if f.MaxTurns < 0 || f.MaxTokens < 0 || f.MaxChars < 0 || f.Sample < 0 {
		problems = append(problems, errors.New("limits must not be negative"))
	}
	switch f.Dedupe {
	case "", DedupeConversation, DedupePrompt:
	default:
		problems = append(problems, fmt.Errorf("--dedupe is %q: want %s or %s", f.Dedupe, DedupeConversation, DedupePrompt))
	}
	return errors.Join(append(problems, f.Text.check()...)...)
}

// rejects says why a row is dropped by itself, "" when it is not.
func (f *Filter) rejects(r *Row) string {
	switch {
	case !f.Tampered.Takes(trajectories.KindsOfTampering(r.Tampering)):
		return f.whyTampered()
	case f.scored && len(f.Outcomes) == 0 && !r.Outcome.Scored() && !r.madeUp("outcome"):
		return fmt.Sprintf("outcome %s, which has no score (--include-unscored keeps it)", r.Outcome)
	case (f.MinScore != nil || f.MaxScore != nil) && r.Score == nil:
		return "no score"
	case f.MinScore != nil && *r.Score < *f.MinScore:
		return fmt.Sprintf("score below %g", *f.MinScore)
	case f.MaxScore != nil && *r.Score > *f.MaxScore:
		return fmt.Sprintf("score above %g", *f.MaxScore)
	case len(f.Outcomes) > 0 && !slices.Contains(f.Outcomes, string(r.Outcome)):
		return "outcome " + string(r.Outcome)
	case f.Passed != nil && r.Passed == nil:
		return "neither passed nor failed"
	case f.Passed != nil && *r.Passed != *f.Passed:
		if *r.Passed {
			return "passed"
		}
		return "not passed"
	case f.WithReasoning && !hasReasoning(r.Messages):
		return "no reasoning"
	case len(f.FinishReasons) > 0 && !f.finished(r):
		return fmt.Sprintf("finish reason %.60s", cmp.Or(finishReason(r), r.StopReason, "unknown"))
	case f.MaxTurns > 0 && r.TurnsUsed > f.MaxTurns:
		return fmt.Sprintf("more than %d turns", f.MaxTurns)
	case f.MaxTokens > 0 && tokens(r) > f.MaxTokens:
		return fmt.Sprintf("more than %d tokens", f.MaxTokens)
	case f.MaxChars > 0 && characters(r.Messages) > f.MaxChars:
		return fmt.Sprintf("more than %d characters", f.MaxChars)
	case f.DropHallucinated && hallucinates(r):
		return "calls a tool it was not offered"
	}
	return ""
}

// whyTampered says why a row is dropped by Tampered.
func (f *Filter) whyTampered() string {
	switch f.Tampered {
	case trajectories.TamperedOnly:
		return "no tampering with the verification"
	case trajectories.TamperedNoted:
		return "no tampering that was noted only"
	}
	return "tampered with the verification (--tampered include keeps them)"
}

func (f *Filter) finished(r *Row) bool {
	return slices.Contains(f.FinishReasons, finishReason(r)) || r.StopReason != "" && slices.Contains(f.FinishReasons, r.StopReason)
}

func finishReason(r *Row) string {
	if n := len(r.Timings.Turns); n > 0 {
		return r.Timings.Turns[n-1].FinishReason
	}
	return ""
}

func hasReasoning(messages []chat.Message) bool {
	for _, m := range messages {
		if m.Role() != chat.RoleAssistant {
			continue
		}
		if strings.TrimSpace(m.NativeReasoning()) != "" {
			return true
		}
		for _, tag := range []string{"think", "REASONING_SCRATCHPAD"} {
			if _, rest, found := strings.Cut(m.Text(), "<"+tag+">"); found {
				if inner, _, _ := strings.Cut(rest, "</"+tag+">"); strings.TrimSpace(inner) != "" {
					return true
				}
			}
		}
	}
	return false
}

// tokens is the length of the conversation: the tokens where they are known, else
// what the server counted in the last turn, else a token for every four characters.
func tokens(r *Row) int64 {
	if r.Tokens != nil {
		return int64(len(r.Tokens))
	}
	if n := len(r.Timings.Turns); n > 0 {
		if t := r.Timings.Turns[n-1]; t.PromptTokens > 0 {
			return t.PromptTokens + t.CompletionTokens
		}
	}
	return (characters(r.Messages) + 3) / 4
}

func characters(messages []chat.Message) (n int64) {
	for _, m := range messages {
		n += int64(utf8.RuneCountInString(m.Text()) + utf8.RuneCountInString(m.NativeReasoning()))
		for _, c := range m.ToolCalls() {
			n += int64(utf8.RuneCountInString(c.Name) + utf8.RuneCountInString(c.Arguments))
		}
	}
	return n
}

func hallucinates(r *Row) bool {
	names := r.names()
	if len(names) == 0 && r.Tools == nil && r.madeUp("outcome") {
		return false // a foreign row that does not say what was offered
	}
	for _, m := range r.Messages {
		for _, c := range m.ToolCalls() {
			if !slices.Contains(names, c.Name) {
				return true
			}
		}
	}
	return false
}

// key is the digest two rows share when they say the same.
type key [16]byte

func digest(messages []chat.Message, promptOnly bool) key {
	hash := sha256.New()
	for _, m := range messages {
		if promptOnly && m.Role() == chat.RoleAssistant {
			break
		}
		_, _ = hash.Write([]byte(string(m.Role()) + "\x00" + m.Text() + "\x00" + m.NativeReasoning() + "\x00"))
		for _, c := range m.ToolCalls() {
			_, _ = hash.Write([]byte(c.Name + "\x00" + compact(c.Arguments) + "\x00"))
		}
	}
	return key(hash.Sum(nil)[:16])
}

// groupKey names the rollouts that share a prompt: of one item, content and step.
func groupKey(r *Row) key {
	return key(sha256Sum(fmt.Sprintf("%s\x00%s\x00%d", r.ItemID, r.ItemDigest, r.Step)))
}

func sha256Sum(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

// choose returns n of the given numbers, the same for the same seed.
func choose(from []int, n int, seed int64) map[int]bool {
	random := rand.New(rand.NewPCG(uint64(seed), 0x9e3779b97f4a7c15))
	chosen := make(map[int]bool, n)
	for _, i := range random.Perm(len(from))[:min(n, len(from))] {
		chosen[from[i]] = true
	}
	return chosen
}

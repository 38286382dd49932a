package convert

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories/textfilter"
)

// Part names the messages of a row that a filter of texts looks at.
type Part string

// The parts of a row.
const (
	WholeConversation Part = "conversation" // all messages
	PromptPart        Part = "prompt"       // what stands before the first answer
	AnswersPart       Part = "answers"      // what the model wrote: texts, reasoning, arguments
)

// TextFilter says which rows are kept by what their texts say. The zero value keeps all.
type TextFilter struct {
	// NearDuplicates drops rows that share at least this part of their n-grams with an
	// earlier row that is kept, from 0.5 to 1; 0 drops none. System messages don't count.
	NearDuplicates     float64
	NearDuplicateWords int  // of an n-gram; 0: 5
	NearDuplicateIn    Part // "": WholeConversation

	Decontaminate       []string // files or folders of evaluation sets, whose texts must not be in rows
	DecontaminateFields []string // members of evaluation rows that count; empty: all texts
	DecontaminateWords  int      // of an n-gram; 0: 13
	DecontaminateShare  float64  // of the n-grams of an evaluation text to be found; 0: one is enough
	DecontaminateIn     Part     // "": WholeConversation

	MaxRepetition float64  // share of the words of an answer in repeated n-grams; 0: no limit
	Languages     []string // of answers and of reasoning; empty: any
	DropRefusals  bool
	DropMatching  []string // regular expressions; a row with a match of any is dropped
	KeepMatching  []string // regular expressions; a row without a match of each is dropped
	MatchIn       Part     // "": WholeConversation
}

func (f *TextFilter) check() (problems []error) {
	if f.NearDuplicates != 0 && !(f.NearDuplicates >= textfilter.LeastSimilarity && f.NearDuplicates <= 1) {
		problems = append(problems, fmt.Errorf("--near-duplicates is %g: want a similarity from %g to 1, for example 0.8", f.NearDuplicates, textfilter.LeastSimilarity))
	}
	if f.NearDuplicateWords < 0 || f.DecontaminateWords < 0 {
		problems = append(problems, errors.New("the words of an n-gram must not be negative"))
	}
	if !(f.DecontaminateShare >= 0 && f.DecontaminateShare <= 1) {
		problems = append(problems, fmt.Errorf("--decontaminate-share is %g: want a share from 0 to 1", f.DecontaminateShare))
	}
	if !(f.MaxRepetition >= 0 && f.MaxRepetition <= 1) {
		problems = append(problems, fmt.Errorf("--max-repetition is %g: want a share from 0 to 1", f.MaxRepetition))
	}
	for _, p := range []struct {
		flag string
		part *Part
	}{{"--near-duplicates-in", &f.NearDuplicateIn}, {"--decontaminate-in", &f.DecontaminateIn}, {"--match-in", &f.MatchIn}} {
		*p.part = cmp.Or(*p.part, WholeConversation)
		if !slices.Contains([]Part{WholeConversation, PromptPart, AnswersPart}, *p.part) {
			problems = append(problems, fmt.Errorf("%s is %q: want %s, %s or %s", p.flag, *p.part, WholeConversation, PromptPart, AnswersPart))
		}
	}
	if _, err := textfilter.ParseLanguages(f.Languages); err != nil {
		problems = append(problems, fmt.Errorf("--language: %w", err))
	}
	for _, list := range []struct {
		flag        string
		expressions []string
	}{{"--drop-matching", f.DropMatching}, {"--keep-matching", f.KeepMatching}} {
		for _, e := range list.expressions {
			if _, err := regexp.Compile(e); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", list.flag, err))
			}
		}
	}
	return problems
}

// textRules is a TextFilter that is ready for use. It is safe for concurrent use.
type textRules struct {
	*TextFilter
	signer     *textfilter.Signer
	sets       *evaluationSets
	languages  *textfilter.Languages
	refusals   *textfilter.Refusals
	drop, keep []*regexp.Regexp
}

func newTextRules(f *TextFilter, sets *evaluationSets) (*textRules, error) {
	t := &textRules{TextFilter: f, sets: sets}
	if f.NearDuplicates > 0 {
		t.signer = textfilter.NewSigner(cmp.Or(f.NearDuplicateWords, 5))
	}
	if f.DropRefusals {
		t.refusals = textfilter.NewRefusals()
	}
	if len(f.Languages) > 0 {
		var err error
		if t.languages, err = textfilter.ParseLanguages(f.Languages); err != nil {
			return nil, err
		}
	}
	for _, list := range []struct {
		expressions []string
		compiled    *[]*regexp.Regexp
	}{{f.DropMatching, &t.drop}, {f.KeepMatching, &t.keep}} {
		for _, e := range list.expressions {
			compiled, err := regexp.Compile(e)
			if err != nil {
				return nil, err
			}
			*list.compiled = append(*list.compiled, compiled)
		}
	}
	return t, nil
}

// rejects says why a row is dropped by what its texts say, "" if it is not. What an
// evaluation set shares with it is returned too.
func (t *textRules) rejects(r *Row) (reason string, found []textfilter.Overlap) {
	if len(t.drop)+len(t.keep) > 0 {
		texts := textsOf(r.Messages, t.MatchIn, true)
		for i, e := range t.drop {
			if slices.ContainsFunc(texts, e.MatchString) {
				return fmt.Sprintf("matches %.60q (--drop-matching)", t.DropMatching[i]), nil
			}
		}
		for i, e := range t.keep {
			if !slices.ContainsFunc(texts, e.MatchString) {
				return fmt.Sprintf("does not match %.60q (--keep-matching)", t.KeepMatching[i]), nil
			}
		}
	}
	if t.refusals != nil && (refusesByProtocol(r) || t.refuses(r.Messages)) {
		return "the model refuses (--drop-refusals)", nil
	}
	if t.MaxRepetition > 0 && repetition(r.Messages) > t.MaxRepetition {
		return fmt.Sprintf("more than %g of an answer is repetition (--max-repetition)", t.MaxRepetition), nil
	}
	if t.languages != nil {
		if reason := t.foreign(r.Messages); reason != "" {
			return reason, nil
		}
	}
	if t.sets != nil {
		var words textfilter.Words
		if found = t.sets.index.Find(textsOf(r.Messages, t.DecontaminateIn, true), &words); len(found) > 0 {
			return fmt.Sprintf("text of the evaluation set %s (--decontaminate)", t.sets.of(most(found).Row).Path), found
		}
	}
	return "", nil
}

// most returns the overlap of which the most was found, the first of equal ones.
func most(found []textfilter.Overlap) textfilter.Overlap {
	return slices.MaxFunc(found, func(a, b textfilter.Overlap) int { return cmp.Compare(a.Share, b.Share) })
}

// sign returns the signature of a row for near-duplicates, nil if it has no words.
func (t *textRules) sign(r *Row) *textfilter.Signature {
	if t.signer == nil {
		return nil
	}
	words := textfilter.SplitWords(strings.Join(textsOf(r.Messages, t.NearDuplicateIn, false), "\n"), textfilter.Words{})
	s, ok := t.signer.Sign(&words)
	if !ok {
		return nil
	}
	return &s
}

// refuses says whether an answer without tool calls begins with a refusal.
func (t *textRules) refuses(messages []chat.Message) bool {
	for _, m := range messages {
		if m.Role() == chat.RoleAssistant && len(m.ToolCalls()) == 0 {
			text := m.Text()
			if _, after, found := strings.Cut(text, "</think>"); found {
				text = after
			}
			if t.refusals.Find(strings.TrimSpace(text)) != "" {
				return true
			}
		}
	}
	return false
}

// repetition is that of the answer that repeats itself most, or of all answers together.
func repetition(messages []chat.Message) float64 {
	worst, answers := 0.0, 0
	var all strings.Builder
	for _, m := range messages {
		if m.Role() != chat.RoleAssistant {
			continue
		}
		for _, text := range []string{m.NativeReasoning(), m.Text()} {
			if text != "" {
				worst = max(worst, textfilter.Repetition(text))
				all.WriteString(text + "\n")
				answers++
			}
		}
	}
	if answers > 1 {
		worst = max(worst, textfilter.Repetition(all.String()))
	}
	return worst
}

// foreign says in which unwanted language the model answers or reasons. What is too short
// or too uncertain to tell is not foreign.
func (t *textRules) foreign(messages []chat.Message) string {
	var answers, reasoning []string
	for _, m := range messages {
		if m.Role() == chat.RoleAssistant {
			answers, reasoning = append(answers, m.Text()), append(reasoning, m.NativeReasoning())
		}
	}
	for _, one := range []struct {
		what  string
		texts []string
	}{{"answers", answers}, {"reasoning", reasoning}} {
		if code := t.languages.Detect(strings.Join(one.texts, "\n")); code != "" && !t.languages.Wants(code) {
			return fmt.Sprintf("language %s of the %s (--language)", code, one.what)
		}
	}
	return ""
}

// textsOf returns the texts of a part of a conversation; system messages only if asked for.
func textsOf(messages []chat.Message, part Part, system bool) (texts []string) {
	for _, m := range messages {
		switch role := m.Role(); {
		case role == chat.RoleAssistant && part == PromptPart:
			return texts
		case role != chat.RoleAssistant && part == AnswersPart, role == chat.RoleSystem && !system:
			continue
		}
		for _, text := range []string{m.NativeReasoning(), m.Text()} {
			if text != "" {
				texts = append(texts, text)
			}
		}
		for _, c := range m.ToolCalls() {
			texts = append(texts, c.Arguments)
		}
	}
	return texts
}

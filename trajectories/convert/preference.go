package convert

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Pairing says which rollouts of a prompt make preference pairs, and which are right and
// wrong for KTO rows. The zero value sets the best against the worst of each prompt.
type Pairing struct {
	Margin      float64  // least difference of the two scores
	ChosenMin   *float64 // least score of the chosen side
	RejectedMax *float64 // highest score of the rejected side
	Passed      bool     // the chosen side has passed, the rejected one has not
	PerPrompt   int      // pairs of a prompt at most; 0 means 1
}

func (p *Pairing) check(to Format) error {
	asks := p.ChosenMin != nil || p.RejectedMax != nil || p.Passed || p.PerPrompt != 0
	switch {
	case p.Margin < 0 || p.Margin != p.Margin:
		return usage("the margin is %v: want a number from 0", p.Margin)
	case p.PerPrompt < 0:
		return usage("%d pairs per prompt: want a number from 0", p.PerPrompt)
	case p.ChosenMin != nil && *p.ChosenMin != *p.ChosenMin, p.RejectedMax != nil && *p.RejectedMax != *p.RejectedMax:
		return usage("a limit of --chosen-min or --rejected-max is not a number")
	case p.ChosenMin != nil && p.RejectedMax != nil && *p.ChosenMin < *p.RejectedMax:
		return usage("--chosen-min %g is below --rejected-max %g: a rollout would be both", *p.ChosenMin, *p.RejectedMax)
	case asks && to != Preference && to != KTO:
		return usage("--chosen-min, --rejected-max, --pair-passed and --pairs-per-item are for preference pairs and KTO rows, not for %s", to)
	}
	return nil
}

// scoredRow is what pairs are made by.
type scoredRow struct {
	index  int
	score  float64
	passed *bool
}

func (p *Pairing) chosen(r *scoredRow) bool {
	return (p.ChosenMin == nil || r.score >= *p.ChosenMin) && (!p.Passed || r.passed != nil && *r.passed)
}

func (p *Pairing) rejected(r *scoredRow) bool {
	return (p.RejectedMax == nil || r.score <= *p.RejectedMax) && (!p.Passed || r.passed != nil && !*r.passed)
}

// label says whether a row is right for KTO, and false if it is neither right nor wrong.
func (p *Pairing) label(r *Row) (right, known bool) {
	s := scoredRow{passed: r.Passed}
	if r.Score != nil {
		s.score = *r.Score
	}
	limits := p.ChosenMin != nil || p.RejectedMax != nil
	switch {
	case !limits && r.Passed == nil && r.Side != "":
		return r.Side == Chosen, true
	case limits && r.Score == nil, !limits && r.Passed == nil:
		return false, false
	case !limits:
		return *r.Passed, !p.Passed || r.Passed != nil
	case p.ChosenMin != nil && p.chosen(&s):
		return true, true
	case p.RejectedMax != nil && p.rejected(&s):
		return false, true
	}
	return false, false
}

// pairs returns the pairs of one prompt, as indices of the chosen and the rejected row:
// the best against the worst, the second best against the second worst, and so on, then
// rows that are in a pair already. why says why there are none.
func (p *Pairing) pairs(rows []scoredRow) (list [][2]int, why string) {
	var good, bad []scoredRow
	low, high := rows[0].score, rows[0].score
	for _, r := range rows {
		low, high = min(low, r.score), max(high, r.score)
		if p.chosen(&r) {
			good = append(good, r)
		}
		if p.rejected(&r) {
			bad = append(bad, r)
		}
	}
	switch {
	case len(rows) < 2:
		return nil, "the only row of its prompt"
	case low == high:
		return nil, "all rows of its prompt have the same score"
	case len(good) == 0:
		return nil, "no row of its prompt is right enough to be chosen"
	case len(bad) == 0:
		return nil, "no row of its prompt is wrong enough to be rejected"
	}
	sort.SliceStable(good, func(i, j int) bool { return good[i].score > good[j].score })
	sort.SliceStable(bad, func(i, j int) bool { return bad[i].score < bad[j].score })
	most := max(1, p.PerPrompt)
	take := func(i, j int) {
		if i >= len(good) || j >= len(bad) || len(list) == most {
			return
		}
		c, r := good[i], bad[j]
		if d := c.score - r.score; c.index != r.index && d > 0 && d >= p.Margin {
			list = append(list, [2]int{c.index, r.index})
		}
	}
	for apart := 0; apart < max(len(good), len(bad)) && len(list) < most; apart++ {
		for k := 0; k < max(len(good), len(bad)) && len(list) < most; k++ {
			take(k, k+apart)
			if apart > 0 {
				take(k+apart, k)
			}
		}
	}
	if len(list) == 0 {
		return nil, "the scores of its prompt are closer than the margin"
	}
	return list, ""
}

// pairLine is a pair as the consumer reads it; nil with a reason where it can't be one.
func (w *consumerRows) pairLine(chosen, rejected *Row, prompt int) (line []byte, l losses, why string, err error) {
	if sameSides(chosen.Messages, rejected.Messages) {
		return nil, nil, reasonSameSides, nil
	}
	if w.consumer == TRL {
		list := func(messages []chat.Message) []byte { return w.messages(messages, &l, true) }
		good, bad := upToAnswer(chosen.Messages), upToAnswer(rejected.Messages)
		line = append(append([]byte(`{"prompt":`), list(good[:prompt])...), `,"chosen":`...)
		line = append(append(line, list(good[prompt:])...), `,"rejected":`...)
		line = append(append(line, list(bad[prompt:])...), `,"tools":`...)
		return append(appendTools(line, chosen), '}'), l, "", nil
	}
	// One answer on each side: the first that differs.
	at := differAt(chosen.Messages, rejected.Messages, w.consumer != OpenAITuning)
	if at >= len(chosen.Messages) || at >= len(rejected.Messages) || chosen.Messages[at].Role() != chat.RoleAssistant || rejected.Messages[at].Role() != chat.RoleAssistant {
		return nil, nil, "pairs that don't differ in an answer of the model", nil
	}
	l.add("messages after the first answer that differs", len(chosen.Messages)+len(rejected.Messages)-2*at-2)
	var input, good, bad []byte
	switch w.consumer {
	case OpenAITuning:
		if unanswered(chosen.Messages[:at+1]) {
			return nil, nil, "pairs with a tool call that is not answered before the next message", nil
		}
		input = append([]byte(`{"messages":`), openAIMessages(chosen.Messages[:at], &l)...)
		if tools := toolsText(chosen); tools != "[]" {
			input = append(append(input, `,"tools":`...), tools...)
		}
		input = append(input, '}')
		good, bad = openAIMessages(chosen.Messages[at:at+1], &l), openAIMessages(rejected.Messages[at:at+1], &l)
	default:
		turns, err := w.text.flat(chosen, chosen.Messages[:at+1], &l)
		if err != nil {
			return nil, nil, "", err
		}
		last := len(turns) - 1
		if last < 1 || turns[last-1].role == "assistant" || turns[0].role == "assistant" || !systemFirst(turns) {
			return nil, nil, "pairs whose turns don't alternate", nil
		}
		input = append(append([]byte(`{"messages":`), appendFlat(nil, turns[:last])...), '}')
		good = appendFlat(nil, turns[last:])
		bad = appendFlat(nil, []flatTurn{{"assistant", w.text.answer(rejected.Messages[at], &l)}})
	}
	if bytes.Equal(good, bad) {
		return nil, nil, reasonSameSides, nil
	}
	line = append(append([]byte(`{"input":`), input...), `,"preferred_output":`...)
	line = append(append(line, good...), `,"non_preferred_output":`...)
	return append(append(line, bad...), '}'), l, "", nil
}

// systemFirst says whether no system turn follows another turn.
func systemFirst(turns []flatTurn) bool {
	for _, t := range turns[1:] {
		if t.role == "system" {
			return false
		}
	}
	return true
}

// ktoLine is a row for KTO: a prompt, what the model made of it, and whether that is right.
func (w *consumerRows) ktoLine(r *Row, right bool) ([]byte, losses) {
	var l losses
	messages := upToAnswer(r.Messages)
	l.add("messages after the last answer of the model", len(r.Messages)-len(messages))
	first := 0
	for messages[first].Role() != chat.RoleAssistant {
		first++
	}
	line := append([]byte(`{"prompt":`), w.messages(messages[:first], &l, true)...)
	line = append(append(line, `,"completion":`...), w.messages(messages[first:], &l, true)...)
	line = fmt.Appendf(line, `,"label":%v,"tools":`, right)
	return append(appendTools(line, r), '}'), l
}

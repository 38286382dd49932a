package convert

import (
	"strconv"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Side says which side of a preference pair a row is in the data set it comes from; ""
// means that it is not of a pair.
type Side string

// The sides of a pair.
const (
	Chosen   Side = "chosen"
	Rejected Side = "rejected"
)

const (
	reasonRejectedSide = "the rejected side of a preference pair (--to preference keeps pairs)"
	reasonOtherSide    = "the other side of its pair was left out"
	reasonSameSides    = "pairs whose two sides are the same"
)

// sideUnfit says why a side of a pair is left out of the target, "" if it is not: an answer
// that was rejected is not an example to train on.
func (o *Options) sideUnfit(r *Row) string {
	if r.Side == Rejected && o.To != Preference && o.To != KTO && o.To != Groups && !o.To.records() {
		return reasonRejectedSide
	}
	return ""
}

// givenPair is a pair as the source has it.
type givenPair struct {
	chosen, rejected             scoredRow
	chosenScored, rejectedScored bool
}

// refuses says why a given pair is left out, "" if it is not.
func (p *Pairing) refuses(g *givenPair) string {
	byScore := p.Margin > 0 || p.ChosenMin != nil || p.RejectedMax != nil
	switch {
	case byScore && !(g.chosenScored && g.rejectedScored):
		return "no score"
	case !p.chosen(&g.chosen):
		return "no row of its prompt is right enough to be chosen"
	case !p.rejected(&g.rejected):
		return "no row of its prompt is wrong enough to be rejected"
	case byScore && g.chosen.score-g.rejected.score < p.Margin:
		return "the scores of its prompt are closer than the margin"
	}
	return ""
}

// takeGiven notes the pair of a record whose two rows begin at index first.
func (p *planner) takeGiven(first int, rows []sight) {
	if p.options.To != Preference || len(rows) != 2 || rows[0].side != Chosen || rows[1].side != Rejected {
		return
	}
	g := givenPair{chosenScored: rows[0].scored, rejectedScored: rows[1].scored}
	g.chosen = scoredRow{first, rows[0].score, rows[0].passed}
	g.rejected = scoredRow{first + 1, rows[1].score, rows[1].passed}
	p.given = append(p.given, g)
}

// givenPairs returns the given pairs whose sides are both kept.
func (p *planner) givenPairs() (pairs [][2]int) {
	for i := range p.given {
		g := &p.given[i]
		c, r := g.chosen.index, g.rejected.index
		why := reasonOtherSide
		if p.plan.kept[c] && p.plan.kept[r] {
			why = p.options.Pairing.refuses(g)
		}
		if why == "" {
			pairs = append(pairs, [2]int{c, r})
			continue
		}
		p.drop(c, why)
		p.drop(r, why)
	}
	return pairs
}

// withPrompt puts the prompt of a pair before one of its sides. Sides that are whole
// conversations begin with the prompt already.
func withPrompt(prompt, side []chat.Message) []chat.Message {
	begins := func(list, with []chat.Message) bool {
		if len(with) == 0 || len(list) < len(with) {
			return false
		}
		for i, m := range with {
			if list[i].Role() != m.Role() || strings.TrimSpace(list[i].Text()) != strings.TrimSpace(m.Text()) {
				return false
			}
		}
		return true
	}
	system := func(list []chat.Message) int {
		n := 0
		for n < len(list) && isSystem(list[n]) {
			n++
		}
		return n
	}
	joined := func(a, b []chat.Message) []chat.Message { return append(append([]chat.Message{}, a...), b...) }
	switch head := system(prompt); {
	case len(side) == 0 || side[0].Role() == chat.RoleAssistant:
	case begins(side, prompt), begins(side[system(side):], prompt), begins(side[system(side):], prompt[head:]) && system(side) > 0:
		return side
	case begins(side, prompt[head:]):
		return joined(prompt[:head], side)
	case len(prompt) == 1 && prompt[0].Role() == chat.RoleUser && saysPrompt(side, prompt[0].Text()):
		return side
	}
	return joined(prompt, side)
}

// saysPrompt reports whether a conversation has the prompt of its pair in a user's message:
// the first or the last of several, or the first as a part of a prompt in a format of its
// own.
func saysPrompt(side []chat.Message, prompt string) bool {
	prompt = strings.TrimSpace(prompt)
	first := true
	for _, m := range side {
		if m.Role() != chat.RoleUser {
			continue
		}
		text := strings.TrimSpace(m.Text())
		if text == prompt || first && text != "" && strings.Contains(prompt, text) {
			return true
		}
		first = false
	}
	return false
}

// contents is what each message says. Ids of calls are replaced by the number of the call,
// because they are drawn at random.
func contents(messages []chat.Message, reasoning bool) []string {
	numbers := map[string]string{}
	list := make([]string, len(messages))
	for i, m := range messages {
		content := string(m.Get("content"))
		if !isList(m.Get("content")) {
			content = m.Text()
		}
		parts := []string{string(m.Role()), content, string(m.Get("refusal"))}
		if reasoning {
			parts = append(parts, m.NativeReasoning())
		}
		for _, c := range m.ToolCalls() {
			numbers[c.ID] = strconv.Itoa(len(numbers))
			parts = append(parts, c.Name, compact(c.Arguments))
		}
		if m.Role() == chat.RoleTool {
			id := m.ToolCallID()
			if n, ok := numbers[id]; ok {
				id = n
			}
			parts = append(parts, id)
		}
		for j := range parts {
			parts[j] = strconv.Quote(parts[j])
		}
		list[i] = strings.Join(parts, " ")
	}
	return list
}

// differAt is the number of messages that two conversations begin with in common, apart
// from ids of calls, and from reasoning unless it counts.
func differAt(a, b []chat.Message, reasoning bool) int {
	first, second := contents(a, reasoning), contents(b, reasoning)
	for i := range min(len(a), len(b)) {
		if first[i] != second[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// sameSides reports whether the sides of a pair say the same.
func sameSides(a, b []chat.Message) bool {
	a, b = upToAnswer(a), upToAnswer(b)
	return len(a) == len(b) && differAt(a, b, true) == len(a)
}

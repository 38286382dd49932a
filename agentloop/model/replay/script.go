package replay

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Script lists the conversations a server can play. See Parse for its text form.
type Script struct {
	Conversations []Conversation
}

// Conversation is what is played for the prompts it matches. Of several that
// match a prompt the first is taken.
type Conversation struct {
	Match Match
	// Variants are played in turn: the k-th conversation opened with one prompt
	// gets variant k modulo their number.
	Variants []Variant
}

// Match chooses prompts; a prompt is the text of the first user message of a
// request. Exactly one field is set.
type Match struct {
	Text     string // the whole prompt, but for white space at its ends
	Contains string // a part of the prompt
	Regexp   string // an expression that is found in the prompt; "." also matches line breaks
}

// Variant is one course of a conversation.
type Variant struct {
	Turns []Turn
}

// Turn is one answer of the model.
type Turn struct {
	Reasoning    string
	Content      string
	Calls        []Call
	FinishReason string        // "" means "tool_calls" with calls and "stop" without
	Delay        time.Duration // waited before the answer, on top of Options.Latency
}

// Call is one tool call. Arguments is the text the model writes, normally a JSON object.
type Call struct {
	Name      string
	Arguments string
}

// matcher is a Match made ready.
type matcher struct {
	match  Match
	regexp *regexp.Regexp
}

func (m Match) compile() (matcher, error) {
	set := 0
	for _, s := range []string{m.Text, m.Contains, m.Regexp} {
		if s != "" {
			set++
		}
	}
	if set != 1 {
		return matcher{}, errors.New("a match needs exactly one of text, contains and regexp")
	}
	if m.Regexp == "" {
		m.Text = strings.TrimSpace(m.Text)
		if m.Text == "" && m.Contains == "" {
			return matcher{}, errors.New("the text to match is blank")
		}
		return matcher{match: m}, nil
	}
	compiled, err := regexp.Compile("(?s)" + m.Regexp)
	if err != nil {
		return matcher{}, fmt.Errorf("regexp %q does not compile: %w", m.Regexp, err)
	}
	return matcher{m, compiled}, nil
}

func (m *matcher) matches(prompt string) bool {
	switch {
	case m.regexp != nil:
		return m.regexp.MatchString(prompt)
	case m.match.Contains != "":
		return strings.Contains(prompt, m.match.Contains)
	}
	return strings.TrimSpace(prompt) == m.match.Text
}

// Validate reports everything that is wrong with a script, joined into one error.
func (s *Script) Validate() error {
	_, err := s.compile()
	return err
}

func (s *Script) compile() ([]matcher, error) {
	var problems []error
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(s.Conversations) == 0 {
		report("the script has no conversations")
	}
	matchers := make([]matcher, len(s.Conversations))
	texts := make(map[string]int)
	for i, c := range s.Conversations {
		m, err := c.Match.compile()
		if err != nil {
			report("conversation %d: %w", i+1, err)
		}
		matchers[i] = m
		if m.match.Text != "" {
			if first, ok := texts[m.match.Text]; ok {
				report("conversation %d matches the same text as conversation %d, which hides it", i+1, first+1)
			} else {
				texts[m.match.Text] = i
			}
		}
		if len(c.Variants) == 0 {
			report("conversation %d has no variants", i+1)
		}
		for j, v := range c.Variants {
			if len(v.Turns) == 0 {
				report("conversation %d, variant %d has no turns", i+1, j+1)
			}
			for k, t := range v.Turns {
				if t.Delay < 0 {
					report("conversation %d, variant %d, turn %d: the delay is negative", i+1, j+1, k+1)
				}
				for n, call := range t.Calls {
					if call.Name == "" {
						report("conversation %d, variant %d, turn %d: call %d has no name", i+1, j+1, k+1, n+1)
					}
				}
			}
		}
	}
	return matchers, errors.Join(problems...)
}

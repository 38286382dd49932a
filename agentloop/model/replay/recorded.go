package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/tidwall/gjson"
)

// FromRollouts makes a script of recorded rollouts: JSON lines with a list
// "messages" each, as in a run's rollouts.jsonl. The assistant messages of a line
// become a variant for its first user message, in the order of the lines. Lines
// without an assistant message are passed over, and so is a torn last line.
func FromRollouts(r io.Reader) (*Script, error) {
	var s Script
	byPrompt := make(map[string]int)
	reader := bufio.NewReaderSize(r, 1<<20)
	for number := 1; ; number++ {
		line, readErr := reader.ReadBytes('\n')
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return nil, fmt.Errorf("read recorded rollouts, line %d: %w", number, readErr)
		}
		torn := readErr != nil && !json.Valid(line) // the writer was stopped in the middle
		if text := bytes.TrimSpace(line); len(text) > 0 && !torn {
			prompt, variant, err := recordedVariant(text)
			if err != nil {
				return nil, fmt.Errorf("read recorded rollouts, line %d: %w", number, err)
			}
			if len(variant.Turns) > 0 {
				i, ok := byPrompt[prompt]
				if !ok {
					i = len(s.Conversations)
					byPrompt[prompt] = i
					s.Conversations = append(s.Conversations, Conversation{Match: Match{Text: prompt}})
				}
				s.Conversations[i].Variants = append(s.Conversations[i].Variants, variant)
			}
		}
		if readErr != nil {
			break
		}
	}
	if len(s.Conversations) == 0 {
		return nil, errors.New("read recorded rollouts: no line holds a conversation with an answer of the model")
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("read recorded rollouts: %w", err)
	}
	return &s, nil
}

func recordedVariant(line []byte) (prompt string, v Variant, err error) {
	if !json.Valid(line) {
		return "", Variant{}, errors.New("not valid JSON")
	}
	messages := gjson.GetBytes(line, "messages")
	if !messages.IsArray() {
		return "", Variant{}, errors.New(`want an object with a list "messages"`)
	}
	asked := false
	messages.ForEach(func(_, item gjson.Result) bool {
		var m chat.Message
		if m, err = chat.Decode([]byte(item.Raw)); err != nil {
			return false
		}
		switch {
		case m.Role() == chat.RoleUser && !asked:
			prompt, asked = promptText(m), true
		case m.Role() == chat.RoleAssistant:
			t := Turn{Reasoning: m.NativeReasoning(), Content: m.Text()}
			for _, c := range m.ToolCalls() {
				t.Calls = append(t.Calls, Call{Name: c.Name, Arguments: c.Arguments})
			}
			v.Turns = append(v.Turns, t)
		}
		return true
	})
	if err == nil && prompt == "" && len(v.Turns) > 0 {
		err = errors.New("the conversation has no user message with text")
	}
	return prompt, v, err
}

package prompts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/reward/rowtext"
)

// prompter makes the messages that rollouts of a row start with.
type prompter struct {
	own      Config
	template *rowtext.Template // nil without prompt_template
	prefill  []chat.Message
}

func newPrompter(own Config) (*prompter, error) {
	p := &prompter{own: own}
	var err error
	if own.PromptTemplate != "" {
		if p.template, err = rowtext.Parse(own.PromptTemplate); err != nil {
			return nil, fmt.Errorf("prompt_template: %w", err)
		}
	}
	if p.prefill, err = own.prefill(); err != nil {
		return nil, fmt.Errorf("prefill_messages: %w", err)
	}
	return p, nil
}

// messages returns the messages of a row: its system message, the prefill, what the row brings, the prompt.
func (p *prompter) messages(row []byte) ([]chat.Message, error) {
	var list []chat.Message
	system, err := p.system(row)
	if err != nil {
		return nil, err
	}
	if p.own.MessagesField != "" {
		own, err := rowMessages(row, p.own.MessagesField)
		if err != nil {
			return nil, err
		}
		if own[0].Role() == chat.RoleSystem {
			if system == "" {
				list = append(list, own[0])
			}
			own = own[1:]
		}
		if system != "" {
			list = append(list, chat.System(system))
		}
		if err := p.checkLength(own[len(own)-1].Text()); err != nil {
			return nil, err
		}
		return append(append(list, p.prefill...), own...), nil
	}
	if system != "" {
		list = append(list, chat.System(system))
	}
	text, err := p.prompt(row)
	if err != nil {
		return nil, err
	}
	return append(append(list, p.prefill...), chat.User(text)), nil
}

func (p *prompter) system(row []byte) (string, error) {
	if p.own.SystemField == "" {
		return "", nil
	}
	v, ok := rowtext.Lookup(row, p.own.SystemField)
	if !ok || v.Type == gjson.Null {
		return "", nil // env.system_prompt, if there is one
	}
	text, err := rowtext.String(row, p.own.SystemField)
	if err != nil {
		return "", fmt.Errorf("system_field: %w", err)
	}
	return text, nil
}

func (p *prompter) prompt(row []byte) (text string, err error) {
	if p.template != nil {
		if text, err = p.template.Fill(row, nil); err != nil {
			return "", fmt.Errorf("prompt_template: %w", err)
		}
	} else if text, err = rowtext.String(row, p.own.PromptField); err != nil {
		return "", fmt.Errorf("prompt_field: %w", err)
	}
	if strings.TrimSpace(text) == "" {
		return "", errors.New("the prompt is empty")
	}
	return text, p.checkLength(text)
}

func (p *prompter) checkLength(text string) error {
	if limit := p.own.MaxPromptChars; limit > 0 {
		if n := utf8.RuneCountInString(text); n > limit {
			return fmt.Errorf("the prompt has %d characters, more than max_prompt_chars %d", n, limit)
		}
	}
	return nil
}

// rowMessages reads a row's messages up to the last one of the user.
func rowMessages(row []byte, field string) ([]chat.Message, error) {
	v, ok := rowtext.Lookup(row, field)
	if !ok {
		return nil, fmt.Errorf("messages_field: %w", &rowtext.MissingError{Path: field, Columns: rowtext.Columns(row)})
	}
	text := v.Raw
	if v.Type == gjson.String { // some datasets keep the list as JSON in text
		text = v.String()
	}
	if parsed := gjson.Parse(text); !chat.Valid([]byte(text)) || !parsed.IsArray() {
		return nil, fmt.Errorf("messages_field: %w", &rowtext.TypeError{Path: field, Want: "a list of messages", Got: rowtext.Describe(v)})
	}
	list, err := readMessages(gjson.Parse(text).Array())
	if err != nil {
		return nil, fmt.Errorf("messages_field %q: %w", field, err)
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Role() == chat.RoleUser {
			if strings.TrimSpace(list[i].Text()) == "" {
				return nil, fmt.Errorf("messages_field %q: the last message of the user is empty", field)
			}
			return list[:i+1], nil
		}
	}
	return nil, fmt.Errorf("messages_field %q: no message of the user in it", field)
}

// readMessages reads messages in the OpenAI shape (role, content) or the ShareGPT one (from, value).
func readMessages(values []gjson.Result) ([]chat.Message, error) {
	var list []chat.Message
	for i, v := range values {
		m, err := readMessage(v)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		list = append(list, m)
	}
	return list, nil
}

func readMessage(v gjson.Result) (chat.Message, error) {
	from := v.Get("from")
	if !v.IsObject() || v.Get("role").Exists() || !from.Exists() {
		m, err := chat.Decode([]byte(v.Raw))
		if err != nil {
			return m, err
		}
		content := v.Get("content")
		switch m.Role() {
		case chat.RoleSystem, chat.RoleUser:
			if content.Type != gjson.String && !content.IsArray() {
				return m, fmt.Errorf("its content is %s, want text", rowtext.Describe(content))
			}
		case chat.RoleAssistant, chat.RoleTool:
		default:
			return m, fmt.Errorf("no such role %q; there are system, user, assistant, tool", m.Role())
		}
		return m, nil
	}
	value := v.Get("value")
	if value.Type != gjson.String {
		return chat.Message{}, fmt.Errorf("its value is %s, want text", rowtext.Describe(value))
	}
	switch from.String() {
	case "system":
		return chat.System(value.String()), nil
	case "human", "user":
		return chat.User(value.String()), nil
	case "gpt", "assistant", "model":
		return chat.Assistant(value.String(), ""), nil
	}
	return chat.Message{}, fmt.Errorf("can't take a message from %q; there are system, human, gpt", from.String())
}

// prefill reads the example messages of the configuration.
func (c *Config) prefill() ([]chat.Message, error) {
	var values []gjson.Result
	for _, raw := range c.PrefillMessages {
		values = append(values, gjson.ParseBytes(raw))
	}
	if c.PrefillMessagesFile != "" {
		text, err := os.ReadFile(c.PrefillMessagesFile)
		if err != nil {
			return nil, err
		}
		text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\xEF\xBB\xBF")))
		if bytes.HasPrefix(text, []byte("[")) {
			if !chat.Valid(text) {
				return nil, errors.New("the file is no valid JSON")
			}
			values = gjson.ParseBytes(text).Array()
		} else {
			for i, line := range bytes.Split(text, []byte("\n")) {
				if line = bytes.TrimSpace(line); len(line) == 0 {
					continue
				}
				if !chat.Valid(line) {
					return nil, fmt.Errorf("line %d is no valid JSON", i+1)
				}
				values = append(values, gjson.ParseBytes(line))
			}
		}
	}
	list, err := readMessages(values)
	if err != nil {
		return nil, err
	}
	for i, m := range list {
		if m.Role() == chat.RoleSystem {
			return nil, fmt.Errorf("message %d: a system message belongs into system_prompt or system_field", i+1)
		}
	}
	return list, nil
}

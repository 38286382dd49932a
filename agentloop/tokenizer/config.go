package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Config is what stands beside tokenizer.json in a model's folder and matters to
// whoever renders and samples conversations.
type Config struct {
	BOSToken, EOSToken, PadToken, UnkToken string // "" where the model has none

	// ChatTemplates by name; "default" is the one for conversations.
	ChatTemplates map[string]string
	// EOSTokenIDs end a generation, from generation_config.json; nil where it says none.
	EOSTokenIDs []int
}

// LoadConfig reads tokenizer_config.json, special_tokens_map.json,
// generation_config.json and the files of chat templates from a model's folder.
// Each of them may be missing.
func LoadConfig(dir string) (Config, error) {
	c := Config{ChatTemplates: map[string]string{}}
	for _, name := range []string{"special_tokens_map.json", "tokenizer_config.json"} {
		if err := readOptional(dir, name, c.readTokens); err != nil {
			return c, err
		}
	}
	if err := readOptional(dir, "chat_template.json", c.readTemplates); err != nil {
		return c, err
	}
	if err := readOptional(dir, "generation_config.json", c.readGeneration); err != nil {
		return c, err
	}
	return c, c.readTemplateFiles(dir)
}

func readOptional(dir, name string, parse func([]byte) error) error {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = parse(data)
	}
	if err != nil {
		return fmt.Errorf("read the tokenizer's configuration %s: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// token is written as its text, as an object with its content, or as null.
type token string

func (t *token) UnmarshalJSON(data []byte) error {
	if isNull(data) {
		return nil
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		*t = token(text)
		return nil
	}
	var object struct {
		Content *string `json:"content"`
	}
	if err := json.Unmarshal(data, &object); err != nil || object.Content == nil {
		return fmt.Errorf("%.100s is not a token", data)
	}
	*t = token(*object.Content)
	return nil
}

func (c *Config) readTokens(data []byte) error {
	var f struct {
		BOS token `json:"bos_token"`
		EOS token `json:"eos_token"`
		Pad token `json:"pad_token"`
		Unk token `json:"unk_token"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	for to, from := range map[*string]token{&c.BOSToken: f.BOS, &c.EOSToken: f.EOS, &c.PadToken: f.Pad, &c.UnkToken: f.Unk} {
		if from != "" {
			*to = string(from)
		}
	}
	return c.readTemplates(data)
}

// readTemplates takes chat_template as one text or as a list of named ones.
func (c *Config) readTemplates(data []byte) error {
	var f struct {
		ChatTemplate json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if isNull(f.ChatTemplate) {
		return nil
	}
	var one string
	if json.Unmarshal(f.ChatTemplate, &one) == nil {
		c.ChatTemplates["default"] = one
		return nil
	}
	var named []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(f.ChatTemplate, &named); err != nil {
		return fmt.Errorf("chat_template is neither a text nor a list of named ones: %w", err)
	}
	for _, t := range named {
		c.ChatTemplates[t.Name] = t.Template
	}
	return nil
}

// readTemplateFiles reads chat_template.jinja and additional_chat_templates, which
// win over what the JSON files say.
func (c *Config) readTemplateFiles(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "additional_chat_templates", "*.jinja"))
	if err != nil {
		return fmt.Errorf("look for chat templates in %s: %w", dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a chat template: %w", err)
		}
		c.ChatTemplates[strings.TrimSuffix(filepath.Base(file), ".jinja")] = string(text)
	}
	return readOptional(dir, "chat_template.jinja", func(data []byte) error {
		c.ChatTemplates["default"] = string(data)
		return nil
	})
}

func (c *Config) readGeneration(data []byte) error {
	var f struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if isNull(f.EOS) {
		return nil
	}
	var one int
	if json.Unmarshal(f.EOS, &one) == nil {
		c.EOSTokenIDs = []int{one}
		return nil
	}
	if err := json.Unmarshal(f.EOS, &c.EOSTokenIDs); err != nil {
		return fmt.Errorf("eos_token_id is neither an id nor a list of ids: %w", err)
	}
	return nil
}

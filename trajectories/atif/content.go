package atif

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Content is a text, or since version 1.6 a list of text and image parts.
type Content struct {
	Text  string
	Parts []Part // nil for a plain text
}

// Part is one part of a multimodal content.
type Part struct {
	Type   string       `json:"type"`           // "text" or "image"
	Text   string       `json:"text,omitempty"` // of a text part
	Source *ImageSource `json:"source,omitempty"`
}

// ImageSource says where an image is: a path relative to the document, or a URL.
type ImageSource struct {
	MediaType string `json:"media_type"` // image/jpeg, image/png, image/gif or image/webp
	Path      string `json:"path"`
}

// String returns the text, the text parts joined and an image as its path in brackets.
func (c Content) String() string {
	if c.Parts == nil {
		return c.Text
	}
	var b strings.Builder
	for i, p := range c.Parts {
		if i > 0 {
			b.WriteByte('\n')
		}
		if p.Source != nil {
			b.WriteString("[image " + p.Source.Path + "]")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// MarshalJSON writes a string, or a list when there are parts.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Parts == nil {
		return chat.AppendString(nil, c.Text), nil
	}
	return chat.Marshal(c.Parts)
}

// UnmarshalJSON reads a string, a list of parts, or null as the empty text.
func (c *Content) UnmarshalJSON(raw []byte) error {
	*c = Content{}
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case raw[0] == '"':
		return json.Unmarshal(raw, &c.Text)
	case raw[0] == '[':
		c.Parts = []Part{}
		return json.Unmarshal(raw, &c.Parts)
	}
	return errors.New("content is neither a string nor a list of parts")
}

// MarshalJSON keeps the text of an empty text part, which is required there.
func (p Part) MarshalJSON() ([]byte, error) {
	raw := chat.AppendString([]byte(`{"type":`), p.Type)
	if p.Type == "text" {
		raw = chat.AppendString(append(raw, `,"text":`...), p.Text)
	}
	if p.Source != nil {
		source, err := chat.Marshal(p.Source)
		if err != nil {
			return nil, err
		}
		raw = append(append(raw, `,"source":`...), source...)
	}
	return append(raw, '}'), nil
}

// mediaTypes are the image types that the format knows, by the end of a file name.
func mediaTypes() map[string]string {
	return map[string]string{".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".gif": "image/gif", ".webp": "image/webp"}
}

func knownMediaType(mediaType string) bool {
	for _, known := range mediaTypes() {
		if known == mediaType {
			return true
		}
	}
	return false
}

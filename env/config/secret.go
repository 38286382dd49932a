package config

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
)

// Redacted stands in for a secret wherever one would be shown.
const Redacted = "[redacted]"

var variablePattern = regexp.MustCompile(`^\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})$`)

// Secret is text that no formatting verb, encoder or logger shows. In a config a
// secret is written as text, or as $NAME or ${NAME} to take it from a variable.
type Secret struct {
	text  string
	name  string // the variable it comes from, "" for one written out
	given bool   // distinguishes an empty secret from none
}

// NewSecret returns a secret with the given text.
func NewSecret(text string) Secret { return Secret{text: text, given: true} }

// Reveal returns the text itself. Call it where the secret is used, nowhere else.
func (s Secret) Reveal() string { return s.text }

// IsSet reports whether there is a non-empty text.
func (s Secret) IsSet() bool { return s.text != "" }

// String returns a stand-in: "" without a secret, "$NAME" for one that comes from a
// variable, and Redacted otherwise.
func (s Secret) String() string {
	switch {
	case s.reference() != "":
		return s.reference()
	case s.text != "":
		return Redacted
	}
	return ""
}

// reference returns "$NAME" for a secret that comes, or is to come, from a variable.
func (s Secret) reference() string {
	if s.name != "" {
		return "$" + s.name
	}
	if name, ok := s.variable(); ok && name != "" {
		return "$" + name
	}
	return ""
}

// Format writes the stand-in for every verb, %#v included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalJSON writes the stand-in, or null when nothing was given.
func (s Secret) MarshalJSON() ([]byte, error) {
	if !s.given {
		return []byte("null"), nil
	}
	return encodeText(s.String()), nil
}

// MarshalText writes the stand-in.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML writes the stand-in, or null when nothing was given.
func (s Secret) MarshalYAML() (any, error) {
	if !s.given {
		return nil, nil
	}
	return s.String(), nil
}

// LogValue logs the stand-in.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// variable returns the NAME of a secret written as $NAME or ${NAME}. ok is false
// for one that starts with $ but is neither.
func (s Secret) variable() (name string, ok bool) {
	if s.text == "" || s.text[0] != '$' {
		return "", true
	}
	m := variablePattern.FindStringSubmatch(s.text)
	if m == nil {
		return "", false
	}
	return m[1] + m[2], true
}

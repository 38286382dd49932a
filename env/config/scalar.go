package config

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

var (
	leadingZero = regexp.MustCompile(`^[-+]?0[0-9_]+$`)
	jsonNumber  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// kindOf returns the short tag of a node, "!!str" for everything quoted.
func kindOf(n *yaml.Node) string { return n.ShortTag() }

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && kindOf(n) == "!!null" }

// describe returns what a node holds, in words that follow "got".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	}
	switch kindOf(n) {
	case "!!null":
		if n.Value == "" {
			return "nothing"
		}
		return "null"
	case "!!str":
		return textutil.Quote(n.Value, maxQuoted)
	}
	return textutil.Shorten(n.Value, maxQuoted)
}

// maxQuoted is how many characters of a value messages show.
const maxQuoted = 60

// parseBool reads the words for true and false that YAML 1.1, Python and the
// original command line know.
func parseBool(n *yaml.Node) (bool, bool) {
	if n.Kind != yaml.ScalarNode {
		return false, false
	}
	switch strings.ToLower(n.Value) {
	case "true", "yes", "on", "1":
		return true, true
	case "false", "no", "off", "0":
		return false, true
	}
	return false, false
}

// parseInt reads an integer. A number such as 60.0 is one. reason is "" on success
// and otherwise follows "want an integer".
func parseInt(n *yaml.Node) (v int64, reason string) {
	got := ", got " + describe(n)
	if n.Kind != yaml.ScalarNode {
		return 0, got
	}
	switch tag := kindOf(n); {
	case tag == "!!str":
		if _, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			got = ", got the text " + textutil.Quote(n.Value, maxQuoted) + "; remove the quotes"
		}
		return 0, got
	case leadingZero.MatchString(n.Value):
		return 0, got + "; leave out the leading zero"
	case tag == "!!int":
		v, err := strconv.ParseInt(n.Value, 0, 64)
		if err != nil {
			return 0, got
		}
		return v, ""
	case tag == "!!float":
		f, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return 0, got
		}
		return int64(f), ""
	}
	return 0, got
}

// parseFloat reads a finite number. reason is "" on success.
func parseFloat(n *yaml.Node) (v float64, reason string) {
	got := ", got " + describe(n)
	if n.Kind != yaml.ScalarNode {
		return 0, got
	}
	switch tag := kindOf(n); tag {
	case "!!str":
		if jsonNumber.MatchString(n.Value) {
			got = ", got the text " + textutil.Quote(n.Value, maxQuoted) + "; remove the quotes"
		}
	case "!!int", "!!float":
		text, ok := numberJSON(n)
		if !ok {
			return 0, got
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) {
			return 0, got
		}
		return f, ""
	}
	return 0, got
}

// numberJSON returns a YAML number as a JSON number and keeps the digits wherever
// JSON can hold them. ok is false for .inf, .nan and ambiguous notations.
func numberJSON(n *yaml.Node) (string, bool) {
	text := n.Value
	if jsonNumber.MatchString(text) {
		return text, true
	}
	if leadingZero.MatchString(text) {
		return "", false
	}
	if kindOf(n) == "!!int" {
		i, ok := new(big.Int).SetString(strings.TrimPrefix(text, "+"), 0)
		if !ok {
			return "", false
		}
		return i.String(), true
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", false
	}
	return formatFloat(f), true
}

// formatFloat returns the shortest JSON number that reads back as f.
func formatFloat(f float64) string {
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// checkNumber says what is wrong with a number's size, or returns "".
func (s *fieldSpec) checkNumber(v float64) string {
	unit := ""
	if s.typ == secondsType {
		unit = " seconds"
	}
	got := formatFloat(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "want a finite number"
	case s.min != nil && s.max != nil && *s.max < longestSeconds && (v < *s.min || v > *s.max):
		return fmt.Sprintf("want %s to %s%s, got %s", formatFloat(*s.min), formatFloat(*s.max), unit, got)
	case s.min != nil && v < *s.min:
		return fmt.Sprintf("want at least %s%s, got %s", formatFloat(*s.min), unit, got)
	case s.max != nil && v > *s.max:
		return fmt.Sprintf("want at most %s%s, got %s", formatFloat(*s.max), unit, got)
	case s.not != nil && v == *s.not:
		return fmt.Sprintf("%s is not allowed", got)
	}
	return ""
}

// checkChoice says what is wrong with a word, or returns "".
func (s *fieldSpec) checkChoice(v string) string {
	if len(s.choices) == 0 || s.nullable && v == "" {
		return ""
	}
	for _, c := range s.choices {
		if v == c {
			return ""
		}
	}
	msg := fmt.Sprintf("want one of %s, got %s", strings.Join(s.choices, ", "), textutil.Quote(v, maxQuoted))
	if n := textutil.Nearest(v, s.choices); n != "" {
		msg += fmt.Sprintf("; did you mean %q?", n)
	}
	return msg
}

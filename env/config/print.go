package config

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*$`)

// printedLine is a line of YAML and the remark behind it.
type printedLine struct{ text, remark string }

// WriteYAML writes the configuration as YAML that resolves to the same again, each
// value with a comment that says where it came from. Secrets are replaced. (Null in
// a file followed by an object in a flag drops an environment's default object; that
// one thing has no words in YAML.)
func (r *Resolved) WriteYAML(w io.Writer) error {
	lines := []printedLine{
		{fmt.Sprintf("# resolved for %s, digest %s", r.Mode, r.Digest), ""},
		{"environment: " + yamlText(r.Environment), r.Origin("environment").String()},
		{"agent: " + yamlText(r.Agent), r.Origin("agent").String()},
		{"env:", ""},
	}
	lines = r.printFields(lines, r.env, "env", "  ")
	switch len(r.servers) {
	case 0:
	case 1:
		lines = r.printFields(append(lines, printedLine{"openai:", ""}), r.servers[0], "openai", "  ")
	default:
		lines = append(lines, printedLine{"openai:", ""})
		for i, s := range r.servers {
			from := len(lines)
			lines = r.printFields(lines, s, fmt.Sprintf("openai[%d]", i), "    ")
			lines[from].text = "  - " + strings.TrimPrefix(lines[from].text, "    ")
		}
	}
	width := 0
	for _, l := range lines {
		if n := utf8.RuneCountInString(l.text); l.remark != "" && n <= 60 {
			width = max(width, n)
		}
	}
	var out strings.Builder
	for _, l := range lines {
		out.WriteString(l.text)
		if l.remark != "" {
			out.WriteString(strings.Repeat(" ", max(0, width-utf8.RuneCountInString(l.text))))
			out.WriteString("  # " + strings.Map(printable, l.remark))
		}
		out.WriteByte('\n')
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	return nil
}

// printable keeps a comment on its line, whatever a file's name holds.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return '?'
	}
	return r
}

func (r *Resolved) printFields(lines []printedLine, fields []bound, path, indent string) []printedLine {
	for _, f := range fields {
		p := join(path, f.name)
		if f.shape == shapeObject {
			lines = append(lines, printedLine{indent + f.name + ":", ""})
			lines = r.printFields(lines, bindStruct(f.value, f.fields), p, indent+"  ")
			continue
		}
		text, remark := f.yaml(), r.Origin(p).String()
		if f.shape == shapeSecret {
			text, remark = r.printSecret(f, path, remark)
		}
		lines = append(lines, printedLine{indent + f.name + ": " + text, remark})
	}
	return lines
}

// printSecret writes a secret as the variable it comes from, or as nothing.
func (r *Resolved) printSecret(f bound, path, remark string) (text, rest string) {
	secret, _ := reflect.TypeAssert[Secret](f.value)
	var server *Server
	for i := range r.servers {
		if path == "openai" || path == fmt.Sprintf("openai[%d]", i) {
			server = &r.Servers[i]
		}
	}
	switch {
	case server != nil && f.name == "api_key" && server.APIKeyEnv != "":
		return "null", "see api_key_env"
	case secret.reference() != "":
		if server != nil && server.KeySource != "" && f.name == "api_key" {
			remark = server.KeySource
		}
		return yamlText(secret.reference()), remark
	case secret.IsSet():
		return "null", remark + ", not shown"
	}
	return f.yaml(), remark
}

// yaml returns a field's value in YAML, on one line.
func (b bound) yaml() string {
	text := string(b.appendJSON(nil, b.value))
	switch {
	case b.shape == shapeText && text != "null":
		return yamlText(b.text())
	case b.shape == shapeFloat && b.typ != secondsType && !strings.ContainsAny(text, ".e") && text != "null":
		return text + ".0"
	}
	return yamlEscape(text)
}

func (b bound) text() string {
	if b.pointer {
		return b.value.Elem().String()
	}
	return b.value.String()
}

// yamlText writes text plainly where every YAML reader takes it for text.
func yamlText(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
	default:
		if plainText.MatchString(s) {
			return s
		}
	}
	return yamlEscape(string(encodeText(s)))
}

// yamlEscape escapes the characters that JSON leaves in text and YAML refuses.
func yamlEscape(json string) string {
	var out strings.Builder
	for _, r := range json {
		if r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff || r == 0xfeff {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

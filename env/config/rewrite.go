package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// Setting is one field of the env: section with its value.
type Setting struct{ Name, Value string }

// Rewriter is implemented by an environment's own struct if earlier versions of it wrote
// some settings in another way.
type Rewriter interface {
	// RewriteSetting returns how a setting is written now, nil for one that is up to date.
	RewriteSetting(s Setting) []Setting
}

// rewrite brings the settings of the file and of the flags up to date, with a warning
// for each. A setting that the file has in its new form as well stays.
func (l *loader) rewrite() {
	rewriter, ok := l.config.Own.(Rewriter)
	if !ok {
		return
	}
	if section := l.top("env"); section != nil && section.Kind == yaml.MappingNode {
		l.rewriteSection(rewriter, section)
	}
	flags := make([]Flag, 0, len(l.Flags))
	for i, f := range l.Flags {
		name, own := strings.CutPrefix(f.Name, "env.")
		old := Setting{name, f.Value}
		now := []Setting(nil)
		if own {
			now = rewriter.RewriteSetting(old)
		}
		if now == nil {
			flags = append(flags, f)
			continue
		}
		if l.flagged(f.Name, i+1) {
			continue // a later flag of the name counts
		}
		l.report.warn(Origin{Kind: FromFlag, Name: f.Name}, f.Name, olderSpelling(old, now))
		for _, s := range now {
			flags = append(flags, Flag{Name: "env." + s.Name, Value: s.Value})
		}
	}
	l.Flags = flags
}

// flagged says whether a flag of the name is given, from a place in the list on.
func (l *loader) flagged(name string, from int) bool {
	return slices.ContainsFunc(l.Flags[from:], func(f Flag) bool { return f.Name == name })
}

func (l *loader) rewriteSection(rewriter Rewriter, section *yaml.Node) {
	var content []*yaml.Node
	var added []*yaml.Node
	for i := 0; i+1 < len(section.Content); i += 2 {
		key, value := section.Content[i], section.Content[i+1]
		old := Setting{key.Value, value.Value}
		var now []Setting
		if value.Kind == yaml.ScalarNode {
			now = rewriter.RewriteSetting(old)
		}
		if now == nil {
			content = append(content, key, value)
			continue
		}
		if l.flagged("env."+key.Value, 0) {
			continue // a flag overrides all that the older spelling says
		}
		l.report.warn(l.fileOrigin().at(value), "env."+key.Value, olderSpelling(old, now))
		for _, s := range now {
			if s.Name != key.Value && lookup(section, s.Name) != nil {
				continue
			}
			name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s.Name, Line: key.Line, Column: key.Column}
			node := &yaml.Node{Kind: yaml.ScalarNode, Value: s.Value, Line: value.Line, Column: value.Column}
			node.Tag = node.ShortTag()
			added = append(added, name, node)
		}
	}
	section.Content = append(content, added...)
}

// olderSpelling says how a setting is written now.
func olderSpelling(old Setting, now []Setting) string {
	words := make([]string, len(now))
	for i, s := range now {
		words[i] = s.Name + ": " + s.Value
	}
	return fmt.Sprintf("%s is an older spelling, now written %s", textutil.Shorten(old.Value, maxQuoted), strings.Join(words, " and "))
}

// Upgrade returns a configuration, or the part of it that can affect results, that an
// earlier version recorded, with its settings as they are written now.
func (r *Resolved) Upgrade(recorded json.RawMessage) json.RawMessage {
	rewriter, ok := r.Own.(Rewriter)
	if !ok {
		return recorded
	}
	whole, ok := members(recorded)
	if !ok {
		return recorded
	}
	for i, m := range whole {
		if section, ok := members(m.value); ok && m.key == "env" {
			whole[i].value = objectOf(upgradeSection(rewriter, section))
		}
	}
	return objectOf(whole)
}

func upgradeSection(rewriter Rewriter, section []member) []member {
	var out []member
	for _, m := range section {
		var text string
		var now []Setting
		if json.Unmarshal(m.value, &text) == nil {
			now = rewriter.RewriteSetting(Setting{m.key, text})
		}
		if now == nil {
			out = append(out, m)
			continue
		}
		for _, s := range now {
			value := json.RawMessage(s.Value)
			if !json.Valid(value) {
				value = encodeText(s.Value)
			}
			out = append(out, member{s.Name, value})
		}
	}
	return out
}

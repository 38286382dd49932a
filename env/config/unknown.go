package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// unknownKey answers for keys of a section that are no fields.
func (l *loader) unknownKey(section string) func(*decoder, *yaml.Node, *yaml.Node, string, []string) {
	return func(d *decoder, key, value *yaml.Node, path string, known []string) {
		name := textutil.Shorten(key.Value, maxQuoted)
		// An unknown environment may have had this field.
		if section == "env" && !l.known {
			return
		}
		direct := strings.Count(path, ".") == 1 && !strings.Contains(key.Value, ".")
		if direct && l.unsupported(d.origin.at(key), section, key.Value, value, path) {
			return
		}
		path = strings.TrimSuffix(path, key.Value) + name
		d.problem(key, path, "unknown key; "+l.hint(key.Value, section, known))
	}
}

// unknownTop answers for a top-level key that is none.
func (l *loader) unknownTop(key, value *yaml.Node) {
	o := l.fileOrigin().at(key)
	if l.unsupported(o, "", key.Value, value, key.Value) {
		return
	}
	l.report.at(o, textutil.Shorten(key.Value, maxQuoted), "unknown key; "+l.hint(key.Value, "", []string{"environment", "agent", "env", "openai"}))
}

// hint says which key was probably meant.
func (l *loader) hint(name, section string, known []string) string {
	for _, other := range []string{"env", "openai"} {
		if other != section && slices.Contains(l.sectionNames(other), name) {
			return fmt.Sprintf("it belongs in the section %q", other+":")
		}
	}
	if n := textutil.Nearest(name, known); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	if len(known) <= 12 {
		return "the keys here are " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("no key of %s has a similar name", section)
}

func (l *loader) sectionNames(section string) []string {
	if section == "env" {
		return leafNames(l.env, "")
	}
	s := NewServer()
	specs, err := structSpecs(serverType, "")
	if err != nil {
		return nil
	}
	return leafNames(bindStruct(valueOf(&s), specs), "")
}

func (l *loader) unknownFlag(f Flag) {
	o := Origin{Kind: FromFlag, Name: f.Name}
	section, name, ok := strings.Cut(f.Name, ".")
	if !ok {
		section, name = "", f.Name
	}
	if section == "env" && !l.known {
		return
	}
	spec := &fieldSpec{shape: shapeBool, nullable: true}
	if n, err := flagNode(spec, f.Value); err == nil && l.unsupported(o, section, name, n, f.Name) {
		return
	}
	message := "unknown flag"
	if n := l.nearestFlag(f.Name); n != "" {
		message += fmt.Sprintf("; did you mean --%s?", n)
	}
	l.report.at(o, f.Name, message)
}

// nearestFlag looks for a similar name beside the given one, and in every section
// when it has no section or one that doesn't exist.
func (l *loader) nearestFlag(name string) string {
	all := []string{"environment", "agent"}
	for _, s := range []string{"env", "openai"} {
		for _, n := range l.sectionNames(s) {
			all = append(all, s+"."+n)
		}
	}
	dot := strings.LastIndexByte(name, '.') + 1
	var beside []string
	for _, n := range all {
		if rest, ok := strings.CutPrefix(n, name[:dot]); ok && !strings.Contains(rest, ".") {
			beside = append(beside, rest)
		}
	}
	if n := textutil.Nearest(name[dot:], beside); n != "" {
		return name[:dot] + n
	}
	if len(beside) > 0 && dot > 0 {
		return ""
	}
	if i := slices.IndexFunc(all, func(n string) bool { return strings.HasSuffix(n, "."+name) }); i >= 0 {
		return all[i]
	}
	return textutil.Nearest(name, all)
}

// unsupported answers for a field of the original framework that does nothing here.
// It returns false for any other name.
func (l *loader) unsupported(o Origin, section, name string, value *yaml.Node, path string) bool {
	for _, u := range Unsupported() {
		if u.Section != section || u.Name != name {
			continue
		}
		if isNull(value) || u.Harmless && value.Kind == yaml.ScalarNode || value.Kind == yaml.ScalarNode && slices.Contains(u.inert, strings.ToLower(value.Value)) {
			return true
		}
		if l.AllowUnsupported {
			l.report.warn(o, path, "has no effect here ("+u.Why+")")
			return true
		}
		l.report.at(o, path, fmt.Sprintf("known from the original framework but not supported here yet (%s); "+
			"remove it, or pass --allow-unsupported to run without it", u.Why))
		return true
	}
	return false
}

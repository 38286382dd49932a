package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// inferEnvironment finds the environment of a file that names none: files of the
// original framework belong to a program and don't say which. It reports the choice as a
// warning, or why there is none, and then returns nil.
func (l *loader) inferEnvironment() *Environment {
	names := strings.Join(environmentNames(l.Environments), ", ")
	words, at := l.fileWords()
	if e, by, node := l.environmentOfDataset(); e != nil {
		return l.inferred(e, by, node)
	}
	for _, word := range words {
		for i, e := range l.Environments {
			if e.answersTo(word) {
				return l.inferred(&l.Environments[i], at[word], nil)
			}
		}
		if o := originalEnvironment(word); o != nil {
			l.report.at(l.fileOrigin(), "environment", fmt.Sprintf("none named, and by %s this is a file for %s; pass --environment NAME to run another one (there are %s)", at[word], o.absent(), names))
			return nil
		}
	}
	own, fit := l.environmentsWithKeys()
	switch {
	case len(fit) == 1 && len(own) > 0:
		return l.inferred(fit[0], "env."+strings.Join(own, ", env."), nil)
	case len(fit) == 0:
		if o := originalEnvironmentWithKeys(own); o != nil {
			l.report.at(l.fileOrigin(), "environment", fmt.Sprintf("none named, and by its keys this is a file for %s; pass --environment NAME to run another one (there are %s)", o.absent(), names))
			return nil
		}
		if unknown := slices.DeleteFunc(slices.Clone(own), func(key string) bool {
			return slices.ContainsFunc(l.Environments, func(e Environment) bool { return e.hasOwn(key) })
		}); len(unknown) > 0 {
			own = unknown
		}
		l.report.at(l.fileOrigin(), "environment", fmt.Sprintf("none named, and no environment here has all of the file's keys (%s); pass --environment NAME to run one of %s, or write one that has them", shortList(own, 3), names))
		return nil
	case len(fit) < len(l.Environments):
		fitting := make([]string, len(fit))
		for i, e := range fit {
			fitting[i] = e.Name
		}
		names = strings.Join(fitting, ", ") + " with keys like these"
	}
	l.report.at(l.fileOrigin(), "environment", fmt.Sprintf("none named; add \"environment: NAME\" to the file or pass --environment NAME (there are %s)", names))
	return nil
}

// inferred records which environment the file is taken to be for.
func (l *loader) inferred(e *Environment, by string, node *yaml.Node) *Environment {
	origin := l.fileOrigin().at(node)
	l.origins["environment"] = origin
	l.report.warn(origin, "environment", fmt.Sprintf("none named, taken to be %s by %s; add \"environment: %s\" to the file to be sure", e.Name, by, e.Name))
	return e
}

// environmentOfDataset returns the environment whose own data set the file names.
func (l *loader) environmentOfDataset() (e *Environment, by string, node *yaml.Node) {
	node = lookup(l.top("env"), "dataset_name")
	if node == nil || wantText(node) != "" {
		return nil, "", nil
	}
	for i, e := range l.Environments {
		fields, err := e.Fields()
		if err != nil {
			continue // the Go type is wrong; found when the environment is chosen
		}
		if slices.ContainsFunc(fields, func(f Field) bool { return f.Name == "dataset_name" && f.Default == string(encodeText(node.Value)) }) {
			return &l.Environments[i], "env.dataset_name", node
		}
	}
	return nil, "", nil
}

// fileWords lists the words that may name the file's environment: env.wandb_name, the
// name of the file and those of the two folders around it. at says where each is from.
func (l *loader) fileWords() (words []string, at map[string]string) {
	at = map[string]string{}
	add := func(word, from string) {
		if _, ok := at[word]; !ok && word != "" {
			words, at[word] = append(words, word), from
		}
	}
	if n := lookup(l.top("env"), "wandb_name"); n != nil && n.Kind == yaml.ScalarNode && !isNull(n) {
		add(n.Value, "env.wandb_name")
	}
	path, err := filepath.Abs(l.File)
	if err != nil {
		path = l.File
	}
	add(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), "its name")
	for range 2 {
		path = filepath.Dir(path)
		add(filepath.Base(path), "its folder "+filepath.Base(path))
	}
	return words, at
}

// environmentsWithKeys returns the keys of the env: section that not every environment
// has, and the environments that have all of them.
func (l *loader) environmentsWithKeys() (own []string, fit []*Environment) {
	every, err := structSpecs(envType, "")
	section := l.top("env")
	if err != nil || section == nil || section.Kind != yaml.MappingNode {
		return nil, pointers(l.Environments)
	}
	for i := 0; i+1 < len(section.Content); i += 2 {
		key := section.Content[i].Value
		everywhere := slices.ContainsFunc(every, func(f *fieldSpec) bool { return f.name == key })
		inert := slices.ContainsFunc(Unsupported(), func(u UnsupportedField) bool { return u.Section == "env" && u.Name == key })
		if everywhere || inert && !slices.ContainsFunc(l.Environments, func(e Environment) bool { return e.hasOwn(key) }) {
			continue
		}
		own = append(own, key)
	}
	for _, e := range pointers(l.Environments) {
		if !slices.ContainsFunc(own, func(key string) bool { return !e.hasOwn(key) }) {
			fit = append(fit, e)
		}
	}
	return own, fit
}

// hasOwn reports whether a key of the env: section is the environment's own.
func (e Environment) hasOwn(key string) bool {
	fields, err := e.Fields()
	return err == nil && slices.ContainsFunc(fields, func(f Field) bool {
		return f.Own && (f.Name == key || strings.HasPrefix(f.Name, key+"."))
	})
}

// answersTo reports whether a word is one of the environment's other names.
func (e Environment) answersTo(word string) bool {
	return slices.ContainsFunc(e.Aliases, func(alias string) bool { return sameName(alias, word) })
}

// sameName compares names without regard to case, and to - and _.
func sameName(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, "-", "_"), strings.ReplaceAll(b, "-", "_"))
}

func environmentNames(list []Environment) []string {
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name
	}
	return names
}

func pointers(list []Environment) []*Environment {
	out := make([]*Environment, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// shortList joins the first few words of a list.
func shortList(words []string, most int) string {
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
}

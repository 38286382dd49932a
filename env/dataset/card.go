package dataset

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// card is the part of a dataset card (README.md) that says which files make which split.
type card struct {
	Configs []cardConfig `yaml:"configs"`
}

// cardConfig is one subset.
type cardConfig struct {
	Name      string    `yaml:"config_name"`
	Default   bool      `yaml:"default"`
	DataFiles yaml.Node `yaml:"data_files"`
	DataDir   string    `yaml:"data_dir"`
	Sep       string    `yaml:"sep"`
	Delimiter string    `yaml:"delimiter"`
}

// cardSplit is one split of a subset: globs relative to the card.
type cardSplit struct {
	name  string
	globs []string
}

// readCard reads the front matter of a README.md. Text without one, or with one that isn't about files, is an empty card.
func readCard(readme []byte) (card, error) {
	front, ok := frontMatter(readme)
	if !ok || !bytes.Contains(front, []byte("configs")) {
		return card{}, nil
	}
	var c card
	if err := yaml.Unmarshal(front, &c); err != nil {
		return card{}, fmt.Errorf("README.md: its front matter can't be read (name the files yourself to go without it): %w", err)
	}
	for i, config := range c.Configs {
		if config.Name == "" {
			return card{}, fmt.Errorf("README.md: configs[%d] has no config_name", i)
		}
	}
	return c, nil
}

// frontMatter returns what stands between the first two lines of three dashes.
func frontMatter(readme []byte) ([]byte, bool) {
	readme = bytes.TrimPrefix(readme, []byte("\xEF\xBB\xBF"))
	readme = bytes.ReplaceAll(readme, []byte("\r\n"), []byte("\n"))
	rest, ok := bytes.CutPrefix(readme, []byte("---\n"))
	if !ok {
		return nil, false
	}
	front, _, ok := bytes.Cut(rest, []byte("\n---"))
	return front, ok
}

// splits returns the subset's splits in the order of the card; none when the card leaves them to file names.
func (c *cardConfig) splits() ([]cardSplit, error) {
	wrong := func(n *yaml.Node, want string) error {
		return fmt.Errorf("README.md: data_files of config %q, line %d of the front matter: want %s", c.Name, n.Line, want)
	}
	node := &c.DataFiles
	switch node.Kind {
	case 0:
		return nil, nil
	case yaml.ScalarNode:
		return []cardSplit{{"train", []string{node.Value}}}, nil
	case yaml.MappingNode:
		var out []cardSplit
		for i := 0; i+1 < len(node.Content); i += 2 {
			globs, ok := globList(node.Content[i+1])
			if !ok {
				return nil, wrong(node.Content[i+1], "a path or a list of paths")
			}
			out = append(out, cardSplit{node.Content[i].Value, globs})
		}
		return out, nil
	case yaml.SequenceNode:
		if globs, ok := globList(node); ok {
			return []cardSplit{{"train", globs}}, nil
		}
		var out []cardSplit
		for _, item := range node.Content {
			var entry struct {
				Split string    `yaml:"split"`
				Path  yaml.Node `yaml:"path"`
			}
			if err := item.Decode(&entry); err != nil {
				return nil, wrong(item, "split and path")
			}
			globs, ok := globList(&entry.Path)
			if !ok || entry.Split == "" {
				return nil, wrong(item, "split and path")
			}
			out = append(out, cardSplit{entry.Split, globs})
		}
		return out, nil
	}
	return nil, wrong(node, "a path, a list of paths, or splits with their paths")
}

// globList reads a string or a list of strings.
func globList(n *yaml.Node) ([]string, bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{n.Value}, n.Value != ""
	case yaml.SequenceNode:
		var out []string
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode || item.Value == "" {
				return nil, false
			}
			out = append(out, item.Value)
		}
		return out, len(out) > 0
	}
	return nil, false
}

// pick returns the subset of a name; without a name the default one. nil with no error means the card has none.
func (c *card) pick(subset string) (*cardConfig, error) {
	if len(c.Configs) == 0 {
		return nil, nil
	}
	var names []string
	for i := range c.Configs {
		config := &c.Configs[i]
		if config.Name == subset || subset == "" && (config.Default || len(c.Configs) == 1) {
			return config, nil
		}
		names = append(names, config.Name)
	}
	if subset == "" {
		for i := range c.Configs {
			if c.Configs[i].Name == "default" {
				return &c.Configs[i], nil
			}
		}
		return nil, fmt.Errorf("%w: the dataset has several subsets and no default: name one of %s", ErrSplit, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%w: there is no subset %q; the subsets are %s", ErrSplit, subset, strings.Join(names, ", "))
}

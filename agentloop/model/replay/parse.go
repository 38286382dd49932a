package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"go.yaml.in/yaml/v3"
)

// Parse reads a script from YAML or JSON. The name stands for the source in
// error messages, which give the line of every problem found. The form is strict:
//
//	conversations:
//	  - match:                  # one of text, contains, regexp; see Match
//	      contains: hello.txt
//	    variants:               # or "turns: […]" for a single variant
//	      - turns:
//	          - reasoning: I write the file first.
//	            content: Let me do that.
//	            calls:
//	              - name: write_file
//	                arguments: {path: hello.txt, content: "Hello\n"}
//	            delay: 300ms
//	          - content: Done.
//	            finish_reason: stop
//
// Arguments are an object, which is sent as JSON with its keys in order, or a
// string, which is sent as it stands and so may be broken on purpose.
func Parse(name string, data []byte) (*Script, error) {
	p := &parser{name: name}
	var root *yaml.Node
	if text := bytes.TrimSpace(data); len(text) > 0 && text[0] == '{' && json.Valid(data) {
		root = jsonNodes(data)
	} else {
		var document yaml.Node
		if err := yaml.Unmarshal(data, &document); err != nil {
			return nil, fmt.Errorf("read replay script %s: %w", name, err)
		}
		if len(document.Content) != 1 {
			return nil, fmt.Errorf("read replay script %s: it is empty; want a list of conversations", name)
		}
		root = document.Content[0]
	}
	var s Script
	seen := p.mapping(root, "the script", fields{
		"conversations": func(n *yaml.Node) {
			p.list(n, "conversations", func(n *yaml.Node) { s.Conversations = append(s.Conversations, p.conversation(n)) })
		},
	})
	if !seen["conversations"] && len(p.problems) == 0 {
		p.report(root, "\"conversations\" is missing")
	}
	if len(p.problems) == 0 {
		if err := s.Validate(); err != nil {
			p.problems = append(p.problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(p.problems) > 0 {
		return nil, fmt.Errorf("read replay script: %w", errors.Join(p.problems...))
	}
	return &s, nil
}

// Bounds of a script, so that aliases within aliases can't grow without end.
const (
	maxNodes = 1 << 18
	maxDepth = 100
)

type parser struct {
	name     string
	problems []error
	nodes    int
}

type fields map[string]func(*yaml.Node)

func (p *parser) report(n *yaml.Node, format string, args ...any) {
	const most = 20 // a script of another kind would otherwise fill the screen
	switch len(p.problems) {
	case most:
		p.problems = append(p.problems, errors.New("… and more"))
		return
	case most + 1:
		return
	}
	p.problems = append(p.problems, fmt.Errorf("%s:%d: %s", p.name, n.Line, fmt.Sprintf(format, args...)))
}

// enter follows aliases and counts. It returns nil when the script is too large.
func (p *parser) enter(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if p.nodes++; p.nodes > maxNodes {
		if p.nodes == maxNodes+1 {
			p.report(n, "the script is too large: more than %d values once aliases are followed", maxNodes)
		}
		return nil
	}
	return n
}

// mapping hands the values of an object to the functions of their keys.
func (p *parser) mapping(n *yaml.Node, what string, known fields) map[string]bool {
	seen := make(map[string]bool)
	if n = p.enter(n); n == nil {
		return seen
	}
	if n.Kind != yaml.MappingNode {
		p.report(n, "%s must be an object with %s, not %s", what, keyList(known), describe(n))
		return seen
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, ok := known[key.Value]
		switch {
		case !ok || key.Kind != yaml.ScalarNode:
			p.report(key, "unknown key %q in %s: want %s", key.Value, what, keyList(known))
		case seen[key.Value]:
			p.report(key, "key %q appears twice in %s", key.Value, what)
		default:
			seen[key.Value] = true
			read(value)
		}
	}
	return seen
}

func keyList(known fields) string {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

func (p *parser) list(n *yaml.Node, what string, item func(*yaml.Node)) {
	if n = p.enter(n); n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode {
		p.report(n, "%q must be a list, not %s", what, describe(n))
		return
	}
	for _, child := range n.Content {
		item(child)
	}
}

func (p *parser) text(n *yaml.Node, what string) string {
	if n = p.enter(n); n == nil {
		return ""
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		p.report(n, "%q must be text, not %s", what, describe(n))
		return ""
	}
	return n.Value
}

func (p *parser) conversation(n *yaml.Node) Conversation {
	var c Conversation
	var single *Variant
	seen := p.mapping(n, "a conversation", fields{
		"match": func(n *yaml.Node) {
			matched := p.mapping(n, "a match", fields{
				"text":     func(n *yaml.Node) { c.Match.Text = p.text(n, "text") },
				"contains": func(n *yaml.Node) { c.Match.Contains = p.text(n, "contains") },
				"regexp":   func(n *yaml.Node) { c.Match.Regexp = p.text(n, "regexp") },
			})
			if _, err := c.Match.compile(); err != nil && len(matched) > 0 {
				p.report(n, "%s", err)
			}
		},
		"variants": func(n *yaml.Node) {
			p.list(n, "variants", func(n *yaml.Node) {
				var v Variant
				p.mapping(n, "a variant", fields{"turns": func(n *yaml.Node) { v = p.variant(n) }})
				c.Variants = append(c.Variants, v)
			})
		},
		"turns": func(n *yaml.Node) { v := p.variant(n); single = &v },
	})
	switch {
	case single != nil && seen["variants"]:
		p.report(n, "a conversation has either variants or turns, not both")
	case single != nil:
		c.Variants = []Variant{*single}
	}
	if !seen["match"] && n.Kind == yaml.MappingNode {
		p.report(n, "a conversation needs a match")
	}
	return c
}

func (p *parser) variant(n *yaml.Node) Variant {
	var v Variant
	p.list(n, "turns", func(n *yaml.Node) { v.Turns = append(v.Turns, p.turn(n)) })
	return v
}

func (p *parser) turn(n *yaml.Node) Turn {
	var t Turn
	p.mapping(n, "a turn", fields{
		"reasoning":     func(n *yaml.Node) { t.Reasoning = p.text(n, "reasoning") },
		"content":       func(n *yaml.Node) { t.Content = p.text(n, "content") },
		"finish_reason": func(n *yaml.Node) { t.FinishReason = p.text(n, "finish_reason") },
		"delay": func(n *yaml.Node) {
			text := ""
			if r := p.enter(n); r != nil && r.Kind == yaml.ScalarNode {
				text = r.Value
			}
			d, err := time.ParseDuration(text)
			if err != nil || d < 0 {
				p.report(n, "\"delay\" must be a duration such as 300ms or 2s, not %s", describe(n))
			}
			t.Delay = d
		},
		"calls": func(n *yaml.Node) {
			p.list(n, "calls", func(n *yaml.Node) { t.Calls = append(t.Calls, p.call(n)) })
		},
	})
	return t
}

func (p *parser) call(n *yaml.Node) Call {
	c := Call{Arguments: "{}"}
	seen := p.mapping(n, "a call", fields{
		"name": func(n *yaml.Node) { c.Name = p.text(n, "name") },
		"arguments": func(n *yaml.Node) {
			r := p.enter(n)
			switch {
			case r == nil:
			case r.Kind == yaml.ScalarNode && r.ShortTag() == "!!str":
				c.Arguments = r.Value
			case r.Kind == yaml.MappingNode:
				c.Arguments = string(p.json(nil, r, 0))
			default:
				p.report(r, "\"arguments\" must be an object, or text that is sent as it stands, not %s", describe(r))
			}
		},
	})
	if seen["name"] && c.Name == "" || !seen["name"] && n.Kind == yaml.MappingNode {
		p.report(n, "a call needs a name")
	}
	return c
}

// json writes a YAML value as JSON: keys in order, numbers with their digits.
func (p *parser) json(dst []byte, n *yaml.Node, depth int) []byte {
	if n = p.enter(n); n == nil {
		return append(dst, "null"...)
	}
	if depth > maxDepth {
		p.report(n, "the value nests deeper than %d levels", maxDepth)
		p.nodes = maxNodes + 1 // an alias may contain itself: stop here
		return append(dst, "null"...)
	}
	switch n.Kind {
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, child := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = p.json(dst, child, depth+1)
		}
		return append(dst, ']')
	case yaml.MappingNode:
		dst = append(dst, '{')
		seen := make(map[string]bool)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := p.enter(n.Content[i])
			if key == nil {
				break
			}
			if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
				p.report(key, "keys must be plain text")
				continue
			}
			if seen[key.Value] {
				p.report(key, "key %q appears twice", key.Value)
			}
			seen[key.Value] = true
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(chat.AppendString(dst, key.Value), ':')
			dst = p.json(dst, n.Content[i+1], depth+1)
		}
		return append(dst, '}')
	}
	return p.scalar(dst, n)
}

func (p *parser) scalar(dst []byte, n *yaml.Node) []byte {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return chat.AppendString(dst, n.Value)
	case "!!null":
		return append(dst, "null"...)
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err == nil {
			return strconv.AppendBool(dst, b)
		}
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) { // 1, -2.50, 1e6: the digits as written
			return append(dst, n.Value...)
		}
		var i int64
		if err := n.Decode(&i); err == nil && n.ShortTag() == "!!int" { // 0x1f, 1_000
			return strconv.AppendInt(dst, i, 10)
		}
		var f float64
		if err := n.Decode(&f); err == nil && f-f == 0 { // not infinite, not NaN
			return strconv.AppendFloat(dst, f, 'g', -1, 64)
		}
	}
	p.report(n, "JSON has no way to write %s", describe(n))
	return append(dst, "null"...)
}

// describe names a value for an error message.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.ShortTag() == "!!null" {
		return "nothing"
	}
	value := n.Value
	if len(value) > 40 {
		value = strings.ToValidUTF8(value[:40], "") + "…"
	}
	return strings.TrimPrefix(n.ShortTag(), "!!") + " " + strconv.Quote(value)
}

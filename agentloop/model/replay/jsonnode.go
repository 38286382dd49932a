package replay

import (
	"sort"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v3"
)

// jsonNodes reads valid JSON into the nodes that the parser of scripts walks.
// YAML's own reader refuses some JSON, such as escaped surrogate pairs.
func jsonNodes(data []byte) *yaml.Node {
	var breaks []int
	for i, c := range data {
		if c == '\n' {
			breaks = append(breaks, i)
		}
	}
	line := func(offset int) int { return sort.SearchInts(breaks, offset) + 1 }
	return jsonNode(gjson.ParseBytes(data), 0, line)
}

// jsonNode converts one value; base is the offset of the text that v.Index counts from.
func jsonNode(v gjson.Result, offset int, line func(int) int) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: line(offset), Value: v.Raw}
	switch {
	case v.IsObject(), v.IsArray():
		n.Kind, n.Tag, n.Value = yaml.SequenceNode, "!!seq", ""
		if v.IsObject() {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		v.ForEach(func(key, value gjson.Result) bool {
			if n.Kind == yaml.MappingNode {
				n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Line: line(key.Index), Value: key.String()})
			}
			n.Content = append(n.Content, jsonNode(value, value.Index, line))
			return true
		})
	case v.Type == gjson.String:
		n.Tag, n.Value = "!!str", v.String()
	case v.Type == gjson.Number:
		n.Tag = "!!float"
	case v.Type == gjson.Null:
		n.Tag = "!!null"
	default:
		n.Tag = "!!bool"
	}
	return n
}

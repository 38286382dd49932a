package chattemplate

import (
	"slices"
	"strings"
)

// answersAsUser follows SGLang, which makes a user's message of a last message that is
// an assistant's text.
func answersAsUser(messages *list) {
	if len(messages.items) == 0 {
		return
	}
	last, _ := messages.items[len(messages.items)-1].(*dict)
	if last == nil {
		return
	}
	role, _ := last.get("role")
	content, _ := last.get("content")
	if _, isText := content.(string); role != "assistant" || !isText {
		return
	}
	user := newDict(2)
	user.setString("role", "user")
	user.setString("content", content)
	messages.items[len(messages.items)-1] = user
}

// developersAsSystem follows vLLM for templates that don't name the role developer: its
// messages become those of the system, and all of the system's one, the first.
func developersAsSystem(messages *list) {
	role := func(v value) value { r, _ := v.(*dict).get("role"); return r }
	if !slices.ContainsFunc(messages.items, func(v value) bool { return role(v) == "developer" }) {
		return
	}
	var system []string
	var others []value
	last := -1 // place of the last message of the system
	for i, m := range messages.items {
		if r := role(m); r != "developer" && r != "system" {
			others = append(others, m)
			continue
		}
		last = i
		content, _ := m.(*dict).get("content")
		if text := contentOf(content); text != "" {
			system = append(system, text)
		}
	}
	if last == 0 {
		messages.items[0] = withRole(messages.items[0].(*dict), "system")
		return
	}
	first := newDict(2)
	first.setString("role", "system")
	first.setString("content", strings.Join(system, "\n\n"))
	messages.items = append([]value{first}, others...)
}

// contentOf is the text of a prepared content.
func contentOf(content value) string {
	parts, ok := content.(*list)
	if !ok {
		text, _ := content.(string)
		return text
	}
	var texts []string
	for _, part := range parts.items {
		if text, ok := part.(*dict).get("text"); ok {
			texts = append(texts, text.(string))
		}
	}
	return strings.Join(texts, "\n")
}

// withRole is a message with another role and without tools.
func withRole(m *dict, role string) *dict {
	out := newDict(len(m.keys))
	out.setString("role", role)
	for i, k := range m.keys {
		if k != "tools" && k != "role" {
			out.setString(k.(string), m.values[i])
		}
	}
	return out
}

// bareFunctions are tool definitions without the object around their function. SGLang
// tries them with a template that fails on whole definitions.
func bareFunctions(tools value) value {
	given := tools.(*list)
	bare := &list{items: make([]value, len(given.items))}
	for i, tool := range given.items {
		bare.items[i] = tool
		if d, ok := tool.(*dict); ok {
			if function, ok := d.get("function"); ok {
				bare.items[i] = function
			}
		}
	}
	return bare
}

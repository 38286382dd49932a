package chattemplate

import (
	"fmt"
	"slices"
	"strings"
)

// content is the content of a message in the shape of the template. null and missing
// are the empty text, or for vLLM no parts.
func (p preparation) content(m *dict, role string) (value, error) {
	v, _ := m.get("content")
	var parts []value
	switch v := v.(type) {
	case nil:
		if p.engine == SGLang {
			return "", nil
		}
	case string:
		if p.engine == SGLang {
			return v, nil
		}
		parts = []value{v}
	case *list:
		parts = v.items
	default:
		return nil, p.refuse("content that is neither text nor a list of parts")
	}
	kept := &list{items: make([]value, 0, len(parts))}
	for _, part := range parts {
		prepared, err := p.part(part, role)
		if err != nil {
			return nil, err
		}
		if prepared != nil {
			kept.items = append(kept.items, prepared)
		}
	}
	texts, all := p.texts(kept)
	switch {
	case p.format == contentParts && (role != "tool" || !all):
		return kept, nil
	case p.engine == SGLang:
		return strings.Join(texts, " "), nil
	case p.format == contentText: // vLLM: empty parts add no line
		texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" })
	}
	return strings.Join(texts, "\n"), nil
}

// texts are the texts of prepared parts. all says that there was nothing else.
func (p preparation) texts(parts *list) (texts []string, all bool) {
	all = true
	for _, item := range parts.items {
		part := item.(*dict)
		kind, _ := part.get("type")
		switch {
		case kind == "text":
			text, _ := part.get("text")
			texts = append(texts, text.(string))
		case kind == "tool_reference" && p.engine != SGLang:
			name, _ := part.get("name")
			texts = append(texts, str(name))
			all = false
		default:
			all = false
		}
	}
	return texts, all
}

// media are the types of parts that are no text, and what templates call them.
var media = map[string]string{
	"image_url": "image", "input_image": "image", "image_embeds": "image", "image_pil": "image",
	"audio_url": "audio", "input_audio": "audio", "audio_embeds": "audio",
	"video_url": "video", "video_embeds": "video",
}

// part prepares one part of a content, a text or an object, as an object with the type
// text, tool_reference, image, audio or video. nil leaves the part out.
func (p preparation) part(v value, role string) (value, error) {
	if text, ok := v.(string); ok && p.engine != SGLang {
		return textPart(text), nil
	}
	part, ok := v.(*dict)
	if !ok {
		return nil, p.refuse("a content part that is not an object")
	}
	kindValue, _ := part.get("type")
	kind, _ := kindValue.(string)
	field := "text"
	switch {
	case kind == "tool_reference":
		name, ok := part.get("name")
		if _, isText := name.(string); !ok || !isText {
			return nil, p.refuse("a tool_reference without a name")
		}
		out := newDict(2)
		out.setString("type", kind)
		out.setString("name", name)
		return out, nil
	case p.engine == SGLang && role == "assistant" && (kind == "thinking" || kind == "reasoning"):
		return nil, nil
	case p.engine == SGLang && (kind == "image_url" || kind == "audio_url" || kind == "video_url"):
		return mediumPart(media[kind]), nil
	case p.engine == SGLang && kind != "text":
		return nil, p.refuse("a content part of type %q", kind)
	case kind == "text", kind == "input_text", kind == "output_text":
	case kind == "refusal", kind == "thinking":
		field = kind
	default:
		return p.medium(part, kind)
	}
	text, _ := part.get(field)
	if text == nil && (kind == "text" || kind == "refusal") && p.engine != SGLang {
		return nil, nil
	}
	s, ok := text.(string)
	if !ok {
		return nil, p.refuse("a content part of type %q without text", kind)
	}
	out := textPart(s)
	if p.engine != SGLang {
		addUnknownFields(out, part)
	}
	return out, nil
}

func textPart(text string) *dict {
	out := newDict(2)
	out.setString("type", "text")
	out.setString("text", text)
	return out
}

func mediumPart(name string) *dict {
	out := newDict(1)
	out.setString("type", name)
	return out
}

// medium prepares an image, a sound or a video for vLLM, which finds them by their type
// or, without one, by the field that holds them.
func (p preparation) medium(part *dict, kind string) (value, error) {
	name := media[kind]
	if kind == "" {
		for _, k := range part.keys {
			if name == "" {
				name = media[k.(string)]
			}
		}
	}
	switch {
	case name == "":
		return nil, p.refuse("a content part of type %q", kind)
	case p.format == contentText:
		return nil, fmt.Errorf("a content part with %s: only the server knows what stands for it in the prompt", name)
	}
	out := mediumPart(name)
	addUnknownFields(out, part)
	return out, nil
}

// partFields are the fields that vLLM's types of content parts have.
var partFields = []string{
	"audio_embeds", "audio_url", "closed", "data", "file", "image_embeds", "image_pil", "image_url", "input_audio", "name", "prompt_cache_breakpoint",
	"refusal", "text", "thinking", "type", "uuid", "video_embeds", "video_url",
}

// addUnknownFields copies the fields of a part that vLLM has no type for.
func addUnknownFields(out, part *dict) {
	for i, k := range part.keys {
		if name := k.(string); !slices.Contains(partFields, name) {
			out.setString(name, part.values[i])
		}
	}
}

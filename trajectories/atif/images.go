package atif

import (
	"encoding/base64"
	"fmt"
	"path"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// content converts the content of a message. Parts that are neither text nor an
// image the format knows become a note and are counted as lost.
func (c *converter) content(m chat.Message) (Content, error) {
	v := gjson.ParseBytes(m.Get("content"))
	if !v.IsArray() {
		return Content{Text: m.Text()}, nil
	}
	multimodal := false
	var parts []Part
	for _, p := range v.Array() {
		part, err := c.part(p)
		if err != nil {
			return Content{}, err
		}
		multimodal = multimodal || part.Source != nil
		parts = append(parts, part)
	}
	if multimodal {
		return Content{Parts: parts}, nil
	}
	var text strings.Builder
	for _, p := range parts {
		text.WriteString(p.Text)
	}
	return Content{Text: text.String()}, nil
}

func (c *converter) part(p gjson.Result) (Part, error) {
	kind := p.Get("type").String()
	switch {
	case p.Type == gjson.String:
		return Part{Type: "text", Text: p.Str}, nil
	case kind == "text" || kind == "output_text" || kind == "input_text":
		return Part{Type: "text", Text: p.Get("text").String()}, nil
	case kind == "image_url":
		url := p.Get("image_url.url").String()
		if url == "" {
			url = p.Get("image_url").String()
		}
		return c.image(url)
	}
	c.lose("content parts of type " + kind)
	return Part{Type: "text", Text: "[" + kind + " left out]"}, nil
}

func (c *converter) image(url string) (Part, error) {
	header, data, embedded := strings.Cut(strings.TrimPrefix(url, "data:"), ",")
	if !strings.HasPrefix(url, "data:") {
		clean, _, _ := strings.Cut(url, "?")
		mediaType := mediaTypes()[strings.ToLower(path.Ext(clean))]
		if mediaType == "" {
			c.lose("image URLs that do not say their type")
			return Part{Type: "text", Text: "[image " + url + "]"}, nil
		}
		return Part{Type: "image", Source: &ImageSource{MediaType: mediaType, Path: url}}, nil
	}
	mediaType, encoding, _ := strings.Cut(header, ";")
	if !embedded || encoding != "base64" || !knownMediaType(mediaType) {
		c.lose("images of unknown type")
		return Part{Type: "text", Text: "[image of unknown type left out]"}, nil
	}
	if c.config.SaveImage == nil {
		c.lose("images")
		return Part{Type: "text", Text: fmt.Sprintf("[%s left out]", mediaType)}, nil
	}
	decoded, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		c.lose("images that are not valid base64")
		return Part{Type: "text", Text: fmt.Sprintf("[broken %s left out]", mediaType)}, nil
	}
	c.images++
	name := fmt.Sprintf("image_%03d.%s", c.images, strings.TrimPrefix(mediaType, "image/"))
	saved, err := c.config.SaveImage(name, mediaType, decoded)
	if err != nil {
		return Part{}, fmt.Errorf("save %s: %w", name, err)
	}
	return Part{Type: "image", Source: &ImageSource{MediaType: mediaType, Path: saved}}, nil
}

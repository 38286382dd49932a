package table

import (
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Split is a named part of a data set and the files it is in.
type Split struct {
	Name  string // train, completed, …
	Paths string // glob below the card's directory
	Rows  int64
	Bytes int64 // of the values, before compression
	Files []File
}

// File is one file of a split.
type File struct {
	Name string // below the card's directory
	Rows int64
	Size int64
}

// Card describes a data set in the way the Hugging Face hub and its loader read
// it: YAML between two lines of dashes, then text for people.
type Card struct {
	Schema   Schema
	Encoding Encoding
	Splits   []Split
	Tags     []string
	Title    string
	Body     string // Markdown
	// FreeSchema leaves the features out: the loader infers them.
	FreeSchema bool
	// Features is the YAML of the features where the schema can't express them.
	Features string
}

// Text returns the content of README.md.
func (c *Card) Text() string {
	var b strings.Builder
	b.WriteString("---\n")
	if len(c.Tags) > 0 {
		b.WriteString("tags:\n")
		for _, tag := range c.Tags {
			fmt.Fprintf(&b, "- %s\n", yamlText(tag))
		}
	}
	var rows, download, size int64
	for _, s := range c.Splits {
		rows += s.Rows
		size += s.Bytes
		for _, f := range s.Files {
			download += f.Size
		}
	}
	fmt.Fprintf(&b, "size_categories:\n- %s\n", sizeCategory(rows))
	b.WriteString("configs:\n- config_name: default\n  data_files:\n")
	for _, s := range c.Splits {
		fmt.Fprintf(&b, "  - split: %s\n    path: %s\n", yamlText(s.Name), yamlText(s.Paths))
	}
	if !c.FreeSchema {
		b.WriteString("dataset_info:\n  features:\n")
		if c.Features != "" {
			b.WriteString(c.Features)
		} else {
			appendFeatures(&b, c.Schema, "  ", c.Encoding == JSONLines)
		}
		b.WriteString("  splits:\n")
		for _, s := range c.Splits {
			fmt.Fprintf(&b, "  - name: %s\n    num_bytes: %d\n    num_examples: %d\n", yamlText(s.Name), s.Bytes, s.Rows)
		}
		fmt.Fprintf(&b, "  download_size: %d\n  dataset_size: %d\n", download, size)
	}
	b.WriteString("---\n\n")
	fmt.Fprintf(&b, "# %s\n\n%s", c.Title, c.Body)
	if !strings.HasSuffix(c.Body, "\n") {
		b.WriteByte('\n')
	}
	return b.String()
}

// appendFeatures writes the types as the datasets library writes its Features.
func appendFeatures(b *strings.Builder, fields []Field, indent string, wide bool) {
	for _, f := range fields {
		fmt.Fprintf(b, "%s- name: %s\n", indent, yamlText(f.Name))
		appendFeature(b, f.Type, indent+"  ", wide)
	}
}

func appendFeature(b *strings.Builder, t Type, indent string, wide bool) {
	switch {
	case t.Kind == Struct:
		b.WriteString(indent + "struct:\n")
		appendFeatures(b, t.Fields, indent, wide)
	case t.Kind != List:
		b.WriteString(indent + "dtype: " + dtype(t.Kind, wide) + "\n")
	case t.Elem.Kind == Struct:
		b.WriteString(indent + "list:\n")
		appendFeatures(b, t.Elem.Fields, indent, wide)
	case t.Elem.Kind == List:
		b.WriteString(indent + "list:\n")
		appendFeature(b, *t.Elem, indent+"  ", wide)
	default:
		b.WriteString(indent + "list: " + dtype(t.Elem.Kind, wide) + "\n")
	}
}

// dtype names a type; wide is what a reader infers from JSON, which has one size
// of numbers.
func dtype(k Kind, wide bool) string {
	switch k {
	case Bool:
		return "bool"
	case Int32:
		if !wide {
			return "int32"
		}
		return "int64"
	case Int64:
		return "int64"
	case Float32:
		if !wide {
			return "float32"
		}
		return "float64"
	case Float64:
		return "float64"
	}
	return "string"
}

// yamlText writes a scalar, quoted unless it is a plain word.
func yamlText(s string) string {
	plain := s != ""
	for i, c := range s {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || strings.ContainsRune("-./*", c))) {
			plain = false
		}
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		plain = false
	}
	if plain {
		return s
	}
	return string(chat.AppendString(nil, s)) // JSON strings are YAML strings
}

// sizeCategory is the hub's name for a number of rows.
func sizeCategory(rows int64) string {
	limits := []struct {
		below int64
		name  string
	}{
		{1_000, "n<1K"}, {10_000, "1K<n<10K"}, {100_000, "10K<n<100K"},
		{1_000_000, "100K<n<1M"}, {10_000_000, "1M<n<10M"}, {100_000_000, "10M<n<100M"},
	}
	for _, l := range limits {
		if rows < l.below {
			return l.name
		}
	}
	return "100M<n<1B"
}

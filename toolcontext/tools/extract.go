package tools

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/tidwall/gjson"
)

const (
	// maxExtracted bounds the text taken out of a document.
	maxExtracted = 10 << 20
	// maxUnpacked bounds what is unpacked of a document, all parts together.
	maxUnpacked = 16 << 20
	maxSheets   = 256
	maxColumns  = 16_384 // what a spreadsheet can have
)

// extractor turns a document of a known kind into plain text.
type extractor func(raw []byte) (string, error)

// extractorFor returns how to show a file that is text only after a conversion, or
// nil for all others.
func extractorFor(name string) extractor {
	switch strings.ToLower(path.Ext(name)) {
	case ".ipynb":
		return extractNotebook
	case ".docx":
		return extractDocument
	case ".xlsx":
		return extractWorkbook
	}
	return nil
}

// limited collects text up to maxExtracted bytes.
type limited struct{ b strings.Builder }

func (l *limited) add(text string) {
	l.b.WriteString(text[:min(len(text), max(0, maxExtracted-l.b.Len()))])
}

func (l *limited) full() bool { return l.b.Len() >= maxExtracted }

func (l *limited) text() string { return strings.ToValidUTF8(l.b.String(), "\uFFFD") }

// extractNotebook shows the cells of a Jupyter notebook with their text outputs.
func extractNotebook(raw []byte) (string, error) {
	if !chat.Valid(raw) {
		return "", errors.New("the notebook is not valid JSON")
	}
	cells := gjson.GetBytes(raw, "cells")
	if !cells.IsArray() {
		return "", errors.New("the notebook has no cells")
	}
	var out limited
	n := 0
	cells.ForEach(func(_, cell gjson.Result) bool {
		n++
		out.add(fmt.Sprintf("[cell %d: %s]\n%s\n", n, cell.Get("cell_type").String(), joined(cell.Get("source"))))
		cell.Get("outputs").ForEach(func(_, output gjson.Result) bool {
			text := joined(output.Get("text"))
			if text == "" {
				text = joined(output.Get(`data.text/plain`))
			}
			if text == "" && output.Get("ename").Exists() {
				text = output.Get("ename").String() + ": " + output.Get("evalue").String()
			}
			if text != "" {
				out.add(fmt.Sprintf("[output of cell %d]\n%s\n", n, strings.TrimSuffix(text, "\n")))
			}
			return !out.full()
		})
		out.add("\n")
		return !out.full()
	})
	return out.text(), nil
}

// joined returns a text that a notebook stores whole or as a list of lines.
func joined(v gjson.Result) string {
	if !v.IsArray() {
		return v.String()
	}
	var b strings.Builder
	for _, part := range v.Array() {
		b.WriteString(part.String())
	}
	return b.String()
}

// document is a zip archive of XML parts, of which a bounded amount is unpacked.
type document struct {
	archive *zip.Reader
	left    int64 // bytes that may still be unpacked
}

func openDocument(raw []byte) (*document, error) {
	archive, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, err
	}
	return &document{archive: archive, left: maxUnpacked}, nil
}

// find returns a part of the document, nil when it has none of that name.
func (d *document) find(name string) *zip.File {
	for _, f := range d.archive.File {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// tokens calls visit for every token of one part until it returns false.
func (d *document) tokens(name string, visit func(xml.Token) bool) error {
	f := d.find(name)
	if f == nil {
		return fmt.Errorf("the document has no part %s", name)
	}
	r, err := f.Open()
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer r.Close()
	decoder := xml.NewDecoder(bounded{r, &d.left})
	for {
		token, err := decoder.RawToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if !visit(token) {
			return nil
		}
	}
}

// bounded fails once what is left is used up, by all readers that share it.
type bounded struct {
	r    io.Reader
	left *int64
}

func (b bounded) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		return 0, errors.New("the document is too large once unpacked")
	}
	n, err := b.r.Read(p[:min(int64(len(p)), *b.left)])
	*b.left -= int64(n)
	return n, err
}

// extractDocument shows the paragraphs and tables of a Word document.
func extractDocument(raw []byte) (string, error) {
	archive, err := openDocument(raw)
	if err != nil {
		return "", err
	}
	return documentText(archive)
}

func documentText(archive *document) (string, error) {
	var out limited
	inText := false
	err := archive.tokens("word/document.xml", func(token xml.Token) bool {
		switch t := token.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "t":
				inText = true
			case "tab":
				out.add("\t")
			case "br", "cr":
				out.add("\n")
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "t":
				inText = false
			case "p":
				out.add("\n")
			}
		case xml.CharData:
			if inText {
				out.add(string(t))
			}
		}
		return !out.full()
	})
	return out.text(), err
}

// extractWorkbook shows the sheets of an Excel workbook, cells separated by tabs.
func extractWorkbook(raw []byte) (string, error) {
	archive, err := openDocument(raw)
	if err != nil {
		return "", err
	}
	shared, err := sharedStrings(archive)
	if err != nil {
		return "", err
	}
	sheets, err := sheetParts(archive)
	if err != nil {
		return "", err
	}
	var out limited
	for _, s := range sheets {
		out.add("[sheet: " + s.name + "]\n")
		if err := sheetRows(archive, s.part, shared, &out); err != nil {
			return "", err
		}
		out.add("\n")
	}
	return out.text(), nil
}

// sharedStrings reads the table that cells of type "s" point into; it may be absent.
func sharedStrings(archive *document) ([]string, error) {
	const name = "xl/sharedStrings.xml"
	if archive.find(name) == nil {
		return nil, nil
	}
	var texts []string
	var current strings.Builder
	inText := false
	err := archive.tokens(name, func(token xml.Token) bool {
		switch t := token.(type) {
		case xml.StartElement:
			inText = t.Name.Local == "t"
		case xml.EndElement:
			inText = false
			if t.Name.Local == "si" {
				texts = append(texts, current.String())
				current.Reset()
			}
		case xml.CharData:
			if inText {
				current.Write(t)
			}
		}
		return true
	})
	return texts, err
}

type sheet struct{ name, part string }

// sheetParts returns the sheets in the order of the workbook.
func sheetParts(archive *document) ([]sheet, error) {
	targets := map[string]string{}
	err := archive.tokens("xl/_rels/workbook.xml.rels", func(token xml.Token) bool {
		if t, ok := token.(xml.StartElement); ok && t.Name.Local == "Relationship" {
			target := attribute(t, "Target")
			if !strings.HasPrefix(target, "/") {
				target = "/xl/" + target
			}
			targets[attribute(t, "Id")] = strings.TrimPrefix(path.Clean(target), "/")
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	var sheets []sheet
	err = archive.tokens("xl/workbook.xml", func(token xml.Token) bool {
		if t, ok := token.(xml.StartElement); ok && t.Name.Local == "sheet" {
			sheets = append(sheets, sheet{attribute(t, "name"), targets[attribute(t, "id")]})
		}
		return len(sheets) < maxSheets
	})
	return sheets, err
}

func attribute(element xml.StartElement, name string) string {
	for _, a := range element.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// sheetRows writes the rows of one sheet, empty cells in between included.
func sheetRows(archive *document, name string, shared []string, out *limited) error {
	var value strings.Builder
	kind, column, inValue := "", 0, false
	return archive.tokens(name, func(token xml.Token) bool {
		switch t := token.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "row":
				column = 0
			case "c":
				kind = attribute(t, "t")
				value.Reset()
				if at := columnOf(attribute(t, "r")); at > column {
					out.add(strings.Repeat("\t", at-column))
					column = at
				}
			case "v", "t":
				inValue = true
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "v", "t":
				inValue = false
			case "c":
				text := value.String()
				if i, err := strconv.Atoi(text); kind == "s" && err == nil && i >= 0 && i < len(shared) {
					text = shared[i]
				}
				out.add(strings.ReplaceAll(text, "\n", " "))
			case "row":
				out.add("\n")
			}
		case xml.CharData:
			if inValue {
				value.Write(t)
			}
		}
		return !out.full()
	})
}

// columnOf returns the column of a cell reference such as "AB12", from 0.
func columnOf(reference string) int {
	n := 0
	for _, c := range []byte(reference) {
		if c < 'A' || c > 'Z' || n > maxColumns {
			break
		}
		n = n*26 + int(c-'A') + 1
	}
	return max(0, min(n, maxColumns)-1)
}

package model

import (
	"html"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// excerptRunes is how much of what a server sent an error shows.
const excerptRunes = 300

// excerpt makes foreign text fit for one line of an error: secrets out first,
// then white space and control characters folded, then shortened.
func (t *target) excerpt(text string) string {
	if len(text) > 16<<10 {
		text = text[:16<<10] // a secret that is cut here is recognised by its beginning
	}
	return textutil.Shorten(textutil.Line(t.redact(text)), excerptRunes)
}

// excerptEnd quotes the last characters of a cut body.
func (t *target) excerptEnd(raw []byte) string {
	const keep, window, margin = 60, 16 << 10, 8 << 10
	cut := len(raw) > window
	if cut {
		raw = raw[len(raw)-window:]
	}
	text := t.redact(string(raw))
	if cut {
		text = text[min(margin, len(text)):] // may begin inside of a secret
	}
	text = textutil.Line(text)
	if utf8.RuneCountInString(text) > keep {
		runes := []rune(text[max(0, len(text)-4*keep):])
		text = "…" + string(runes[max(0, len(runes)-keep):])
	}
	return "\"" + text + "\""
}

var (
	titleElement = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	markup       = regexp.MustCompile(`(?is)<(script|style|head)\b.*?</(script|style|head)>|<!--.*?-->|<[^>]*>`)
)

// pageText reduces a web page to its title, or else to its first words.
func pageText(raw []byte) string {
	page := string(raw)
	title := titleElement.FindStringSubmatch(page)
	if title != nil && strings.TrimSpace(title[1]) != "" {
		return html.UnescapeString(textutil.Line(title[1]))
	}
	page = markup.ReplaceAllString(page, " ")
	return html.UnescapeString(textutil.Line(page))
}

package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// prompt is one usable row of the dataset.
type prompt struct {
	text  string // what the user message says
	image string // "" when the row names none
	dir   string // working directory in the sandbox; "" leaves it to the backend
	odd   bool   // the prompt is no text; its JSON stands in
	line  int    // in the file, from 1
}

var errNoPrompt = errors.New(`no "prompt"`)

// parsePrompt reads a row, a JSON object.
func parsePrompt(row []byte) (prompt, error) {
	var p prompt
	value := gjson.GetBytes(row, "prompt")
	switch value.Type {
	case gjson.String:
		p.text = value.Str
	case gjson.Null:
		return p, errNoPrompt
	default:
		p.text, p.odd = value.Raw, true
	}
	if isBlank(p.text) {
		return p, errors.New(`"prompt" is blank`)
	}
	for _, key := range []string{"image", "docker_image"} {
		v := gjson.GetBytes(row, key)
		if v.Type != gjson.String && v.Type != gjson.Null {
			return p, fmt.Errorf("%q is %s, want text", key, v.Raw)
		}
		if p.image == "" {
			p.image = strings.TrimSpace(v.Str)
		}
	}
	dir := gjson.GetBytes(row, "cwd")
	if dir.Type != gjson.String && dir.Type != gjson.Null {
		return p, fmt.Errorf(`"cwd" is %s, want text`, dir.Raw)
	}
	p.dir = dir.Str
	return p, nil
}

// digest identifies what is to be run, whatever else the row says and wherever it stands.
func (p *prompt) digest() [sha256.Size]byte {
	content := chat.AppendString([]byte{'['}, p.text)
	for _, more := range []string{p.image, p.dir} {
		content = chat.AppendString(append(content, ','), more)
	}
	if p.odd {
		content = append(content, ",true"...) // the number 1 is not the text "1"
	}
	return sha256.Sum256(append(content, ']'))
}

// textHash identifies a prompt by its text alone, as the original did.
type textHash [16]byte

func hashText(text string) textHash {
	sum := sha256.Sum256([]byte(strip(text)))
	return textHash(sum[:16])
}

// row is what is remembered of a usable row while the file is not read.
type row struct {
	digest     [sha256.Size]byte
	text       textHash
	occurrence uint32 // among the rows of the same digest, from 0
}

// itemID names the row: by its content, so that it is found again wherever it stands.
func (r *row) itemID() string {
	id := hex.EncodeToString(r.digest[:8])
	if r.occurrence > 0 {
		id += fmt.Sprintf("#%d", r.occurrence+1)
	}
	return id
}

func (r *row) itemDigest() string { return "sha256:" + hex.EncodeToString(r.digest[:]) }

// strip removes what Python's str.strip does.
func strip(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f) })
}

func isBlank(s string) bool { return strip(s) == "" }

package parsers

import (
	"regexp"
	"strings"
)

// frame is a pair of tags around the answer of a model. They are taken off
// together with the reasoning.
type frame struct {
	TagPair
	// prompted says that the opening tag may be part of the prompt.
	prompted bool
}

// unframe takes the tags off an answer that begins with one of them.
func unframe(text string, frames []frame) string {
	for _, f := range frames {
		trimmed := strings.TrimLeft(text, " \t\r\n")
		inner, found := strings.CutPrefix(trimmed, f.Open)
		if !found {
			if f.prompted {
				if before, behind, closed := strings.Cut(text, f.Close); closed && !strings.Contains(before, f.Open) {
					return besides(before, behind)
				}
			}
			continue
		}
		answer, behind, _ := strings.Cut(inner, f.Close)
		return besides(answer, behind)
	}
	return text
}

// besides joins two texts that markup stood between.
func besides(a, b string) string {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

// cohereFrames are the tags around the answers of Command A, older and newer.
func cohereFrames() []frame {
	return []frame{
		{TagPair: TagPair{"<|START_RESPONSE|>", "<|END_RESPONSE|>"}},
		{TagPair: TagPair{"<|START_TEXT|>", "<|END_TEXT|>"}},
	}
}

func kimiK3Frames() []frame {
	return []frame{{TagPair: TagPair{"<|open|>response<|sep|>", "<|close|>response<|sep|>"}, prompted: true}}
}

// The tokens of Inkling, which begin and end blocks of content.
const (
	inklingMessage  = "<|message_model|>"
	inklingText     = "<|content_text|>"
	inklingThinking = "<|content_thinking|>"
	inklingCall     = "<|content_invoke_tool_json|>"
	inklingEnd      = "<|end_message|>"
	inklingStop     = "<|content_model_end_sampling|>"
)

// inklingSplit takes the blocks of a response apart: thinking is reasoning,
// calls stay as they are, text loses its markup.
func inklingSplit(text string) (reasoning, rest string) {
	tokens := []string{
		inklingMessage, inklingText, inklingThinking, inklingCall, inklingEnd, inklingStop,
		"<|content_invoke_tool_text|>", "<|content_tool_error|>",
	}
	var thought, out []string
	header, kind := "", ""
	for text != "" {
		at, token := harmonyNext(text, tokens...)
		if token == "" {
			at = len(text)
		}
		chunk := text[:at]
		text = text[at+len(token):]
		switch kind {
		case inklingThinking:
			thought = append(thought, strings.TrimSpace(chunk))
		case inklingMessage:
			header += chunk
			if token == "" || token == inklingEnd || token == inklingStop {
				out = append(out, header)
			}
		default:
			out = append(out, chunk)
		}
		switch token {
		case inklingMessage:
			header = token
		case inklingCall:
			out = append(out, header+token)
			header = ""
		case inklingEnd, inklingStop:
			if kind == inklingCall {
				out = append(out, token)
			}
		default:
			header = ""
		}
		kind = token
	}
	return strings.TrimSpace(strings.Join(thought, "\n")), strings.Join(out, "")
}

// The markers of the messages of Muse Glimmer.
const (
	museMessage = "<|message|>"
	museEnd     = "<|eom|>"
	museTurnEnd = "<|eot|>"
	museCalls   = "<atem:function_calls>"
)

var museHeader = regexp.MustCompile(`(?:<\|start\|>\s*assistant\s*)?(?:to=([^\s<]+))?<\|message\|>`)

// museSplit takes messages apart: those to=self are reasoning, those to=user
// the answer, those to a tool hold calls. A message to the user that quotes
// calls keeps its markup, by which Parse knows that they are none.
func museSplit(text string) (reasoning, rest string) {
	var thought, out []string
	text = strings.TrimPrefix(text, " ")
	for text != "" {
		at := museHeader.FindStringSubmatchIndex(text)
		if at == nil {
			out = append(out, text)
			break
		}
		recipient := ""
		if at[2] >= 0 {
			recipient = text[at[2]:at[3]]
		}
		out = append(out, text[:at[0]])
		body := text[at[1]:]
		end, token := harmonyNext(body, museEnd, museTurnEnd, harmonyStart)
		if token == "" {
			end = len(body)
		}
		next := body[end:]
		if token != harmonyStart {
			next = next[len(token):]
		}
		switch quotes := strings.Contains(body[:end], museCalls); {
		case recipient == "self":
			thought = append(thought, strings.TrimSpace(body[:end]))
		case recipient == "user" && quotes:
			out = append(out, text[at[0]:len(text)-len(next)])
		default:
			out = append(out, body[:end])
		}
		text = next
	}
	return strings.TrimSpace(strings.Join(thought, "\n")), strings.TrimSpace(strings.Join(out, ""))
}

package tools

import (
	"regexp"
	"strings"
)

const (
	errorPrefix     = "[TOOL_ERROR] "
	maxErrorMessage = 2000
)

var (
	// Tags that chat templates and agent prompts give a meaning of their own.
	roleTags  = regexp.MustCompile(`(?i)</?(?:tool_call|function_call|result|response|output|input|system|assistant|user)>`)
	openFence = regexp.MustCompile("(?m)\\A\\s*```[A-Za-z0-9_-]*\\s*")
	endFence  = regexp.MustCompile("\\s*```\\s*\\z")
	cdata     = regexp.MustCompile(`(?s)<!\[CDATA\[.*?\]\]>`)
)

// sanitise makes the text of an unexpected error safe to show to a model: without
// anything a chat template or a model could take for structure, at most 2,000
// characters, marked as a tool error.
func sanitise(message string) string {
	message = cutChars(message, 4*maxErrorMessage)
	// Again until nothing changes: taking one tag out can put another together.
	for before := ""; before != message; {
		before = message
		message = cdata.ReplaceAllString(message, "")
		message = roleTags.ReplaceAllString(message, "")
	}
	message = openFence.ReplaceAllString(message, "")
	message = endFence.ReplaceAllString(message, "")
	message = strings.TrimSpace(message)
	if runes := []rune(message); len(runes) > maxErrorMessage {
		message = string(runes[:maxErrorMessage-3]) + "..."
	}
	return errorPrefix + message
}

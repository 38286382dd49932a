package convert

import (
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// InvalidArguments says what becomes of rows with a tool call whose arguments are not a
// JSON object. Loaders and chat templates abort at them, so formats to train on don't
// have such rows by default.
type InvalidArguments string

// The choices.
const (
	ExcludeInvalid InvalidArguments = "exclude" // leave the rows out
	ApartInvalid   InvalidArguments = "apart"   // write them into a split of their own
	RepairInvalid  InvalidArguments = "repair"  // replace the arguments
	KeepInvalid    InvalidArguments = "keep"    // write them as they are
)

// invalidSplit is the name of the split for ApartInvalid.
const invalidSplit = "invalid_arguments"

// readsArguments says whether the consumers of a format read the arguments of calls.
func (f Format) readsArguments() bool { return !f.records() && f != Groups }

func (o *Options) checkInvalid() error {
	switch o.InvalidArguments {
	case "":
		o.InvalidArguments = KeepInvalid
		if o.To.readsArguments() {
			o.InvalidArguments = ExcludeInvalid
		}
	case ExcludeInvalid, RepairInvalid, KeepInvalid:
	case ApartInvalid:
		switch {
		case o.single():
			return usage("two splits don't fit into one file: give a folder")
		case o.SplitCompleted:
			return usage("--split-completed and --invalid-arguments apart can't be combined")
		case o.To == Preference || o.To == Groups || o.To == ATIF:
			return usage("the format %s has no rows of one rollout each to split", o.To)
		}
	default:
		return usage("--invalid-arguments is %q: want exclude, apart, repair or keep", o.InvalidArguments)
	}
	return nil
}

// invalidCalls counts the calls whose arguments are not a JSON object.
func invalidCalls(messages []chat.Message) (n int) {
	for _, m := range messages {
		for _, c := range m.ToolCalls() {
			if !isObjectText(c.Arguments) {
				n++
			}
		}
	}
	return n
}

func isObjectText(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	return strings.HasPrefix(text, "{") && chat.Valid(bytesOf(text))
}

// repairArguments replaces the arguments that are not a JSON object, and returns how
// many.
func repairArguments(messages []chat.Message) (n int, err error) {
	for i, m := range messages {
		bad := invalidCalls(messages[i : i+1])
		if bad == 0 {
			continue
		}
		n += bad
		if messages[i], err = m.WithArguments(func(c chat.ToolCall) string { return repairedArguments(c.Arguments) }); err != nil {
			return n, err
		}
	}
	return n, nil
}

// repairedArguments returns an object that says what the text says: the object itself if
// it was encoded twice, nothing for an empty text, else the text as a member.
func repairedArguments(text string) string {
	if isObjectText(text) {
		return text
	}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed == "null" {
		return "{}"
	}
	if trimmed[0] == '"' && chat.Valid([]byte(trimmed)) {
		if inner := chat.Unquote([]byte(trimmed)); isObjectText(inner) {
			return inner
		}
	}
	return `{"` + invalidSplit + `":` + string(chat.AppendString(nil, text)) + `}`
}

package convert

import (
	"bytes"
	"encoding/json"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// view parses valid JSON without copying it: strings taken from it may be parts of raw,
// which must not change as long as they are used.
func view(raw []byte) gjson.Result {
	if len(raw) == 0 {
		return gjson.Result{}
	}
	return gjson.Parse(unsafe.String(&raw[0], len(raw)))
}

// bytesOf returns the bytes of a text without copying them; they must not be changed.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// memberOf returns the text of a member of a JSON object, nil when there is none.
func memberOf(raw []byte, name string) (found []byte) {
	chat.EachMember(raw, func(key string, value []byte) bool {
		if key == name {
			found = value
		}
		return found == nil
	})
	return found
}

// membersOf returns the members of a JSON object, whose texts are parts of raw. One that is
// there twice is so in the result.
func membersOf(raw []byte) chat.Object {
	members := make(chat.Object, 0, 32)
	chat.EachMember(raw, func(key string, value []byte) bool {
		members = append(members, chat.Field{Key: key, Value: value})
		return true
	})
	return members
}

// isText, isList and isObject say of what type valid JSON is.
func isText(raw []byte) bool   { return len(raw) > 0 && raw[0] == '"' }
func isList(raw []byte) bool   { return len(raw) > 0 && raw[0] == '[' }
func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
func isNull(raw []byte) bool   { return string(raw) == "null" }

// listText returns the list that a value is, also as the text of one: tables without nested
// columns keep lists so.
func listText(raw []byte) []byte {
	if !isText(raw) || !bytes.Contains(raw, []byte("[")) {
		return raw
	}
	if list := bytes.TrimSpace([]byte(chat.Unquote(raw))); isList(list) && json.Valid(list) {
		return list
	}
	return raw
}

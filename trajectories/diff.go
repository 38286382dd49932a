package trajectories

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/internal/textutil"
)

// ConfigDigest returns the digest ("sha256:…") of a resolved config: of its JSON
// without insignificant white space, in the order given.
func ConfigDigest(config json.RawMessage) string {
	var buf bytes.Buffer
	if err := json.Compact(&buf, config); err != nil {
		buf.Reset()
		buf.Write(config)
	}
	sum := sha256.Sum256(buf.Bytes())
	return "sha256:" + hex.EncodeToString(sum[:])
}

// DiffConfigs compares two resolved configs (JSON) and returns one line per
// setting that differs, "path: old -> new", in the order of the new config and
// then of the old. Keys are joined by dots; a setting one side lacks is "(not set)".
func DiffConfigs(before, after json.RawMessage) []string {
	var lines []string
	diffValues("", gjson.ParseBytes(before), gjson.ParseBytes(after), &lines)
	return lines
}

func diffValues(path string, before, after gjson.Result, lines *[]string) {
	switch {
	case before.IsObject() && after.IsObject():
		old := members(before)
		seen := make(map[string]bool, len(old))
		after.ForEach(func(key, value gjson.Result) bool {
			name := key.String()
			if !seen[name] {
				seen[name] = true
				diffValues(join(path, name), old[name], value, lines)
			}
			return true
		})
		before.ForEach(func(key, value gjson.Result) bool {
			name := key.String()
			if !seen[name] {
				seen[name] = true
				diffValues(join(path, name), value, gjson.Result{}, lines)
			}
			return true
		})
	case before.IsArray() && after.IsArray() && (holdsObjects(before) || holdsObjects(after)):
		x, y := before.Array(), after.Array()
		for i := range max(len(x), len(y)) {
			var a, b gjson.Result
			if i < len(x) {
				a = x[i]
			}
			if i < len(y) {
				b = y[i]
			}
			diffValues(join(path, strconv.Itoa(i)), a, b, lines)
		}
	default:
		a, b := shown(before), shown(after)
		if a != b {
			*lines = append(*lines, path+": "+textutil.Shorten(a, 80)+" -> "+textutil.Shorten(b, 80))
		}
	}
}

func members(object gjson.Result) map[string]gjson.Result {
	m := make(map[string]gjson.Result)
	object.ForEach(func(key, value gjson.Result) bool {
		m[key.String()] = value
		return true
	})
	return m
}

func holdsObjects(array gjson.Result) bool {
	found := false
	array.ForEach(func(_, value gjson.Result) bool {
		found = value.IsObject()
		return !found
	})
	return found
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// shown is the value as people write it, without insignificant white space.
func shown(v gjson.Result) string {
	if !v.Exists() {
		return "(not set)"
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, []byte(v.Raw)); err != nil {
		return v.Raw
	}
	return buf.String()
}

// toolsByName turns the list of a request's "tools" field into an object by tool
// name, so that a difference names the tool and not its position.
func toolsByName(tools json.RawMessage) json.RawMessage {
	object := chat.Object{}
	gjson.ParseBytes(tools).ForEach(func(_, tool gjson.Result) bool {
		function := tool.Get("function")
		object.Set(function.Get("name").String(), json.RawMessage(function.Raw))
		return true
	})
	return object.Append(nil)
}

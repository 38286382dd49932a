package harbor

import (
	"encoding/json"
	"regexp"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// secretKey matches the keys whose values Harbor takes out of a configuration.
var secretKey = regexp.MustCompile(`(?i)KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|AUTH`)

// Redacted stands for a secret.
const Redacted = "****"

// userInfo matches the name and password in a URL.
var userInfo = regexp.MustCompile(`://[^/@\s]+@`)

// Redact returns JSON in which every text under a key that sounds like a secret is
// replaced, and names and passwords in URLs. Numbers (max_token_length), null and names of variables (api_key_env)
// are no secrets.
func Redact(raw json.RawMessage) json.RawMessage {
	return appendRedacted(nil, gjson.ParseBytes(raw), false, 0)
}

// maxDepth bounds the nesting that Redact follows; what lies deeper is left out.
const maxDepth = 64

func appendRedacted(dst []byte, v gjson.Result, secret bool, depth int) []byte {
	switch {
	case depth > maxDepth:
		return append(dst, "null"...)
	case v.IsObject():
		dst = append(dst, '{')
		first := true
		v.ForEach(func(key, value gjson.Result) bool {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			name := key.String()
			dst = append(chat.AppendString(dst, name), ':')
			hidden := secret || secretKey.MatchString(name) && !variableName.MatchString(name)
			dst = appendRedacted(dst, value, hidden, depth+1)
			return true
		})
		return append(dst, '}')
	case v.IsArray():
		dst = append(dst, '[')
		for i, item := range v.Array() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendRedacted(dst, item, secret, depth+1)
		}
		return append(dst, ']')
	case secret && v.Type == gjson.String && v.Str != "":
		return chat.AppendString(dst, Redacted)
	case v.Type == gjson.String && userInfo.MatchString(v.Str):
		return chat.AppendString(dst, userInfo.ReplaceAllString(v.Str, "://"+Redacted+"@"))
	case !v.Exists():
		return append(dst, "null"...)
	}
	return append(dst, v.Raw...)
}

// variableName matches keys that hold the name of a variable, not its value.
var variableName = regexp.MustCompile(`(?i)_env$`)

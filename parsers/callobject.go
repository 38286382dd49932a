package parsers

import "strings"

// callKeys says which members of a call object are read.
type callKeys struct {
	// parameters accepts "parameters" where "arguments" is missing.
	parameters bool
	// required makes an object without arguments, or with null, no call.
	required bool
	// verbatimString keeps arguments given as a JSON string as that string's
	// text; otherwise a string is unwrapped only when it holds an object.
	verbatimString bool
	// id takes over the member "id" where it looks like one of Mistral's.
	id bool
}

// callFromObject reads a call from a valid JSON object {"name": …, "arguments": …}.
// Only top-level members count and the last of a repeated one wins. It returns
// false when there is no usable name.
func callFromObject(object string, keys callKeys) (Call, bool) {
	var name, arguments, parameters, id string
	eachMember(object, func(key, value string) bool {
		switch key {
		case "name":
			name = value
		case "arguments":
			arguments = value
		case "parameters":
			parameters = value
		case "id":
			id = value
		}
		return true
	})
	if keys.parameters && (arguments == "" || keys.required && arguments == "null") {
		arguments = parameters
	}
	if keys.required && (arguments == "" || arguments == "null") {
		return Call{}, false
	}
	if !strings.HasPrefix(name, `"`) {
		return Call{}, false
	}
	call := Call{Name: strings.TrimSpace(unquote(name))}
	if call.Name == "" {
		return Call{}, false
	}
	if keys.id && len(id) == 11 && id[0] == '"' && strings.Trim(id[1:10], alnum) == "" {
		call.ID = id[1:10]
	}
	call.Arguments, call.InvalidArguments = argumentsText(arguments, keys.verbatimString)
	return call, true
}

// argumentsText turns the JSON value that stands for the arguments into their
// text, and reports whether that is something else than an object.
func argumentsText(value string, verbatimString bool) (string, bool) {
	switch {
	case value == "":
		return "{}", false
	case value[0] == '{':
		return normalJSON(value), false
	case value[0] == '"':
		text := unquote(value)
		switch {
		case isJSONObject(text) && verbatimString:
			return trimJSONSpace(text), false
		case isJSONObject(text):
			return normalJSON(text), false
		case verbatimString && strings.TrimSpace(text) == "":
			return "{}", false
		case verbatimString:
			return text, true
		}
	}
	return normalJSON(value), true
}

// verbatimCall makes a call of arguments that are passed on as the model wrote
// them, but for outer white space.
func verbatimCall(id, name, arguments string, truncated bool) Call {
	arguments = strings.TrimSpace(arguments)
	if arguments == "" {
		arguments = "{}"
	}
	return Call{
		ID: id, Name: name, Arguments: arguments,
		Truncated: truncated, InvalidArguments: !isJSONObject(arguments),
	}
}

// callsFromJSON reads the calls of a valid JSON object or array of objects. It
// returns false when any of them is no call.
func callsFromJSON(value string, keys callKeys) ([]Call, bool) {
	if value[0] == '{' {
		call, ok := callFromObject(value, keys)
		return []Call{call}, ok
	}
	if value[0] != '[' {
		return nil, false
	}
	calls, all := []Call{}, true
	eachItem(value, func(item string) bool {
		var call Call
		if all = item[0] == '{'; all {
			call, all = callFromObject(item, keys)
			calls = append(calls, call)
		}
		return all
	})
	return calls, all
}

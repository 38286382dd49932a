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
	// function accepts calls inside of {"function": …}.
	function bool
	// cohere reads tool_name, parameters and tool_call_id.
	cohere bool
	// args reads "args" in place of "arguments".
	args bool
	// single reads objects of one member, {NAME: ARGUMENTS}.
	single bool
}

// callFromObject reads a call from a valid JSON object {"name": …, "arguments": …}.
// Only top-level members count and the last of a repeated one wins. It returns
// false when there is no usable name.
func callFromObject(object string, keys callKeys) (Call, bool) {
	if keys.single {
		return callFromMember(object)
	}
	if keys.function {
		if inner := memberValue(object, "function"); strings.HasPrefix(inner, "{") {
			object = inner
		}
	}
	nameKey, argsKey, idKey := "name", "arguments", "id"
	switch {
	case keys.cohere:
		nameKey, argsKey, idKey = "tool_name", "parameters", "tool_call_id"
	case keys.args:
		argsKey = "args"
	}
	var name, arguments, parameters, id string
	eachMember(object, func(key, value string) bool {
		switch key {
		case nameKey:
			name = value
		case argsKey:
			arguments = value
		case "parameters":
			parameters = value
		case idKey:
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
	if keys.cohere && strings.HasPrefix(id, `"`) {
		call.ID = strings.TrimSpace(unquote(id))
	}
	call.Arguments, call.InvalidArguments = argumentsText(arguments, keys.verbatimString)
	return call, true
}

// callFromMember reads a call from an object {NAME: ARGUMENTS}.
func callFromMember(object string) (Call, bool) {
	var call Call
	members := 0
	eachMember(object, func(key, value string) bool {
		members++
		call.Name = strings.TrimSpace(key)
		if value == "null" {
			value = ""
		}
		call.Arguments, call.InvalidArguments = argumentsText(value, false)
		return true
	})
	return call, members == 1 && call.Name != ""
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

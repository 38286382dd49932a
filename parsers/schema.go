package parsers

import "strings"

// typeSet is the set of types a JSON schema admits for one argument; zero means
// that nothing is known.
type typeSet uint16

const (
	typeString typeSet = 1 << iota
	typeInteger
	typeNumber
	typeBoolean
	typeObject
	typeArray
	typeNull
	typeOther // a name that JSON schema does not have
)

// maxSchemaDepth bounds references and combinators, which may be circular.
const maxSchemaDepth = 16

// argTypes returns the types of argument key of the tool; zero when the tool,
// the argument or its type is unknown. Each schema is read once per response.
func (p *pass) argTypes(tool, key string) typeSet {
	types, ok := p.types[tool]
	if !ok {
		for _, t := range p.tools {
			if t.Name == tool {
				types = schemaTypes(string(t.Parameters))
				break
			}
		}
		if p.types == nil {
			p.types = make(map[string]map[string]typeSet)
		}
		p.types[tool] = types
	}
	return types[key]
}

// hasTool reports whether the model was offered a tool of that name.
func (p *pass) hasTool(name string) bool {
	for _, t := range p.tools {
		if t.Name == name {
			return true
		}
	}
	return false
}

// schemaTypes returns the types of the properties of an object schema.
func schemaTypes(schema string) map[string]typeSet {
	if !isJSONObject(schema) {
		return nil
	}
	types := make(map[string]typeSet)
	root := trimJSONSpace(schema)
	properties := memberValue(root, "properties")
	if properties == "" || properties[0] != '{' {
		return nil
	}
	eachMember(properties, func(key, value string) bool {
		types[key] = typesOf(value, root, 0)
		return true
	})
	return types
}

// memberValue returns the text of a member of a valid JSON object, "" if it has
// none of that name.
func memberValue(object, name string) string {
	found := ""
	eachMember(object, func(key, value string) bool {
		if key == name {
			found = value
		}
		return true
	})
	return found
}

// typesOf gathers the types that schema, a part of root, admits.
func typesOf(schema, root string, depth int) typeSet {
	if schema[0] != '{' || depth > maxSchemaDepth {
		return 0
	}
	var types, implied typeSet
	eachMember(schema, func(key, value string) bool {
		switch key {
		case "type":
			types |= namedTypes(value)
		case "nullable":
			if value == "true" {
				types |= typeNull
			}
		case "anyOf", "oneOf", "allOf":
			if value[0] == '[' {
				eachItem(value, func(item string) bool {
					types |= typesOf(item, root, depth+1)
					return true
				})
			}
		case "$ref":
			if target := reference(value, root); target != "" {
				types |= typesOf(target, root, depth+1)
			}
		case "const":
			implied |= typeOfJSON(value)
		case "enum":
			if value[0] == '[' {
				eachItem(value, func(item string) bool {
					implied |= typeOfJSON(item)
					return true
				})
			}
		}
		return true
	})
	if types&^typeNull == 0 {
		types |= implied
	}
	return types
}

// namedTypes reads the value of "type": a name or a list of names.
func namedTypes(value string) typeSet {
	switch value[0] {
	case '"':
		return typeNamed(unquote(value))
	case '[':
		var types typeSet
		eachItem(value, func(item string) bool {
			if item[0] == '"' {
				types |= typeNamed(unquote(item))
			}
			return true
		})
		return types
	}
	return 0
}

// typeNamed knows the names of JSON schema and those that models and tool
// authors use in their place.
func typeNamed(name string) typeSet {
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case "string", "str", "text", "varchar", "char", "enum":
		return typeString
	case "boolean", "bool", "binary":
		return typeBoolean
	case "object":
		return typeObject
	case "array", "arr":
		return typeArray
	case "null", "none":
		return typeNull
	case "":
		return 0
	}
	for _, known := range []struct {
		prefix string
		types  typeSet
	}{
		{"int", typeInteger},
		{"uint", typeInteger},
		{"long", typeInteger},
		{"short", typeInteger},
		{"unsigned", typeInteger},
		{"num", typeNumber},
		{"float", typeNumber},
		{"dict", typeObject},
		{"list", typeArray},
	} {
		if strings.HasPrefix(name, known.prefix) {
			return known.types
		}
	}
	return typeOther
}

// typeOfJSON returns the type of a valid JSON value.
func typeOfJSON(value string) typeSet {
	switch value[0] {
	case '"':
		return typeString
	case '{':
		return typeObject
	case '[':
		return typeArray
	case 't', 'f':
		return typeBoolean
	case 'n':
		return typeNull
	}
	if strings.ContainsAny(value, ".eE") {
		return typeNumber
	}
	return typeInteger
}

// reference follows a "$ref" into the same schema, "#/$defs/Name"; "" when it
// leads elsewhere.
func reference(value, root string) string {
	if value[0] != '"' {
		return ""
	}
	path, ok := strings.CutPrefix(unquote(value), "#/")
	if !ok {
		return ""
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for step := range strings.SplitSeq(path, "/") {
		if root == "" || root[0] != '{' {
			return ""
		}
		root = memberValue(root, unescape.Replace(step))
	}
	return root
}

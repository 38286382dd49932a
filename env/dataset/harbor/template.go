package harbor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// template splits "${NAME}" or "${NAME:-default}"; anything else is text as it is, as in Harbor.
func template(value string) (name, otherwise string, hasDefault, ok bool) {
	inner, found := strings.CutPrefix(value, "${")
	if !found || !strings.HasSuffix(inner, "}") {
		return "", "", false, false
	}
	inner = strings.TrimSuffix(inner, "}")
	name, otherwise, hasDefault = strings.Cut(inner, ":-")
	if name == "" || strings.ContainsAny(name, "}:$ ") {
		return "", "", false, false
	}
	return name, otherwise, hasDefault, true
}

// Variables returns the names of the variables that values ask for, sorted, each once:
// what has to be passed on knowingly, since a task's container gets nothing else.
func Variables(values ...map[string]string) []string {
	names := map[string]bool{}
	for _, m := range values {
		for _, v := range m {
			if name, _, _, ok := template(v); ok {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Expand replaces values of the form "${NAME}" and "${NAME:-default}" by what lookup
// (os.LookupEnv, or a narrower one) has for the name; a value that only contains such a form stays as it is. A name
// that is not set and has no default is an error, which names all of them.
func Expand(values map[string]string, lookup func(name string) (string, bool)) (map[string]string, error) {
	out := make(map[string]string, len(values))
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		name, otherwise, hasDefault, ok := template(values[key])
		if !ok {
			out[key] = values[key]
			continue
		}
		value, set := lookup(name)
		switch {
		case set:
			out[key] = value
		case hasDefault:
			out[key] = otherwise
		default:
			missing = append(missing, fmt.Sprintf("%s (for %s)", name, key))
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the task needs variables that are not set: %s: set them and start again", strings.Join(missing, ", "))
	}
	return out, nil
}

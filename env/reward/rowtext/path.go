package rowtext

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Lookup returns the value at a path of a row, which is a JSON object. A column whose name is the whole path comes first;
// otherwise the path is taken apart at its dots, where a number is an index into a list. ok is false when nothing is there.
func Lookup(row []byte, path string) (value gjson.Result, ok bool) {
	root := gjson.ParseBytes(row)
	if v, ok := member(root, path); ok {
		return v, true
	}
	v := root
	for _, step := range strings.Split(path, ".") {
		if v, ok = child(v, step); !ok {
			return gjson.Result{}, false
		}
	}
	return v, true
}

func child(v gjson.Result, step string) (gjson.Result, bool) {
	if v.IsObject() {
		return member(v, step)
	}
	n, err := strconv.Atoi(step)
	if !v.IsArray() || err != nil || n < 0 || strconv.Itoa(n) != step {
		return gjson.Result{}, false
	}
	list := v.Array()
	if n >= len(list) {
		return gjson.Result{}, false
	}
	return list[n], true
}

// member finds a key of an object; gjson's own paths would read dots and stars in it.
func member(v gjson.Result, name string) (found gjson.Result, ok bool) {
	if !v.IsObject() {
		return found, false
	}
	v.ForEach(func(key, value gjson.Result) bool {
		if key.String() == name {
			found, ok = value, true
		}
		return !ok
	})
	return found, ok
}

// Text returns the value at a path as text: a string as it is, any other value as JSON. Its error is a *MissingError.
func Text(row []byte, path string) (string, error) {
	v, ok := Lookup(row, path)
	if !ok {
		return "", &MissingError{Path: path, Columns: Columns(row)}
	}
	return textOf(v), nil
}

// String returns the string at a path. A missing value is a *MissingError, one of another type a *TypeError; null counts as
// missing.
func String(row []byte, path string) (string, error) {
	v, ok := Lookup(row, path)
	switch {
	case !ok:
		return "", &MissingError{Path: path, Columns: Columns(row)}
	case v.Type == gjson.Null:
		return "", &TypeError{Path: path, Want: "text", Got: "null"}
	case v.Type != gjson.String:
		return "", &TypeError{Path: path, Want: "text", Got: Describe(v)}
	}
	return v.String(), nil
}

func textOf(v gjson.Result) string {
	if v.Type == gjson.String {
		return v.String()
	}
	return v.Raw
}

// Columns returns the names of a row's columns in order.
func Columns(row []byte) []string {
	var names []string
	gjson.ParseBytes(row).ForEach(func(key, _ gjson.Result) bool {
		names = append(names, key.String())
		return true
	})
	return names
}

// Describe names the type of a value, with the beginning of a short one.
func Describe(v gjson.Result) string {
	kind := "a number"
	switch {
	case v.Type == gjson.String:
		kind = "text"
	case v.Type == gjson.True || v.Type == gjson.False:
		kind = "true or false"
	case v.Type == gjson.Null:
		return "null"
	case v.IsArray():
		kind = "a list"
	case v.IsObject():
		kind = "an object"
	}
	const show = 40
	if len(v.Raw) > show {
		return kind
	}
	return kind + " (" + v.Raw + ")"
}

// MissingError is a path at which a row has nothing.
type MissingError struct {
	Path    string
	Columns []string // those that the row has
}

// Error names the path and the columns that there are.
func (e *MissingError) Error() string {
	if len(e.Columns) == 0 {
		return fmt.Sprintf("no %q in the row, which has no columns", e.Path)
	}
	const show = 30
	names := e.Columns
	more := ""
	if len(names) > show {
		more = fmt.Sprintf(" and %d more", len(names)-show)
		names = names[:show]
	}
	return fmt.Sprintf("no %q in the row; its columns are %s%s", e.Path, strings.Join(names, ", "), more)
}

// TypeError is a value of another type than is needed.
type TypeError struct{ Path, Want, Got string }

// Error names the path and both types.
func (e *TypeError) Error() string { return fmt.Sprintf("%q is %s, want %s", e.Path, e.Got, e.Want) }

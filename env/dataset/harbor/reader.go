package harbor

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// reader collects what is wrong with a document while its tables are read.
type reader struct {
	file     string
	lines    map[string]int
	given    map[string]bool
	problems []Problem
	notes    []Problem
}

func (r *reader) at(key, format string, args ...any) Problem {
	return Problem{File: r.file, Line: r.lines[key], Key: key, Text: fmt.Sprintf(format, args...)}
}

func (r *reader) wrong(key, format string, args ...any) {
	r.problems = append(r.problems, r.at(key, format, args...))
}

func (r *reader) note(key, format string, args ...any) {
	r.notes = append(r.notes, r.at(key, format, args...))
}

// table is one table of the document; one that is absent has no values.
type table struct {
	*reader
	path   string
	values map[string]any
	used   map[string]bool
}

func (r *reader) newTable(path string, values map[string]any) *table {
	return &table{reader: r, path: path, values: values, used: map[string]bool{}}
}

func (t *table) name(key string) string { return joinKey(t.path, key) }

// take returns a value, notes that the document has it and that the key is known.
func (t *table) take(key string) (any, bool) {
	t.used[key] = true
	v, ok := t.values[key]
	if ok {
		t.given[t.name(key)] = true
	}
	return v, ok
}

func (t *table) has(key string) bool { _, ok := t.values[key]; return ok }

// ownKeys are the keys of hermes-env in [metadata]. All other keys there are free.
var ownKeys = []string{"keep_processes", "work_directories", "verify_in", "isolate_tests", "tests_readable"}

// misspeltKeys notes the keys of [metadata] that are probably misspelt ones of hermes-env.
func (t *table) misspeltKeys() {
	for key := range t.values {
		if near := textutil.Misspelt(key, ownKeys); near != "" && !t.used[key] {
			t.note(t.name(key), "is not known and is ignored; did you mean %q?", near)
		}
	}
}

// done notes the keys that are not known, with the key that was probably meant.
func (t *table) done() {
	var unknown []string
	for key := range t.values {
		if !t.used[key] {
			unknown = append(unknown, key)
		}
	}
	slices.SortFunc(unknown, func(a, b string) int {
		if d := t.lines[t.name(a)] - t.lines[t.name(b)]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	known := slices.Sorted(maps.Keys(t.used))
	for _, key := range unknown {
		switch near := textutil.Misspelt(key, known); {
		case near != "":
			t.note(t.name(key), "is not known and is ignored; did you mean %q?", near)
		case slices.Contains(ownKeys, key):
			t.note(t.name(key), "is not known here and is ignored; it belongs in [metadata]")
		default:
			t.note(t.name(key), "is not known and is ignored")
		}
	}
}

// kind names a value's type in the words of TOML.
func kind(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64, float64:
		return "a number"
	case bool:
		return "true or false"
	case time.Time:
		return "a date or time"
	case []any, []map[string]any:
		return "an array"
	case map[string]any:
		return "a table"
	}
	return "a value"
}

// mustBe reports a value of a wrong type.
func (t *table) mustBe(key, want string, v any) {
	t.wrong(t.name(key), "must be %s, not %s", want, kind(v))
}

func (t *table) sub(key string) *table {
	v, ok := t.take(key)
	m, isTable := v.(map[string]any)
	if ok && !isTable {
		t.mustBe(key, "a table", v)
	}
	return t.newTable(t.name(key), m)
}

// tables returns the tables of an array.
func (t *table) tables(key string) []*table {
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	var out []*table
	switch list := v.(type) {
	case []map[string]any:
		for i, m := range list {
			out = append(out, t.newTable(fmt.Sprintf("%s[%d]", t.name(key), i), m))
		}
	case []any:
		for i, e := range list {
			path := fmt.Sprintf("%s[%d]", t.name(key), i)
			m, ok := e.(map[string]any)
			if !ok {
				t.wrong(path, "must be a table, not %s", kind(e))
				continue
			}
			out = append(out, t.newTable(path, m))
		}
	default:
		t.mustBe(key, "an array of tables", v)
	}
	return out
}

func (t *table) text(key, otherwise string) string {
	v, ok := t.take(key)
	if !ok {
		return otherwise
	}
	s, ok := v.(string)
	if !ok {
		t.mustBe(key, "a string", v)
		return otherwise
	}
	return s
}

// required is text that must be there.
func (t *table) required(key string) string {
	s := t.text(key, "")
	if s == "" && !t.has(key) {
		t.wrong(t.path, "needs a %q", key)
	} else if v, isText := t.values[key].(string); isText && strings.TrimSpace(v) == "" {
		t.wrong(t.name(key), "must not be empty")
	}
	return s
}

func (t *table) oneOf(key, otherwise string, choices ...string) string {
	s := t.text(key, otherwise)
	if !slices.Contains(choices, s) {
		t.wrong(t.name(key), "must be one of %s, not %q", strings.Join(choices, ", "), s)
		return otherwise
	}
	return s
}

// user is a name or a number.
func (t *table) user(key string) string {
	switch v := t.values[key].(type) {
	case int64:
		t.take(key)
		if v < 0 {
			t.wrong(t.name(key), "must be a user's name or number")
		}
		return strconv.FormatInt(v, 10)
	default:
		return t.text(key, "")
	}
}

// number reads a finite number; one in quotes is taken, as Harbor does.
func (t *table) number(key string, otherwise float64) float64 {
	v, ok := t.take(key)
	if !ok {
		return otherwise
	}
	var n float64
	switch v := v.(type) {
	case int64:
		n = float64(v)
	case float64:
		n = v
	case string:
		parsed, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil {
			t.wrong(t.name(key), "must be a number, not %q", v)
			return otherwise
		}
		t.note(t.name(key), "is a number in quotes")
		n = parsed
	default:
		t.mustBe(key, "a number", v)
		return otherwise
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		t.wrong(t.name(key), "must be a finite number")
		return otherwise
	}
	return n
}

// whole reads a whole number of at least the given one.
func (t *table) whole(key string, otherwise, least int64) int64 {
	n := t.number(key, float64(otherwise))
	if n != math.Trunc(n) || math.Abs(n) > 1<<53 {
		t.wrong(t.name(key), "must be a whole number")
		return otherwise
	}
	if n < float64(least) {
		t.wrong(t.name(key), "must be at least %d", least)
		return otherwise
	}
	return int64(n)
}

// maxSeconds is more than anybody waits, and fits a time.Duration.
const maxSeconds = 1e9

// seconds reads a time; positive means that 0 is not allowed.
func (t *table) seconds(key string, otherwise time.Duration, positive bool) time.Duration {
	if !t.has(key) {
		t.used[key] = true
		return otherwise
	}
	before := len(t.problems)
	n := t.number(key, 0)
	switch {
	case len(t.problems) > before:
		return otherwise
	case positive && n <= 0:
		t.wrong(t.name(key), "must be more than 0 seconds")
		return otherwise
	case n < 0 || n > maxSeconds:
		t.wrong(t.name(key), "must be between 0 and %.0f seconds", maxSeconds)
		return otherwise
	}
	return time.Duration(n * float64(time.Second))
}

func (t *table) boolean(key string, otherwise bool) bool {
	v, ok := t.take(key)
	if !ok {
		return otherwise
	}
	b, ok := v.(bool)
	if !ok {
		t.mustBe(key, "true or false", v)
		return otherwise
	}
	return b
}

func (t *table) texts(key string) []string {
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		t.mustBe(key, "an array of strings", v)
		return nil
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		s, ok := e.(string)
		if !ok {
			t.wrong(fmt.Sprintf("%s[%d]", t.name(key), i), "must be a string, not %s", kind(e))
			continue
		}
		out = append(out, s)
	}
	return out
}

// variableName matches what every shell takes as the name of a variable.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// variables reads a table of environment variables.
func (t *table) variables(key string) map[string]string {
	sub := t.sub(key)
	out := make(map[string]string, len(sub.values))
	for name := range sub.values {
		if !variableName.MatchString(name) {
			t.wrong(sub.name(name), "is no name of an environment variable")
			continue
		}
		value := sub.text(name, "")
		if strings.IndexByte(value, 0) >= 0 {
			t.wrong(sub.name(name), "must not contain a NUL character")
			continue
		}
		out[name] = value
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

var sizeText = regexp.MustCompile(`(?i)^\s*(\d+(?:\.\d+)?)\s*([kmgt])(?:i?b)?\s*$`)

// ParseSizeMB reads a size such as "2G", "512M" or "1048576K" and returns whole mebibytes, rounded
// down as Harbor does.
func ParseSizeMB(s string) (int64, error) {
	m := sizeText.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is no size: write such as \"2G\" or \"512M\"", s)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no size: %w", s, err)
	}
	n *= map[string]float64{"k": 1.0 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}[strings.ToLower(m[2])]
	if n < 1 || n > 1<<40 {
		return 0, fmt.Errorf("%q is no sensible size: it must be at least 1M", s)
	}
	return int64(n), nil
}

// megabytes reads a size in MB, or its deprecated spelling as text, which goes first
// as in Harbor.
func (t *table) megabytes(key, old string, otherwise int64) int64 {
	n := t.whole(key, otherwise, 1)
	if !t.has(old) {
		t.used[old] = true
		return n
	}
	s := t.text(old, "")
	if _, isText := t.values[old].(string); !isText {
		return n
	}
	size, err := ParseSizeMB(s)
	if err != nil {
		t.wrong(t.name(old), "%s", err)
		return n
	}
	if t.has(key) {
		t.note(t.name(old), "is deprecated but goes before %s, as in Harbor", key)
	}
	t.given[t.name(key)] = true
	return size
}

// hosts reads allowed_hosts: bare names or IPv4 addresses, lower-cased.
func (t *table) hosts(key string) []string {
	var out []string
	for i, h := range t.texts(key) {
		clean := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(h)), ".")
		if clean == "" {
			continue
		}
		if strings.ContainsAny(clean, ":/ \t@") {
			t.wrong(fmt.Sprintf("%s[%d]", t.name(key), i), "must be a host name or an IPv4 address alone, without scheme, port or path, not %q", h)
			continue
		}
		if !slices.Contains(out, clean) {
			out = append(out, clean)
		}
	}
	return out
}

// network reads network_mode and allowed_hosts; hosts alone mean an allow-list.
func (t *table) network() (NetworkMode, []string) {
	mode := NetworkMode("")
	if t.has("network_mode") {
		mode = NetworkMode(t.oneOf("network_mode", string(Public), string(Public), string(NoNetwork), string(Allowlist)))
	}
	t.used["network_mode"] = true
	hosts := t.hosts("allowed_hosts")
	switch {
	case len(hosts) > 0 && mode == "":
		mode = Allowlist
	case len(hosts) > 0 && mode != Allowlist:
		t.wrong(t.name("allowed_hosts"), "needs network_mode = %q, not %q", Allowlist, mode)
	case len(hosts) == 0 && mode == Allowlist:
		t.note(t.name("network_mode"), "allows no host at all: allowed_hosts is empty")
	}
	return mode, hosts
}

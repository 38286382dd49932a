package tools

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// searchScript takes the root, the pattern for grep -P and for grep -E, an option
// for the latter, what to print, how many results, how much context, the root as a
// find pattern, and then find's tests of file names. It prints one fact per line:
// "E kind text" for no answer, "F path", "C count path", "T total", and in content
// mode the lines of grep -n below their file's F line.
//
// Names are sorted before anything is cut off, so that a search does not depend on
// the order a file system keeps them in. Only files that match are read twice.
const searchScript = `root=$1 pcre=$2 ere=$3 fold=$4 mode=$5 max=$6 around=$7 keep=$8; shift 8
LC_ALL=C.UTF-8; export LC_ALL
if [ ! -e "$root" ]; then echo 'E missing'; exit 0; fi
walk() {
  find -H "$root" -type d \( -name '.?*' -o -name node_modules -o -name __pycache__ \) ! -path "$keep" -prune -o -type f "$@"
}
if [ "$mode" = names ]; then
  walk "$@" -print | LC_ALL=C sort | LC_ALL=C awk -v max="$max" 'NR<=max { print "F" $0 } END { print "T" NR }'
  exit 0
fi
if printf 'a1\n' | grep -q -P 'a\d' 2>/dev/null; then kind=-P pattern=$pcre fold=
else kind=-E pattern=$ere; fi
problem=$(echo | grep -q $kind $fold -e "$pattern" 2>&1) || [ $? -eq 1 ] || { printf 'E pattern %s\n' "$problem"; exit 0; }
matching() {
  walk "$@" -print0 | LC_ALL=C sort -z | xargs -0 grep -l -I -s $kind $fold -e "$pattern" -- /dev/null 2>/dev/null | head -n "$max"
}
context=; [ "$around" -eq 0 ] || context="-C $around"
case $mode in
files_only) matching "$@" | sed 's/^/F/' ;;
count) matching "$@" | while IFS= read -r f; do
    n=$(grep -c -I $kind $fold -e "$pattern" -- "$f" 2>/dev/null); printf 'C%d %s\n' "$n" "$f"
  done ;;
content) matching "$@" | while IFS= read -r f; do
    printf 'F%s\n' "$f"
    grep -n -I -m "$max" $context $kind $fold -e "$pattern" -- "$f" 2>/dev/null | LC_ALL=C cut -b 1-2100
  done | LC_ALL=C awk -v max="$max" '{ print } /^[0-9]+:/ { if (++n >= max) exit }' ;;
esac
`

const (
	maxPatternBytes = 10_000
	maxSearchBytes  = 16 << 20
)

// Search runs a search in the sandbox. What the model can be told about a search
// that has no answer is in the result; an error means that it could not be run.
func (s *State) Search(ctx context.Context, q SearchQuery) (SearchResult, error) {
	if q.Mode == "" {
		q.Mode = "content"
	}
	if q.Limit <= 0 {
		q.Limit = defaultSearchLimit
	}
	switch {
	case len(q.Pattern) > maxPatternBytes || len(q.Glob) > maxPatternBytes || len(q.Path) > maxPath:
		return SearchResult{Error: fmt.Sprintf("The search is too long: patterns may have %d bytes, paths %d", maxPatternBytes, maxPath)}, nil
	case strings.ContainsAny(q.Pattern, "\n\r"):
		return SearchResult{Error: "The pattern contains a line break, but files are searched line by line; search for a part of one line"}, nil
	case strings.ContainsRune(q.Pattern+q.Path+q.Glob, 0):
		return SearchResult{Error: "The search contains a NUL character"}, nil
	}
	dir, err := s.WorkingDir(ctx)
	if err != nil {
		return SearchResult{}, err
	}
	root, err := s.searchRoot(ctx, q.Path)
	if err != nil {
		return SearchResult{}, err
	}
	mode, glob := q.Mode, q.Glob
	if q.Files {
		mode, glob = "names", q.Pattern
	}
	ere, fold := extended(q.Pattern)
	args := []string{root, q.Pattern, ere, fold, mode, strconv.Itoa(q.Offset + q.Limit + 1), strconv.Itoa(q.Context), escapeGlob(root)}
	out, err := s.shell(ctx, dir, searchScript, nil, s.options.SearchTimeout, maxSearchBytes, append(args, nameTests(glob)...)...)
	if err != nil {
		return SearchResult{}, err
	}
	if out.exit != 0 && !out.timedOut && len(out.stdout) == 0 {
		return SearchResult{Error: fmt.Sprintf("The search failed: %v", out.complaint())}, nil
	}
	result := parseSearch(string(out.stdout), q, mode)
	result.TimedOut = out.timedOut
	if result.Error == "" && len(out.stderr) > 0 && !out.timedOut {
		result.Warning = "Some paths could not be searched: " + out.complaint().Error()
	}
	return result, nil
}

// searchRoot returns the path to search as find gets it: relative when the model
// gave it so, because results are shown the way the question was put.
func (s *State) searchRoot(ctx context.Context, name string) (string, error) {
	if name == "" {
		name = "."
	}
	if name == "~" || strings.HasPrefix(name, "~/") {
		resolved, err := s.Resolve(ctx, name)
		if err != nil {
			return "", err
		}
		name = resolved
	}
	if trimmed := strings.TrimRight(name, "/"); trimmed != "" {
		name = trimmed
	} else {
		name = "/"
	}
	if !path.IsAbs(name) && name != "." && !strings.HasPrefix(name, "./") && !strings.HasPrefix(name, "../") && name != ".." {
		name = "./" + name
	}
	return name, nil
}

// parseSearch reads what searchScript printed and takes the page out of it.
func parseSearch(text string, q SearchQuery, mode string) SearchResult {
	var r SearchResult
	file, seen, total := "", 0, 0
	inPage := func(i int) bool { return i >= q.Offset && i < q.Offset+q.Limit }
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if line == "" {
			continue
		}
		switch rest := line[1:]; {
		case line[0] == 'E':
			kind, message, _ := strings.Cut(strings.TrimSpace(rest), " ")
			r.Error = searchProblem(kind, message, q)
			return r
		case line[0] == 'T':
			if n, err := strconv.Atoi(rest); err == nil {
				total = n
			}
		case line[0] == 'F' && mode == "content":
			file = shownPath(rest)
		case line[0] == 'F':
			if inPage(seen) {
				r.Files = append(r.Files, shownPath(rest))
			}
			seen++
		case line[0] == 'C':
			number, name, _ := strings.Cut(rest, " ")
			if n, err := strconv.Atoi(number); err == nil {
				if inPage(seen) {
					r.Counts = append(r.Counts, FileCount{shownPath(name), n})
					r.TotalCount += n
				}
				seen++
			}
		default:
			m, ok := parseMatch(line)
			if !ok || strings.ContainsRune(m.Content, 0) {
				continue
			}
			m.Path = file
			if m.Around {
				if seen >= q.Offset && seen <= q.Offset+q.Limit {
					r.Matches = append(r.Matches, m)
				}
				continue
			}
			if inPage(seen) {
				r.Matches = append(r.Matches, m)
			}
			seen++
		}
	}
	if mode == "names" {
		seen = max(seen, total)
	}
	r.Truncated = seen > q.Offset+q.Limit
	if mode != "count" {
		r.TotalCount = seen
	}
	return r
}

// parseMatch reads "12:text" (a match) or "12-text" (context).
func parseMatch(line string) (SearchMatch, bool) {
	i := 0
	for i < len(line) && line[i] >= '0' && line[i] <= '9' {
		i++
	}
	if i == 0 || i == len(line) || line[i] != ':' && line[i] != '-' {
		return SearchMatch{}, false
	}
	number, err := strconv.Atoi(line[:i])
	if err != nil {
		return SearchMatch{}, false
	}
	content := strings.ToValidUTF8(strings.TrimRight(line[i+1:], "\r"), "\uFFFD")
	return SearchMatch{Line: number, Content: cutChars(content, maxMatchChars), Around: line[i] == '-'}, true
}

func shownPath(name string) string {
	return strings.ToValidUTF8(strings.TrimPrefix(name, "./"), "\uFFFD")
}

func searchProblem(kind, message string, q SearchQuery) string {
	switch kind {
	case "missing":
		name := q.Path
		if name == "" {
			name = "."
		}
		return "Path not found: " + name
	case "pattern":
		return "Invalid regular expression: " + cutChars(strings.ToValidUTF8(message, "\uFFFD"), 300)
	}
	return "The search failed"
}

// extended rewrites a regular expression for a grep that knows POSIX extended
// expressions only: digit classes, groups without capture, lazy quantifiers, and a
// leading (?i), which becomes an option. What else it lacks is an error of grep's.
func extended(pattern string) (ere, fold string) {
	if rest, ok := strings.CutPrefix(pattern, "(?i)"); ok {
		pattern, fold = rest, "-i"
	}
	var b strings.Builder
	inClass, classStart := false, 0
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(extendedEscape(pattern[i], inClass))
		case inClass:
			b.WriteByte(c)
			inClass = c != ']' || i == classStart
		case c == '[':
			inClass, classStart = true, i+1
			b.WriteByte(c)
			if classStart < len(pattern) && pattern[classStart] == '^' {
				classStart++
				i++
				b.WriteByte('^')
			}
		case c == '(' && strings.HasPrefix(pattern[i:], "(?:"):
			b.WriteByte('(')
			i += 2
		case c == '?' && i > 0 && strings.IndexByte("*+?}", pattern[i-1]) >= 0 && (i < 2 || pattern[i-2] != '\\'):
			// A lazy quantifier finds the same lines.
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), fold
}

func extendedEscape(c byte, inClass bool) string {
	switch {
	case c == 'd' && inClass:
		return "0-9"
	case c == 'd':
		return "[0-9]"
	case c == 'D' && !inClass:
		return "[^0-9]"
	case c == 'w' && inClass:
		return "[:alnum:]_"
	case c == 's' && inClass:
		return "[:space:]"
	case c == 's':
		return "[[:space:]]"
	case c == 'S' && !inClass:
		return "[^[:space:]]"
	case c == 'w' && !inClass:
		return "[[:alnum:]_]"
	case c == 'W' && !inClass:
		return "[^[:alnum:]_]"
	case c == 't':
		return "\t"
	case inClass:
		return string(c)
	}
	return `\` + string(c)
}

const maxAlternatives = 64

// nameTests turns a glob into find's tests: {a,b} into alternatives, a leading !
// into a negation, a glob with a slash into a test of the whole path.
func nameTests(glob string) []string {
	if glob == "" {
		return nil
	}
	glob, negated := strings.CutPrefix(glob, "!")
	tests := []string{}
	if negated {
		tests = append(tests, "!")
	}
	tests = append(tests, "(")
	for i, alternative := range braces(glob) {
		if i > 0 {
			tests = append(tests, "-o")
		}
		if strings.Contains(alternative, "/") {
			alternative = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(alternative, "./"), "**/"), "/")
			alternative = strings.ReplaceAll(strings.ReplaceAll(alternative, "**/", "*"), "**", "*")
			if strings.Contains(alternative, "/") {
				tests = append(tests, "-path", "*/"+alternative)
				continue
			}
		}
		tests = append(tests, "-name", alternative)
	}
	return append(tests, ")")
}

// braces expands {a,b} in a glob, up to maxAlternatives; braces that don't match stay.
func braces(glob string) []string {
	done, queue := []string{}, []string{glob}
	for len(queue) > 0 && len(done)+len(queue) <= maxAlternatives {
		g := queue[0]
		queue = queue[1:]
		end := strings.IndexByte(g, '}')
		open := -1
		if end >= 0 {
			open = strings.LastIndexByte(g[:end], '{')
		}
		if open < 0 {
			done = append(done, g)
			continue
		}
		for _, choice := range strings.Split(g[open+1:end], ",") {
			queue = append(queue, g[:open]+choice+g[end+1:])
		}
	}
	return append(done, queue...)
}

// escapeGlob makes a path a pattern that matches only itself.
func escapeGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

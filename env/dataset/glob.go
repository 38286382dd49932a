package dataset

import (
	"fmt"
	"regexp"
	"strings"
)

// hasGlob tells a pattern from a plain path.
func hasGlob(path string) bool { return strings.ContainsAny(path, "*?[") }

// globPattern compiles a glob over slash-separated paths: "*" and "?" stay within one component, "**" crosses components,
// "[a-z]" and "[!a]" are sets, a backslash takes the next character literally.
func globPattern(glob string) (*regexp.Regexp, error) {
	var re strings.Builder
	re.WriteString(`^`)
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			if !strings.HasPrefix(glob[i:], "**") {
				re.WriteString(`[^/]*`)
				continue
			}
			i++
			if strings.HasPrefix(glob[i+1:], "/") {
				i++
				re.WriteString(`(?:.*/)?`)
			} else {
				re.WriteString(`.*`)
			}
		case '?':
			re.WriteString(`[^/]`)
		case '[':
			end := strings.IndexByte(glob[i+1:], ']')
			if end <= 0 {
				return nil, fmt.Errorf("pattern %q: a set begins with [ and has no end", glob)
			}
			set := glob[i+1 : i+1+end]
			i += end + 1
			re.WriteByte('[')
			if set[0] == '!' || set[0] == '^' {
				re.WriteByte('^')
				set = set[1:]
			}
			re.WriteString(strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`).Replace(set))
			re.WriteByte(']')
		case '\\':
			if i+1 < len(glob) {
				i++
			}
			re.WriteString(regexp.QuoteMeta(string(glob[i])))
		default:
			end := i + 1
			for end < len(glob) && !strings.ContainsRune(`*?[\`, rune(glob[end])) {
				end++
			}
			re.WriteString(regexp.QuoteMeta(glob[i:end]))
			i = end - 1
		}
	}
	re.WriteString(`$`)
	compiled, err := regexp.Compile(re.String())
	if err != nil {
		return nil, fmt.Errorf("pattern %q can't be understood", glob)
	}
	return compiled, nil
}

// matchPaths returns the paths that a glob, a path or a folder names, in their order.
func matchPaths(paths []string, pattern string) ([]string, error) {
	pattern = strings.TrimPrefix(pattern, "./")
	var out []string
	if !hasGlob(pattern) {
		folder := strings.TrimSuffix(pattern, "/") + "/"
		for _, p := range paths {
			if p == pattern || strings.HasPrefix(p, folder) {
				out = append(out, p)
			}
		}
		return out, nil
	}
	re, err := globPattern(pattern)
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		if re.MatchString(p) {
			out = append(out, p)
		}
	}
	return out, nil
}

package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

const (
	defaultSearchLimit = 50
	maxSearchLimit     = 1000
	maxSearchOffset    = 100_000
	maxSearchContext   = 20
	maxMatchChars      = 500
	fewMatches         = 5 // from this many on, matches are shown as text grouped by file
)

// SearchFiles returns the search_files tool: a regular expression in file contents,
// or a glob over file names. It needs no more in the sandbox than find and grep,
// so the same search gives the same answer in every image.
func SearchFiles() Tool {
	return Tool{
		Name:    "search_files",
		Toolset: "file",
		Description: "Search file contents or find files by name in the sandbox. Use this instead of grep, rg, find or ls. " +
			"target=content: search the lines of text files for a regular expression; output_mode content shows matches with line numbers, " +
			"files_only the paths, count the matches per file. target=files: find files by a glob such as *.py. " +
			"Hidden directories, node_modules and __pycache__ are left out unless the search starts inside one.",
		Parameters: []byte(`{"type":"object","properties":{` +
			`"pattern":{"type":"string","description":"Regular expression for content, glob (for example *.py) for files"},` +
			`"target":{"type":"string","enum":["content","files"],"default":"content","description":"content: search inside files; files: search file names"},` +
			`"path":{"type":"string","default":".","description":"Directory or file to search in (default: the working directory)"},` +
			`"file_glob":{"type":"string","description":"Search only files whose name matches this glob (target=content)"},` +
			`"limit":{"type":"integer","default":50,"description":"Most results to return (default 50)"},` +
			`"offset":{"type":"integer","default":0,"description":"Results to skip, for paging (default 0)"},` +
			`"output_mode":{"type":"string","enum":["content","files_only","count"],"default":"content","description":"What to show of content matches"},` +
			`"context":{"type":"integer","default":0,"description":"Lines to show before and after each match (output_mode content)"}` +
			`},"required":["pattern"]}`),
		Handler: runSearchFiles,
	}
}

// SearchQuery is what to search for. The zero value of every field but Pattern is
// the tool's default.
type SearchQuery struct {
	Pattern string // regular expression, or a glob when Files is set
	Files   bool   // search names instead of contents
	Path    string // directory or file; "" means the working directory
	Glob    string // names of files to look into
	Mode    string // content, files_only or count
	Limit   int
	Offset  int
	Context int // lines around a match
}

// SearchMatch is one line that matched, or a line of the context of one.
type SearchMatch struct {
	Path    string `json:"path"`
	Line    int    `json:"line"`
	Content string `json:"content"`
	Around  bool   `json:"-"` // context only
}

// SearchResult is what a search found. Which of the lists is filled depends on the query.
type SearchResult struct {
	TotalCount int // results found; a lower bound when Truncated
	Matches    []SearchMatch
	Files      []string
	Counts     []FileCount
	Truncated  bool
	TimedOut   bool
	Warning    string // files that could not be read
	Error      string // why there is no answer: no such path, a bad pattern
}

// FileCount is the number of matching lines of a file.
type FileCount struct {
	Path  string
	Count int
}

const matchesFormat = "each path on a line of its own, its matches below as '  LINE: text' (context as '  LINE- text')"

func runSearchFiles(ctx context.Context, call *Call) (string, error) {
	query, err := searchArguments(call.Args)
	if err != nil {
		return ErrorResult("search_files: " + err.Error()), nil
	}
	warning, refusal := call.State.searchGuard(query)
	if refusal != "" {
		return refusal, nil
	}
	result, err := call.State.Search(ctx, query)
	if err != nil {
		return fileResult(err)
	}
	return result.render(query, warning), nil
}

func searchArguments(args Arguments) (SearchQuery, error) {
	var q SearchQuery
	var err error
	if q.Pattern, err = args.Required("pattern"); err != nil {
		return q, err
	}
	if q.Pattern == "" {
		return q, errors.New("pattern is empty; give a regular expression or a glob")
	}
	var target string
	for _, a := range []struct {
		name string
		to   *string
	}{{"target", &target}, {"path", &q.Path}, {"file_glob", &q.Glob}, {"output_mode", &q.Mode}} {
		if *a.to, _, err = args.String(a.name); err != nil {
			return q, err
		}
	}
	switch target {
	case "", "content", "grep":
	case "files", "find":
		q.Files = true
	default:
		return q, fmt.Errorf("invalid target %q; use content or files", target)
	}
	switch q.Mode {
	case "":
		q.Mode = "content"
	case "content", "files_only", "count":
	default:
		return q, fmt.Errorf("invalid output_mode %q; use content, files_only or count", q.Mode)
	}
	q.Limit = clampArgument(args, "limit", defaultSearchLimit, 1, maxSearchLimit)
	q.Offset = clampArgument(args, "offset", 0, 0, maxSearchOffset)
	q.Context = clampArgument(args, "context", 0, 0, maxSearchContext)
	return q, nil
}

// searchGuard applies the rule against repeating a call.
func (s *State) searchGuard(q SearchQuery) (warning, refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.AllowRepeatedReads || s.detached {
		return "", ""
	}
	switch n := s.reads.repeated(fmt.Sprintf("search_files %q", fmt.Sprint(q))); {
	case n >= blockAfter:
		return "", encode(struct {
			Error           string `json:"error"`
			Pattern         string `json:"pattern"`
			AlreadySearched int    `json:"already_searched"`
		}{fmt.Sprintf("BLOCKED: you have made this search %d times in a row. Its result has not changed; go on with what you have.", n), q.Pattern, n})
	case n >= warnAfter:
		return fmt.Sprintf("You have made this search %d times in a row. Use what you already know.", n), ""
	}
	return "", ""
}

type renderedSearch struct {
	TotalCount    int            `json:"total_count"`
	Matches       []SearchMatch  `json:"matches,omitempty"`
	MatchesFormat string         `json:"matches_format,omitempty"`
	MatchesText   string         `json:"matches_text,omitempty"`
	Files         []string       `json:"files,omitempty"`
	Counts        *orderedCounts `json:"counts,omitempty"`
	Truncated     bool           `json:"truncated,omitempty"`
	LowerBound    bool           `json:"total_count_is_lower_bound,omitempty"`
	LimitReason   string         `json:"limit_reason,omitempty"`
	Warning       string         `json:"warning,omitempty"`
	Error         string         `json:"error,omitempty"`
	RepeatWarning string         `json:"_warning,omitempty"`
}

// render writes a result for the model. After a truncated one a hint follows the
// JSON, as hermes-agent has it: the text as a whole is then not JSON.
func (r SearchResult) render(q SearchQuery, warning string) string {
	out := renderedSearch{
		TotalCount: r.TotalCount, Files: r.Files, Truncated: r.Truncated || r.TimedOut,
		LowerBound: r.Truncated && !q.Files || r.TimedOut, Warning: r.Warning, Error: r.Error, RepeatWarning: warning,
	}
	if r.TimedOut {
		out.LimitReason = "search_timeout"
	}
	if len(r.Counts) > 0 {
		counts := orderedCounts(r.Counts)
		out.Counts = &counts
	}
	if len(r.Matches) < fewMatches && q.Context == 0 {
		out.Matches = r.Matches
	} else {
		out.MatchesFormat, out.MatchesText = matchesFormat, matchText(r.Matches)
	}
	text := encode(out)
	switch {
	case r.TimedOut:
		text += "\n\n[Hint: The search timed out and may have missed results. Search a smaller directory, or narrow it with file_glob.]"
	case r.Truncated:
		text += fmt.Sprintf("\n\n[Hint: Results truncated. Use offset=%d to see more, or narrow with a more specific pattern or file_glob.]", q.Offset+q.Limit)
	}
	return text
}

func matchText(matches []SearchMatch) string {
	var b strings.Builder
	last := ""
	for i, m := range matches {
		if i == 0 || m.Path != last {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(m.Path)
			last = m.Path
		}
		sign := ':'
		if m.Around {
			sign = '-'
		}
		fmt.Fprintf(&b, "\n  %d%c %s", m.Line, sign, m.Content)
	}
	return b.String()
}

// orderedCounts is a JSON object of counts in the order of the list.
type orderedCounts []FileCount

// MarshalJSON writes {"path": count, …}.
func (c orderedCounts) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, f := range c {
		if i > 0 {
			out = append(out, ',')
		}
		out = chat.AppendString(out, f.Path)
		out = fmt.Appendf(out, ":%d", f.Count)
	}
	return append(out, '}'), nil
}

package tools

import (
	"context"
	"path"
	"sort"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/tools/difflib"
	"github.com/hermes-env/hermes-env/toolcontext/tools/fuzzymatch"
)

// listScript prints the names in directory $1, at most 2,000.
const listScript = `[ -d "$1" ] && ls -A "$1" | head -n 2000
`

const maxSimilar = 5

// missing answers a read of a file that does not exist: with the one file whose
// name differs only in typographic quotes, dashes or spaces when there is exactly
// one, else with names that look alike.
func (s *State) missing(ctx context.Context, name string, start, limit int) (string, error) {
	dir, base := path.Split(name)
	out, err := s.shell(ctx, "", listScript, nil, s.options.FileTimeout, 1<<20, dir)
	if err != nil {
		return fileResult(err)
	}
	var names []string
	for _, candidate := range strings.Split(string(out.stdout), "\n") {
		if candidate != "" {
			names = append(names, candidate)
		}
	}
	if twin := sameButTypography(base, names); twin != "" {
		info, sample, page, err := s.readPage(ctx, dir+twin, start, limit)
		if err != nil {
			return fileResult(err)
		}
		if info.kind == RegularFile {
			return s.showPage(ctx, dir+twin, info, sample, page, start, limit)
		}
	}
	result := readResult{Error: MissingFile.describe(name)}
	for _, n := range similarNames(base, names) {
		result.SimilarFiles = append(result.SimilarFiles, dir+n)
	}
	return encode(result), nil
}

func sameButTypography(base string, names []string) string {
	twin, plain := "", fuzzymatch.Plain(base)
	for _, n := range names {
		if fuzzymatch.Plain(n) != plain {
			continue
		}
		if twin != "" {
			return ""
		}
		twin = n
	}
	return twin
}

// similarNames returns up to five names that look like base, the closest first.
func similarNames(base string, names []string) []string {
	type scored struct {
		name  string
		score float64
	}
	wanted := strings.ToLower(base)
	stem := strings.TrimSuffix(wanted, path.Ext(wanted))
	var found []scored
	for _, n := range names {
		lower := strings.ToLower(n)
		score := 0.0
		switch {
		case len(base) > 255 || len(n) > 255:
			continue
		case lower == wanted:
			score = 1
		case stem != "" && strings.TrimSuffix(lower, path.Ext(lower)) == stem:
			score = 0.95
		case len(stem) >= 3 && strings.Contains(lower, stem):
			score = 0.9
		default:
			score = difflib.RatioText(lower, wanted)
		}
		if score >= 0.6 {
			found = append(found, scored{n, score})
		}
	}
	sort.SliceStable(found, func(i, j int) bool {
		if found[i].score != found[j].score {
			return found[i].score > found[j].score
		}
		return found[i].name < found[j].name
	})
	var similar []string
	for _, f := range found[:min(maxSimilar, len(found))] {
		similar = append(similar, f.name)
	}
	return similar
}

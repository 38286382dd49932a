package docker

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// recipe is what has to be known of a Dockerfile before it is built. It is read
// roughly: what looks like nothing known is left to the builder, which complains better.
type recipe struct {
	bases   []string // images it takes files from, each once
	syntax  string   // image of the parser that its first lines ask for; "" for the builder's own
	needs   string   // the first thing in it that only BuildKit can do, with its line
	heredoc int      // line of its first here-document; 0 where it has none
}

// maxDockerfile bounds a Dockerfile.
const maxDockerfile = 4 << 20

// recipe reads the folder's Dockerfile.
func (f *buildFolder) recipe(o sandbox.BuildOptions) (recipe, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return recipe{}, err
	}
	defer root.Close()
	file, err := root.Open(f.dockerfile)
	if err != nil {
		return recipe{}, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxDockerfile+1))
	if err != nil {
		return recipe{}, err
	}
	if len(text) > maxDockerfile {
		return recipe{}, fmt.Errorf("%s is longer than %d bytes", f.dockerfile, maxDockerfile)
	}
	return readRecipe(text, o), nil
}

var (
	directive   = regexp.MustCompile(`^#\s*([A-Za-z]+)\s*=\s*(.*?)\s*$`)
	heredocWord = regexp.MustCompile(`(?:^|\s)\d*<<-?(["']?)([A-Za-z_][A-Za-z0-9_.]*)(["']?)`)
	kitFlag     = regexp.MustCompile(`^--(mount|network|security|chmod|link|exclude|parents|checksum|keep-git-dir)\b`)
	argument    = regexp.MustCompile(`\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+])([^}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))`)
	mountFrom   = regexp.MustCompile(`(?:^|,)from=([^,]+)`)
)

// recipeReader reads a Dockerfile instruction by instruction.
type recipeReader struct {
	recipe
	options sandbox.BuildOptions
	args    map[string]string // ARG lines before the first FROM
	stages  map[string]bool
	seen    map[string]bool
	from    int
}

func readRecipe(text []byte, o sandbox.BuildOptions) recipe {
	r := &recipeReader{options: o, args: map[string]string{}, stages: map[string]bool{"scratch": true}, seen: map[string]bool{}}
	escape := `\`
	number, heads := 0, true
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	lines.Buffer(nil, maxDockerfile+1)
	next := func() (string, bool) {
		number++
		ok := lines.Scan()
		return strings.TrimSpace(lines.Text()), ok
	}
	for line, ok := next(); ok; line, ok = next() {
		if m := directive.FindStringSubmatch(line); heads && m != nil {
			switch strings.ToLower(m[1]) {
			case "syntax":
				r.syntax = m[2]
			case "escape":
				escape = m[2]
			}
			continue
		}
		heads = false
		if line == "" || line[0] == '#' {
			continue
		}
		first := number
		for strings.HasSuffix(line, escape) && escape != "" {
			more, ok := next()
			line = strings.TrimSuffix(line, escape)
			if !ok {
				break
			}
			if strings.HasPrefix(more, "#") || more == "" {
				line += escape // a comment or an empty line goes on with the instruction
				continue
			}
			line += " " + more
		}
		r.instruction(line, first)
		for _, end := range heredocEnds(line) {
			for text, ok := next(); ok && text != end; text, ok = next() {
			}
		}
	}
	return r.recipe
}

// heredocEnds returns the words that end the here-documents an instruction begins.
func heredocEnds(line string) (ends []string) {
	word, _, _ := strings.Cut(line, " ")
	switch strings.ToUpper(word) {
	case "RUN", "COPY", "ADD":
	default:
		return nil
	}
	for _, m := range heredocWord.FindAllStringSubmatch(line, -1) {
		if m[1] == m[3] {
			ends = append(ends, m[2])
		}
	}
	return ends
}

func (r *recipeReader) instruction(line string, number int) {
	words := strings.Fields(line)
	rest := words[1:]
	word := strings.ToUpper(words[0])
	switch word {
	case "ARG":
		for _, w := range rest {
			if name, value, ok := strings.Cut(w, "="); ok && r.from == 0 {
				r.args[name] = strings.Trim(r.expand(value), `"'`)
			}
		}
	case "FROM":
		r.fromLine(rest)
	case "RUN", "COPY", "ADD":
		for _, w := range rest {
			if !strings.HasPrefix(w, "--") {
				break
			}
			if kitFlag.MatchString(w) {
				name, _, _ := strings.Cut(w, "=")
				r.need(fmt.Sprintf("%s %s in line %d", word, name, number))
			}
			if from, ok := strings.CutPrefix(w, "--from="); ok {
				r.base(from)
			} else if m := mountFrom.FindStringSubmatch(strings.TrimPrefix(w, "--mount=")); m != nil && strings.HasPrefix(w, "--mount=") {
				r.base(m[1])
			}
		}
		if len(heredocEnds(line)) > 0 {
			if r.heredoc == 0 {
				r.heredoc = number
			}
			r.need(fmt.Sprintf("the here-document of line %d", number))
		}
	}
}

func (r *recipeReader) need(what string) {
	if r.needs == "" {
		r.needs = what
	}
}

func (r *recipeReader) fromLine(words []string) {
	r.from++
	foreign := false // for another platform: the builder knows which one
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		foreign = foreign || strings.HasPrefix(words[0], "--platform")
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	if !foreign {
		r.base(words[0])
	}
	if len(words) == 3 && strings.EqualFold(words[1], "as") {
		r.stages[strings.ToLower(words[2])] = true
	}
}

// base notes an image, unless the name is that of an earlier stage, a stage's number
// or nothing that can be told from here.
func (r *recipeReader) base(name string) {
	ref := r.expand(name)
	if ref == "" || strings.ContainsAny(ref, "$ \"'") || r.stages[strings.ToLower(ref)] || strings.Trim(ref, "0123456789") == "" || r.seen[ref] {
		return
	}
	r.seen[ref] = true
	r.bases = append(r.bases, ref)
}

// expand puts in the values of build arguments.
func (r *recipeReader) expand(text string) string {
	return argument.ReplaceAllStringFunc(text, func(found string) string {
		m := argument.FindStringSubmatch(found)
		name := m[1] + m[4]
		value, ok := r.options.Args[name]
		if !ok {
			value, ok = r.args[name]
		}
		has := ok && (value != "" || !strings.HasPrefix(m[2], ":"))
		switch {
		case strings.HasSuffix(m[2], "-") && !has:
			return m[3]
		case strings.HasSuffix(m[2], "+"):
			if has {
				return m[3]
			}
			return ""
		case !ok:
			return found // a predefined one, or a mistake: the builder's to see
		}
		return value
	})
}

// withoutSyntax makes a comment of the line that names another parser, and keeps the
// length.
func withoutSyntax(r io.Reader) io.Reader {
	head := bufio.NewReaderSize(r, 4096)
	first, err := head.Peek(4096)
	if err != nil && len(first) == 0 {
		return head
	}
	changed := append([]byte(nil), first...)
	for i := 0; i < len(changed); {
		end := bytes.IndexByte(changed[i:], '\n')
		if end < 0 {
			end = len(changed) - i
		}
		m := directive.FindSubmatch(bytes.TrimSpace(changed[i : i+end]))
		if m == nil {
			break
		}
		if strings.EqualFold(string(m[1]), "syntax") {
			changed[i+bytes.IndexByte(changed[i:], '=')] = ' '
		}
		i += end + 1
	}
	_, _ = head.Discard(len(first)) // it is buffered
	return io.MultiReader(bytes.NewReader(changed), head)
}

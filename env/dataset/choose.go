package dataset

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// choose picks the files of the wanted subset and split: those named in the options, else those of the dataset card, else
// by file and folder names.
func (d *Dataset) choose(ctx context.Context, l *listing) error {
	if len(d.options.Files) > 0 {
		return d.chooseNamed(l)
	}
	var cards card
	if slices.ContainsFunc(l.files, func(f listed) bool { return f.path == "README.md" }) {
		readme, err := l.read(ctx, "README.md")
		if err != nil {
			return fmt.Errorf("read the dataset card: %w", err)
		}
		if cards, err = readCard(readme); err != nil {
			return err
		}
	}
	config, err := cards.pick(d.options.Subset)
	if err != nil {
		return err
	}
	files := l.files
	if config != nil {
		d.subset = config.Name
		if err := d.takeDelimiter(config); err != nil {
			return err
		}
		named, err := config.splits()
		if err != nil {
			return err
		}
		if len(named) > 0 {
			return d.chooseCard(l, config, named)
		}
		files = below(l.files, config.DataDir)
	} else if d.options.Subset != "" {
		if files = below(l.files, d.options.Subset); len(files) == 0 {
			return fmt.Errorf("%w: there is no subset %q: the dataset card names none, and there is no folder of that name%s", ErrSplit, d.options.Subset, folders(l.files))
		}
	}
	files = slices.DeleteFunc(slices.Clone(files), func(f listed) bool { return !isData(f.path) || !d.ofFormat(f) })
	if len(files) == 0 {
		return d.noData(l)
	}
	chosen, err := pickSplit(detectSplits(files), d.options.Split)
	if err != nil {
		return err
	}
	return d.use(l, chosen)
}

// takeDelimiter takes the field separator of CSV files from the card when the options name none.
func (d *Dataset) takeDelimiter(config *cardConfig) error {
	sep := config.Sep + config.Delimiter
	if sep == "" || d.options.Delimiter != 0 {
		return nil
	}
	r, n := utf8.DecodeRuneInString(sep)
	if n != len(sep) {
		return fmt.Errorf("%w: README.md separates CSV fields by %q, which is more than one character", ErrFormat, sep)
	}
	d.options.Delimiter = r
	return d.options.check()
}

// ofFormat reports whether a file may be one of the format that the options ask for.
func (d *Dataset) ofFormat(f listed) bool {
	return d.options.Format == FormatAuto || family(formatOf(f.path)) == family(d.options.Format)
}

func below(files []listed, folder string) []listed {
	folder = strings.Trim(path.Clean("/"+folder), "/")
	if folder == "" {
		return files
	}
	var out []listed
	for _, f := range files {
		if strings.HasPrefix(f.path, folder+"/") {
			out = append(out, f)
		}
	}
	return out
}

// folders names the top-level folders for a message.
func folders(files []listed) string {
	var names []string
	for _, f := range files {
		if top, _, ok := strings.Cut(f.path, "/"); ok && !slices.Contains(names, top) {
			names = append(names, top)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; there are " + strings.Join(names, ", ")
}

// noData explains why a folder has nothing to read.
func (d *Dataset) noData(l *listing) error {
	if d.options.Format != FormatAuto {
		return fmt.Errorf("%w: it has no %s files", ErrFormat, d.options.Format)
	}
	if len(l.files) == 0 {
		return errors.New("the folder is empty")
	}
	var names []string
	for _, f := range l.files[:min(5, len(l.files))] {
		names = append(names, f.path)
	}
	return fmt.Errorf("%w: it has no data files (.jsonl, .json, .csv, .tsv, .parquet) and no tasks (task.toml); it has %s", ErrFormat, strings.Join(names, ", "))
}

// chooseNamed takes the files that the options name.
func (d *Dataset) chooseNamed(l *listing) error {
	if d.options.Subset != "" {
		return errors.New("give either files or a subset")
	}
	name := d.options.Split
	if name == "" {
		name = "train"
	}
	files, err := matchAll(l.files, d.options.Files)
	if err != nil {
		return err
	}
	return d.use(l, split{name, files})
}

// matchAll returns the files that patterns name, each once, in the order of the patterns.
func matchAll(files []listed, patterns []string) ([]listed, error) {
	names := make([]string, len(files))
	byName := map[string]listed{}
	for i, f := range files {
		names[i], byName[f.path] = f.path, f
	}
	var out []listed
	taken := map[string]bool{}
	for _, pattern := range patterns {
		matches, err := matchPaths(names, pattern)
		if err != nil {
			return nil, err
		}
		if len(matches) == 0 {
			return nil, fmt.Errorf("no file matches %q", pattern)
		}
		exact := len(matches) == 1
		for _, m := range matches {
			if !taken[m] && (exact || isData(m)) {
				taken[m] = true
				out = append(out, byName[m])
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s names no data file", ErrFormat, strings.Join(patterns, ", "))
	}
	return out, nil
}

// chooseCard takes the split that the dataset card defines.
func (d *Dataset) chooseCard(l *listing, config *cardConfig, named []cardSplit) error {
	all := make([]split, len(named))
	for i, s := range named {
		all[i] = split{name: s.name}
	}
	chosen, err := pickSplit(all, d.options.Split)
	if err != nil {
		return err
	}
	for _, s := range named {
		if s.name != chosen.name {
			continue
		}
		globs := slices.Clone(s.globs)
		for i, g := range globs {
			if dir := strings.Trim(config.DataDir, "/"); dir != "" {
				globs[i] = path.Join(dir, g)
			}
		}
		if chosen.files, err = matchAll(l.files, globs); err != nil {
			return fmt.Errorf("the dataset card's split %q: %w", s.name, err)
		}
	}
	return d.use(l, chosen)
}

// partialSplit begins the folder of a split that was not converted to its end.
const partialSplit = "partial-"

// chooseConverted picks from the hub's conversion, whose files are SUBSET/SPLIT/0000.parquet.
func (d *Dataset) chooseConverted(l *listing) error {
	var subsets []string
	for _, f := range l.files {
		if formatOf(f.path) != FormatParquet {
			continue
		}
		top, _, _ := strings.Cut(f.path, "/")
		if !slices.Contains(subsets, top) {
			subsets = append(subsets, top)
		}
	}
	subset := d.options.Subset
	switch {
	case len(subsets) == 0:
		return fmt.Errorf("%w: neither the dataset nor its conversion has files that can be read", ErrFormat)
	case subset == "" && len(subsets) == 1:
		subset = subsets[0]
	case subset == "" && slices.Contains(subsets, "default"):
		subset = "default"
	case !slices.Contains(subsets, subset):
		return fmt.Errorf("%w: there is no subset %q; the subsets are %s", ErrSplit, subset, strings.Join(subsets, ", "))
	}
	d.subset = subset
	var splits []split
	for _, f := range below(l.files, subset) {
		parts := strings.Split(f.path, "/")
		if len(parts) != 3 || formatOf(f.path) != FormatParquet {
			continue
		}
		splits = addToSplit(splits, strings.TrimPrefix(parts[1], partialSplit), f)
	}
	for i := range splits { // whose beginning alone was converted has to be asked for by that name
		if parts := strings.Split(splits[i].files[0].path, "/"); d.options.Split == parts[1] {
			splits[i].name = parts[1]
		}
	}
	chosen, err := pickSplit(sortSplits(splits), d.options.Split)
	if err != nil {
		return err
	}
	if part := strings.Split(chosen.files[0].path, "/")[1]; part != chosen.name {
		return fmt.Errorf("the hub has converted only the beginning of split %q; ask for split %q to work with that", chosen.name, part)
	}
	return d.use(l, chosen)
}

// use makes a split the dataset's.
func (d *Dataset) use(l *listing, chosen split) error {
	if err := missingShards(chosen.files); err != nil {
		return err
	}
	d.split = chosen.name
	d.format = d.options.Format
	if d.format == FormatAuto {
		format, err := oneFormat(chosen.files)
		if err != nil {
			return err
		}
		d.format = format
	}
	for _, f := range chosen.files {
		d.files = append(d.files, l.file(f))
	}
	return nil
}

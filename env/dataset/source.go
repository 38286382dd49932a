package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/env/dataset/hub"
)

// listed is a file that a folder or repository has.
type listed struct {
	path   string // relative, with slashes
	size   int64
	sha256 string // hex; "" when unknown
}

// listing is what a folder or repository has, whether it is here or on the hub.
type listing struct {
	files []listed
	// read returns a small file.
	read func(ctx context.Context, path string) ([]byte, error)
	// file makes the dataFile for one of files.
	file func(l listed) *dataFile
}

// maxCard bounds the README.md that is looked into.
const maxCard = 4 << 20

// locate finds what options.Name means.
func (d *Dataset) locate(ctx context.Context) error {
	name := expandHome(d.options.Name)
	if id, ok := strings.CutPrefix(name, "hf://datasets/"); ok {
		return d.locateHub(ctx, strings.TrimSuffix(id, "/"))
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return d.locateFolder(ctx, name)
	case err == nil:
		return d.locateFiles(filepath.Dir(name), []listed{{path: filepath.Base(name), size: info.Size()}})
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid):
		if !looksLikeID(d.options.Name) {
			return err
		}
	}
	if hasGlob(name) {
		return d.locateGlob(name)
	}
	if looksLikeID(d.options.Name) {
		return d.locateHub(ctx, d.options.Name)
	}
	return fmt.Errorf("there is no such file or folder%s", nearby(name))
}

func expandHome(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return name
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+$`)

// looksLikeID tells org/name from a path: an id has exactly one slash and doesn't end like a data file.
func looksLikeID(name string) bool { return idPattern.MatchString(name) && formatOf(name) == "" }

// nearby names what lies where a missing file was expected.
func nearby(name string) string {
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil {
		return "; a dataset on the hub is named org/name"
	}
	var found []string
	for _, e := range entries {
		if (e.IsDir() || isData(e.Name())) && !strings.HasPrefix(e.Name(), ".") {
			found = append(found, e.Name())
		}
	}
	const show = 8
	if len(found) > show {
		found = append(found[:show], "…")
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s has %s", filepath.Dir(name), strings.Join(found, ", "))
}

// localFile makes the dataFile of a file on this machine.
func localFile(root string) func(listed) *dataFile {
	return func(l listed) *dataFile {
		full := filepath.Join(root, filepath.FromSlash(l.path))
		return &dataFile{
			path: full, name: l.path, size: l.size, rows: -1,
			fetch: func(ctx context.Context) (string, error) { return full, ctx.Err() },
		}
	}
}

// locateFiles takes files that the user named: they are one split, unless their names tell several and one of them is wanted.
func (d *Dataset) locateFiles(root string, files []listed) error {
	if d.options.Format == FormatHarbor {
		return fmt.Errorf("%w: harbor tasks are folders; name the folder that holds them", ErrFormat)
	}
	if d.options.Subset != "" {
		return fmt.Errorf("%w: files have no subset %q", ErrSplit, d.options.Subset)
	}
	if len(d.options.Files) > 0 {
		return errors.New("files can be named only within a folder or a dataset of the hub")
	}
	chosen := split{"train", files}
	if want := d.options.Split; want != "" && want != "train" || len(files) > 1 && want == "train" {
		var err error
		if chosen, err = pickSplit(detectSplits(files), want); err != nil {
			return err
		}
	}
	return d.use(&listing{file: localFile(root)}, chosen)
}

// locateGlob takes the files that match a pattern.
func (d *Dataset) locateGlob(pattern string) error {
	slashed := filepath.ToSlash(pattern)
	root := "."
	if strings.HasPrefix(slashed, "/") {
		root = "/"
	}
	rest := strings.TrimPrefix(slashed, "/")
	for {
		first, after, ok := strings.Cut(rest, "/")
		if !ok || hasGlob(first) {
			break
		}
		root, rest = path.Join(root, first), after
	}
	all, err := walkFolder(filepath.FromSlash(root))
	if err != nil {
		return err
	}
	names := make([]string, len(all))
	byName := map[string]listed{}
	for i, f := range all {
		names[i], byName[f.path] = f.path, f
	}
	matches, err := matchPaths(names, rest)
	if err != nil {
		return err
	}
	if len(matches) == 0 {
		return errors.New("no file matches the pattern")
	}
	var files []listed
	for _, m := range matches {
		files = append(files, byName[m])
	}
	return d.locateFiles(filepath.FromSlash(root), files)
}

// walkFolder lists the regular files below a folder, sorted. Hidden ones, and those whose name begins with two underscores,
// are left out, as the hub's loader does; links to files are followed, links to folders are not.
func walkFolder(root string) ([]listed, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	var files []listed
	err = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := e.Name(); name != root && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "__")) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if e.IsDir() {
			return nil
		}
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			return nil // a dangling link, a socket: no data
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		files = append(files, listed{path: filepath.ToSlash(rel), size: info.Size()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b listed) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

// locateFolder takes a folder on this machine.
func (d *Dataset) locateFolder(ctx context.Context, root string) error {
	if d.options.Format == FormatHarbor {
		return d.openTasks(ctx, root)
	}
	files, err := walkFolder(root)
	if err != nil {
		return err
	}
	if d.options.Format == FormatAuto && len(d.options.Files) == 0 && hasTasks(files) {
		return d.openTasks(ctx, root)
	}
	return d.choose(ctx, &listing{
		files: files,
		file:  localFile(root),
		read: func(_ context.Context, name string) ([]byte, error) {
			return readSmall(filepath.Join(root, filepath.FromSlash(name)))
		},
	})
}

func readSmall(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxCard {
		return nil, fmt.Errorf("%s has %d bytes, more than a dataset card may have (%d)", name, info.Size(), maxCard)
	}
	return os.ReadFile(name)
}

// hasTasks reports whether files are those of Harbor tasks.
func hasTasks(files []listed) bool {
	return slices.ContainsFunc(files, func(f listed) bool { return path.Base(f.path) == "task.toml" })
}

// locateHub takes a dataset of the hub. One whose own files can't be read as rows is read as the hub's conversion to Parquet.
func (d *Dataset) locateHub(ctx context.Context, id string) error {
	client, err := hub.New(d.options.Hub)
	if err != nil {
		return err
	}
	repo := hub.Repo{Type: hub.Dataset, ID: id}
	l, err := d.hubListing(ctx, client, repo, d.options.Revision)
	if err != nil {
		return err
	}
	if d.options.Format == FormatHarbor || d.options.Format == FormatAuto && len(d.options.Files) == 0 && hasTasks(l.files) {
		// The cache holds files behind links, and links out of a task folder are not followed.
		endpoint := cmp.Or(d.options.Hub.Endpoint, hub.DefaultEndpoint)
		return fmt.Errorf("%w: it holds task folders, which are read from a folder of their own: git clone %s/datasets/%s and name the clone", ErrFormat, strings.TrimRight(endpoint, "/"), id)
	}
	if !slices.ContainsFunc(l.files, func(f listed) bool { return isData(f.path) && formatOf(f.path) != formatArrow }) &&
		d.options.Revision == "" && len(d.options.Files) == 0 {
		converted, convertErr := d.hubListing(ctx, client, repo, hub.ParquetRevision)
		if convertErr != nil {
			return fmt.Errorf("none of its files can be read as rows, and there is no conversion to Parquet: %w", convertErr)
		}
		return d.chooseConverted(converted)
	}
	return d.choose(ctx, l)
}

// hubListing lists a revision and remembers its commit.
func (d *Dataset) hubListing(ctx context.Context, client *hub.Client, repo hub.Repo, revision string) (*listing, error) {
	found, err := client.List(ctx, repo, revision)
	if err != nil {
		return nil, err
	}
	d.revision = found.Commit
	if found.Partial && d.options.Warn != nil {
		d.options.Warn(Problem{File: repo.String(), Offset: -1, Kept: true,
			Err: errors.New("offline: the cache doesn't know all files of this dataset, only those fetched before are used")})
	}
	byPath := map[string]hub.File{}
	l := &listing{}
	for _, f := range found.Files {
		byPath[f.Path] = f
		l.files = append(l.files, listed{f.Path, f.Size, f.SHA256})
	}
	fetch := func(ctx context.Context, name string) (string, error) {
		paths, err := client.Fetch(ctx, repo, found.Commit, []hub.File{byPath[name]})
		if err != nil {
			return "", err
		}
		return paths[0], nil
	}
	l.read = func(ctx context.Context, name string) ([]byte, error) {
		local, err := fetch(ctx, name)
		if err != nil {
			return nil, err
		}
		return readSmall(local)
	}
	l.file = func(f listed) *dataFile {
		return &dataFile{
			path: f.path, name: f.path, size: f.size, sha256: f.sha256, trusted: true, rows: -1,
			fetch: func(ctx context.Context) (string, error) { return fetch(ctx, f.path) },
		}
	}
	return l, nil
}

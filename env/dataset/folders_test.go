package dataset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/dataset/hub"
	"github.com/hermes-env/hermes-env/env/dataset/hub/hubtest"
)

// folder writes files whose only row names them, and returns the folder.
func folder(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		name, content, given := strings.Cut(name, "=")
		if !given {
			switch formatOf(name) {
			case FormatCSV:
				content = "file\n" + name + "\n"
			default:
				content = `{"file":"` + name + `"}` + "\n"
			}
		}
		writeFile(t, filepath.Join(dir, filepath.FromSlash(name)), []byte(content))
	}
	return dir
}

// filesOf reads which files a dataset's rows came from.
func filesOf(t testing.TB, o Options) (files []string, info Info, err error) {
	t.Helper()
	d, err := Open(t.Context(), o)
	if err != nil {
		return nil, Info{}, err
	}
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			return files, d.Info(), err
		}
		files = append(files, row.Get("file").String())
	}
	return files, d.Info(), nil
}

const carded = "README.md=---\nlicense: mit\nconfigs:\n- config_name: small\n  data_files: s.jsonl\n- config_name: big\n  default: true\n  data_files:\n" +
	"  - split: train\n    path: [b/*.jsonl, extra.jsonl]\n  - split: test\n    path: held.jsonl\n- config_name: dir\n  data_dir: d\n- config_name: map\n  data_files:\n    one: \"d/*\"\n---\n# Rows\n"

func TestFoldersAreReadByTheHubsConventions(t *testing.T) {
	shards := []string{"data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl", "data/test-00000-of-00001.jsonl", "data/odd.jsonl"}
	words := []string{"my-train_file.jsonl", "validation.jsonl", "notes.txt", "pretraining.jsonl"}
	withCard := []string{carded, "s.jsonl", "b/2.jsonl", "b/1.jsonl", "extra.jsonl", "held.jsonl", "d/train.jsonl", "d/test.jsonl", "other.jsonl"}
	for name, c := range map[string]struct {
		files   []string
		options Options
		want    []string
		split   string
		err     string
	}{
		"shards":                              {shards, Options{}, shards[:2], "train", ""},
		"shards of another split":             {shards, Options{Split: "test"}, shards[2:3], "test", ""},
		"a split that isn't there":            {shards, Options{Split: "dev"}, nil, "", `there is no split "dev"; the splits are train, test`},
		"a shard is missing":                  {shards[1:], Options{}, nil, "", "data/train-00000-of-00002.jsonl is missing (1 of 2 files are there)"},
		"folders named after splits":          {[]string{"train/a.jsonl", "train/deep/b.jsonl", "dev/c.jsonl"}, Options{Split: "validation"}, []string{"dev/c.jsonl"}, "validation", ""},
		"files named after splits":            {words, Options{}, words[:1], "train", ""},
		"no split but one":                    {[]string{"test.jsonl"}, Options{}, []string{"test.jsonl"}, "test", ""},
		"no train and several":                {[]string{"test.jsonl", "dev.jsonl"}, Options{}, nil, "", `there is no split "train": name one of validation, test`},
		"no split anywhere":                   {[]string{"b.jsonl", "a/c.jsonl"}, Options{}, []string{"a/c.jsonl", "b.jsonl"}, "train", ""},
		"hidden files":                        {[]string{"a.jsonl", ".b.jsonl", "__c/d.jsonl", ".cache/e.jsonl"}, Options{}, []string{"a.jsonl"}, "train", ""},
		"several formats":                     {[]string{"a.jsonl", "b.csv"}, Options{}, nil, "", "files of several formats: csv (1), json (1); set the format, or name the files"},
		"several formats and one wanted":      {[]string{"a.jsonl", "b.csv"}, Options{Format: FormatCSV}, []string{"b.csv"}, "train", ""},
		"named files":                         {shards, Options{Files: []string{"data/odd.jsonl", "data/test*"}}, []string{"data/odd.jsonl", shards[2]}, "train", ""},
		"named files that aren't there":       {shards, Options{Files: []string{"data/x*"}}, nil, "", `no file matches "data/x*"`},
		"the card's default subset":           {withCard, Options{}, []string{"b/1.jsonl", "b/2.jsonl", "extra.jsonl"}, "train", ""},
		"a split of the card":                 {withCard, Options{Split: "test"}, []string{"held.jsonl"}, "test", ""},
		"another subset":                      {withCard, Options{Subset: "small"}, []string{"s.jsonl"}, "train", ""},
		"a subset that is a folder":           {withCard, Options{Subset: "dir", Split: "test"}, []string{"d/test.jsonl"}, "test", ""},
		"a subset whose splits are a map":     {withCard, Options{Subset: "map"}, []string{"d/test.jsonl", "d/train.jsonl"}, "one", ""},
		"a subset that isn't there":           {withCard, Options{Subset: "tiny"}, nil, "", `there is no subset "tiny"; the subsets are small, big, dir, map`},
		"a folder as subset without a card":   {[]string{"en/train.jsonl", "de/train.jsonl"}, Options{Subset: "de"}, []string{"de/train.jsonl"}, "train", ""},
		"a folder that isn't there as subset": {[]string{"en/train.jsonl"}, Options{Subset: "fr"}, nil, "", `there is no subset "fr"`},
		"a broken card":                       {[]string{"README.md=---\nconfigs: [\n---\n", "a.jsonl"}, Options{}, nil, "", "README.md: its front matter can't be read"},
		"a card about something else":         {[]string{"README.md=---\ntags: [x]\n---\n", "a.jsonl"}, Options{}, []string{"a.jsonl"}, "train", ""},
		"a dataset saved with Arrow":          {[]string{"data-00000-of-00001.arrow=ARROW1xx", "state.json={}"}, Options{}, nil, "", "it is a file of kind Arrow"},
		"nothing to read":                     {[]string{"notes.txt=x"}, Options{}, nil, "", "it has no data files"},
		"a slice of a split":                  {shards, Options{Split: "train[:10]"}, nil, "", "slices and sums of splits are not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Name = folder(t, c.files...)
			got, info, err := filesOf(t, c.options)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.Equal(t, c.split, info.Split)
		})
	}
}

func TestFilesAndGlobsAreNamedDirectly(t *testing.T) {
	dir := folder(t, "a1.jsonl", "a2.jsonl", "deep/er/a3.jsonl", "b.csv")
	for pattern, want := range map[string][]string{
		"a*.jsonl": {"a1.jsonl", "a2.jsonl"}, "**/*.jsonl": {"a1.jsonl", "a2.jsonl", "deep/er/a3.jsonl"}, "deep/*/a3.jsonl": {"deep/er/a3.jsonl"}, "a[!1].jsonl": {"a2.jsonl"}, "b.csv": {"b.csv"},
	} {
		got, _, err := filesOf(t, Options{Name: filepath.Join(dir, pattern)})
		require.NoError(t, err, pattern)
		require.Equal(t, want, got, pattern)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "x*.jsonl"): "no file matches the pattern", filepath.Join(dir, "c.jsonl"): "there is no such file or folder",
		filepath.Join(dir, "*"): "several formats", "": "no dataset named",
	} {
		_, _, err := filesOf(t, Options{Name: name})
		require.ErrorContains(t, err, want)
	}
}

const taskTOML = "[metadata]\ndifficulty = \"easy\"\ncategory = \"files\"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 30.0\n"

func taskFiles(name string) []string {
	return []string{name + "/task.toml=" + taskTOML, name + "/instruction.md=Do " + name + ".", name + "/environment/Dockerfile=FROM scratch\n", name + "/tests/test.sh=true\n"}
}

func TestFoldersOfTasksAreRows(t *testing.T) {
	dir := folder(t, append(append(taskFiles("b"), taskFiles("a")...), "broken/task.toml=[agent\n", "a/tests/data.csv=x\n1\n")...)
	rows, problems, err := readAll(t, Options{Name: dir, OnBadRow: BadRowSkips})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.True(t, strings.HasPrefix(rows[0], `{"task_name":"a","instruction":"Do a.","docker_image":`), rows[0])
	require.Contains(t, rows[0], `"task_dir":"`+filepath.Join(dir, "a")+`"`)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].Error(), "broken")

	d, err := Open(t.Context(), Options{Name: dir, OnBadRow: BadRowSkips, Columns: []string{"task_name"}})
	require.NoError(t, err)
	info := d.Info()
	require.Equal(t, FormatHarbor, info.Format)
	n, known := d.Len()
	require.True(t, known)
	require.EqualValues(t, 3, n)
	for row, err := range d.Rows(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, `{"task_name":"a"}`, string(row.Data))
		break
	}
	_, _, err = readAll(t, Options{Name: dir})
	require.ErrorContains(t, err, "broken")
}

func serve(t testing.TB, files map[string]string) (*hubtest.Server, hub.Options) {
	s := hubtest.Start(t)
	raw := map[string][]byte{}
	for name, content := range files {
		raw[name] = []byte(content)
	}
	s.Put("dataset", "org/name", "main", raw)
	return s, hub.Options{Endpoint: s.URL, CacheDir: t.TempDir(), Retries: -1}
}

func TestDatasetsOfTheHubAreFetchedFileByFile(t *testing.T) {
	files := map[string]string{".gitattributes": "x", "README.md": strings.TrimPrefix(carded, "README.md="), "held.jsonl": `{"file":"held.jsonl"}`, "b/1.jsonl": `{"file":"b/1.jsonl"}`, "extra.jsonl": `{"file":"extra.jsonl"}`}
	s, options := serve(t, files)
	got, info, err := filesOf(t, Options{Name: "org/name", Hub: options})
	require.NoError(t, err)
	require.Equal(t, []string{"b/1.jsonl", "extra.jsonl"}, got)
	require.Len(t, info.Revision, 40)
	require.Equal(t, "big", info.Subset)
	require.NotEmpty(t, info.Digest)
	require.Zero(t, s.Count("GET", "held.jsonl"), "files of other splits are not fetched")

	options.Offline = true
	again, offline, err := filesOf(t, Options{Name: "org/name", Hub: options, Revision: info.Revision})
	require.NoError(t, err)
	require.Equal(t, got, again)
	require.Equal(t, info.Digest, offline.Digest)

	_, _, err = filesOf(t, Options{Name: "org/other", Hub: hub.Options{Endpoint: s.URL, CacheDir: t.TempDir(), Retries: -1}})
	require.ErrorIs(t, err, hub.ErrRepoNotFound)
}

func TestTheHubsConversionIsReadWhereADatasetHasNoFilesOfItsOwn(t *testing.T) {
	s, options := serve(t, map[string]string{"loader.py": "x"})
	data, err := os.ReadFile(parquetFiles + "/hyparquet.parquet")
	require.NoError(t, err)
	s.Put("dataset", "org/name", hub.ParquetRevision, map[string][]byte{"default/train/0000.parquet": data, "default/partial-test/0000.parquet": data})
	rows, _, err := readAll(t, Options{Name: "org/name", Hub: options})
	require.NoError(t, err)
	require.Len(t, rows, 3)
	_, _, err = readAll(t, Options{Name: "org/name", Hub: options, Split: "test"})
	require.ErrorContains(t, err, `has converted only the beginning of split "test"; ask for split "partial-test"`)
	rows, _, err = readAll(t, Options{Name: "org/name", Hub: options, Split: "partial-test"})
	require.NoError(t, err)
	require.Len(t, rows, 3)
}

func TestAPassEndsWithItsContext(t *testing.T) {
	dir := folder(t, "a.jsonl="+strings.Repeat("{\"a\":1}\n", 1000))
	d, err := Open(t.Context(), Options{Name: filepath.Join(dir, "a.jsonl")})
	require.NoError(t, err)
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	n := 0
	for _, err := range d.Rows(ctx) {
		if n++; n == 10 {
			cancel(stop)
		}
		if err != nil {
			require.ErrorIs(t, err, stop)
			require.Equal(t, 11, n)
			return
		}
	}
	t.Fatal("the pass went on to its end")
}

func TestTasksOnTheHubHaveToBeCloned(t *testing.T) {
	files := map[string]string{}
	for _, f := range taskFiles("a") {
		name, content, _ := strings.Cut(f, "=")
		files[name] = content
	}
	_, options := serve(t, files)
	_, err := Open(t.Context(), Options{Name: "org/name", Hub: options})
	require.ErrorContains(t, err, "git clone "+options.Endpoint+"/datasets/org/name and name the clone")
}

package harbor_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/dataset/harbor"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

type member struct {
	name, content string
	mode          int64
	kind          byte
}

func makeTar(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Mode: m.mode, Typeflag: m.kind, Size: int64(len(m.content))}
		if m.kind == tar.TypeSymlink || m.kind == tar.TypeLink {
			h.Linkname, h.Size = m.content, 0
		}
		require.NoError(t, w.WriteHeader(h))
		if h.Size > 0 {
			_, err := io.WriteString(w, m.content)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func zip(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func file(name, content string) member { return member{name, content, 0o644, tar.TypeReg} }

func row(t testing.TB, columns ...any) []byte {
	t.Helper()
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i < len(columns); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		value := columns[i+1]
		if data, ok := value.([]byte); ok {
			value = base64.StdEncoding.EncodeToString(data)
		}
		encoded, err := json.Marshal(value)
		require.NoError(t, err)
		b.WriteString(`"` + columns[i].(string) + `":` + string(encoded))
	}
	b.WriteByte('}')
	return []byte(b.String())
}

func TestARowOfTheDataSetsBecomesATask(t *testing.T) {
	data := row(t, "task_name", "sort-it", "instruction", "Sort <it>.\n", "docker_image", "example/sort:latest",
		"category", "file \"ops\"\n\x01", "difficulty", "medium", "tags", "a, b", "agent_timeout_sec", 900.0, "test_timeout_sec", 180.5,
		"environment_tar", zip(t, makeTar(t, member{"./", "", 0o555, tar.TypeDir}, file("./Dockerfile", "FROM scratch\n"), member{"./bin/run", "#!", 0o755, tar.TypeReg}, member{"./bin/link", "run", 0o777, tar.TypeSymlink})),
		"tests_tar", nil,
		"test_sh", "#!/bin/bash\necho 1\n")
	dir := filepath.Join(t.TempDir(), "made", "sort-it")
	task, err := harbor.FromRow(t.Context(), data, dir, harbor.Limits{})
	require.NoError(t, err)
	require.Equal(t, "sort-it", task.Name)
	require.Equal(t, dir, task.Dir)
	require.Equal(t, "Sort <it>.\n", task.Instruction)
	require.Equal(t, "example/sort:latest", task.Config.Environment.DockerImage)
	require.Equal(t, "file \"ops\"\n\x01", task.Config.Metadata.Category)
	require.Equal(t, []string{"a, b"}, task.Config.Metadata.Tags)
	require.Equal(t, 15*time.Minute, task.Config.Agent.Timeout)
	require.Equal(t, 180500*time.Millisecond, task.Config.Verifier.Timeout)
	require.False(t, task.HasSolution)
	require.True(t, task.HasDockerfile)
	info, err := os.Stat(filepath.Join(dir, "environment", "bin", "run"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(dir, "tests", "test.sh"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
	target, err := os.Readlink(filepath.Join(dir, "environment", "bin", "link"))
	require.NoError(t, err)
	require.Equal(t, "run", target)

	again, err := harbor.FromRow(t.Context(), data, filepath.Join(t.TempDir(), "x"), harbor.Limits{})
	require.NoError(t, err)
	require.Equal(t, task.Digest, again.Digest)
	require.Equal(t, "sort-it", again.Name)
	left, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing else stays")
}

func TestTheScriptOfTheRowGoesBeforeTheArchives(t *testing.T) {
	for name, script := range map[string]member{
		"a file":   file("test.sh", "from the tar"),
		"a link":   {"test.sh", "other", 0o777, tar.TypeSymlink},
		"a folder": file("test.sh/x", "y"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "x")
			task, err := harbor.FromRow(t.Context(), row(t, "task_name", "x", "instruction", "i", "docker_image", "a/b",
				"tests_tar", zip(t, makeTar(t, script, file("other", "untouched"))), "test_sh", "from the row"), dir, harbor.Limits{})
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join(task.TestsDir(), "test.sh"))
			require.NoError(t, err)
			require.Equal(t, "from the row", string(got))
			other, err := os.ReadFile(filepath.Join(task.TestsDir(), "other"))
			require.NoError(t, err)
			require.Equal(t, "untouched", string(other))
		})
	}
}

func TestAPackedTaskComesBackTheSame(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "say-hello")
	task, err := harbor.Load(t.Context(), write(t, dir, with(simple(), "environment/a/link", "-> ../run.sh", "tests/sub/data.bin", "\x00\xff")))
	require.NoError(t, err)
	packed, err := harbor.PackRow(t.Context(), task)
	require.NoError(t, err)
	require.True(t, gjson.ValidBytes(packed))
	second, err := harbor.PackRow(t.Context(), task)
	require.NoError(t, err)
	require.Equal(t, packed, second, "the same bytes each time")
	back, err := harbor.FromRow(t.Context(), packed, filepath.Join(t.TempDir(), "x"), harbor.Limits{})
	require.NoError(t, err)
	for _, part := range []string{"environment", "tests"} {
		want, err := harbor.FolderDigest(t.Context(), filepath.Join(task.Dir, part))
		require.NoError(t, err)
		got, err := harbor.FolderDigest(t.Context(), filepath.Join(back.Dir, part))
		require.NoError(t, err)
		require.Equal(t, want, got, part)
	}
	require.Equal(t, task.Instruction, back.Instruction)
	require.Equal(t, task.Config.Agent, back.Config.Agent)
	require.Equal(t, task.Config.Verifier, back.Config.Verifier)
	require.False(t, back.HasSolution)
}

func TestAWholeTaskInAColumnBecomesATask(t *testing.T) {
	var members, nested []member
	for name, content := range simple() {
		name, executable := strings.CutSuffix(name, "!")
		m := file(name, content)
		if executable {
			m.mode = 0o755
		}
		members = append(members, m)
		m.name = "top/" + name
		nested = append(nested, m)
	}
	want, err := harbor.Load(t.Context(), write(t, filepath.Join(t.TempDir(), "t"), simple()))
	require.NoError(t, err)
	for name, data := range map[string][]byte{
		"at the top": zip(t, makeTar(t, members...)), "in a folder": zip(t, makeTar(t, nested...)), "not compressed": makeTar(t, members...),
	} {
		task, err := harbor.FromRow(t.Context(), row(t, "path", "tasks/hello.tar.gz", "task_binary", data), filepath.Join(t.TempDir(), "x"), harbor.Limits{})
		require.NoError(t, err, name)
		require.Equal(t, "hello", task.Name)
		require.Equal(t, want.Digest, task.Digest, name)
		require.True(t, task.HasSolution)
	}
}

func TestRowsThatAreNoTaskAreRefused(t *testing.T) {
	good := zip(t, makeTar(t, file("Dockerfile", "FROM scratch")))
	for name, c := range map[string]struct {
		row  []byte
		says string
	}{
		"no JSON":                {[]byte("{"), "no JSON object"},
		"no object":              {[]byte("[1]"), "no JSON object"},
		"no name":                {row(t, "instruction", "x"), "neither task_name nor path"},
		"no instruction":         {row(t, "task_name", "x", "docker_image", "a", "test_sh", "y"), "instruction.md: is empty"},
		"no image":               {row(t, "task_name", "x", "instruction", "i", "test_sh", "y"), "environment: needs a Dockerfile"},
		"no tests":               {row(t, "task_name", "x", "instruction", "i", "docker_image", "a"), "tests/test.sh: is missing"},
		"no Dockerfile":          {row(t, "task_name", "x", "instruction", "i", "test_sh", "y", "environment_tar", zip(t, makeTar(t, file("a", "b")))), "environment: needs a Dockerfile"},
		"no base64":              {row(t, "task_name", "x", "instruction", "i", "environment_tar", "no base64 at all!"), "environment_tar: read the archive: illegal base64"},
		"a number for a tar":     {row(t, "task_name", "x", "instruction", "i", "tests_tar", 7), "tests_tar must be a string"},
		"a damaged archive":      {row(t, "task_name", "x", "instruction", "i", "environment_tar", good[:len(good)-9]), "environment_tar"},
		"a wrong checksum":       {row(t, "task_name", "x", "instruction", "i", "environment_tar", append(good[:len(good)-8:len(good)-8], 0, 0, 0, 0, 0, 0, 0, 0)), "checksum"},
		"a time that is no time": {row(t, "task_name", "x", "instruction", "i", "docker_image", "a", "test_sh", "y", "agent_timeout_sec", "soon"), `agent_timeout_sec must be a number of seconds, not "soon"`},
		"a time that is a list":  {row(t, "task_name", "x", "instruction", "i", "docker_image", "a", "test_sh", "y", "agent_timeout_sec", []int{1}), `agent_timeout_sec must be a number of seconds, not [1]`},
		"a time without end":     {row(t, "task_name", "x", "instruction", "i", "docker_image", "a", "test_sh", "y", "agent_timeout_sec", "nan"), `agent_timeout_sec must be more than 0`},
		"a time of nothing":      {row(t, "task_name", "x", "instruction", "i", "docker_image", "a", "test_sh", "y", "test_timeout_sec", 0), "test_timeout_sec must be more than 0"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			_, err := harbor.FromRow(t.Context(), c.row, filepath.Join(parent, "x"), harbor.Limits{})
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), ".unpack-")
			left, err := os.ReadDir(parent)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
	full := write(t, t.TempDir(), map[string]string{"mine": "x"})
	_, err := harbor.FromRow(t.Context(), row(t, "task_name", "x", "instruction", "i", "docker_image", "a", "test_sh", "y"), full, harbor.Limits{})
	require.ErrorContains(t, err, "make room")
	require.FileExists(t, filepath.Join(full, "mine"))
}

func TestHostileArchivesAreRefused(t *testing.T) {
	zeros := strings.Repeat("\x00", 1<<20)
	for name, c := range map[string]struct {
		data   []byte
		limits harbor.Limits
	}{
		"an absolute name":      {makeTar(t, file("/etc/x", "y")), harbor.Limits{}},
		"a name that goes up":   {makeTar(t, file("a/../../x", "y")), harbor.Limits{}},
		"an absolute link":      {makeTar(t, member{"l", "/etc", 0o777, tar.TypeSymlink}), harbor.Limits{}},
		"a link that goes up":   {makeTar(t, member{"l", "../x", 0o777, tar.TypeSymlink}), harbor.Limits{}},
		"a way through a link":  {makeTar(t, member{"d/", "", 0o755, tar.TypeDir}, member{"l", "d", 0o777, tar.TypeSymlink}, member{"l/m", "../..", 0o777, tar.TypeSymlink}), harbor.Limits{}},
		"a hard link":           {makeTar(t, file("a", "b"), member{"l", "a", 0o777, tar.TypeLink}), harbor.Limits{}},
		"a device":              {makeTar(t, member{"null", "", 0o666, tar.TypeChar}), harbor.Limits{}},
		"a pipe":                {makeTar(t, member{"p", "", 0o666, tar.TypeFifo}), harbor.Limits{}},
		"too many entries":      {makeTar(t, file("a", ""), file("b", ""), file("c", "")), harbor.Limits{MaxEntries: 2}},
		"too much content":      {makeTar(t, file("a", zeros), file("b", "x")), harbor.Limits{MaxBytes: 1 << 20}},
		"a bomb in one file":    {zip(t, makeTar(t, file("a", zeros+zeros))), harbor.Limits{MaxBytes: 1 << 20}},
		"a bomb behind the end": {zip(t, append(makeTar(t, file("a", "x")), zeros+zeros+zeros...)), harbor.Limits{MaxBytes: 1 << 10, MaxEntries: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "in")
			require.ErrorIs(t, harbor.UnpackTar(t.Context(), bytes.NewReader(c.data), dir, c.limits), sandbox.ErrUnsafeArchive)
			left, err := os.ReadDir(parent)
			require.NoError(t, err)
			require.LessOrEqual(t, len(left), 1, "nothing beside the folder")
		})
	}
	require.ErrorContains(t, harbor.UnpackTar(t.Context(), strings.NewReader(""), t.TempDir(), harbor.Limits{}), "empty")
}

func TestOfEntriesWithOneNameTheLastCounts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, harbor.UnpackTar(t.Context(), bytes.NewReader(makeTar(t,
		file("a", "first"), member{"b", "a", 0o777, tar.TypeSymlink}, file("a", "second"), file("b", "own"), member{"set", "x", 0o6755, tar.TypeReg})), dir, harbor.Limits{}))
	for name, want := range map[string]string{"a": "second", "b": "own"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	info, err := os.Stat(filepath.Join(dir, "set"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode())
}

func FuzzTaskFiles(f *testing.F) {
	names, err := filepath.Glob("testdata/toml/*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("a = '''x\n'y'''\nb = \"\"\"\\\"\"\"\"\n[[c]]\n[c.d]\n[[c]]\ne={f=[{g=1},\n{h=2}]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, notes, err := harbor.Parse("task.toml", data)
		for _, n := range notes {
			require.LessOrEqual(t, n.Line, bytes.Count(data, []byte("\n"))+1)
		}
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.True(t, json.Valid(config.Metadata.Raw), string(config.Metadata.Raw))
		require.NotEmpty(t, config.Environment.NetworkMode)
		require.Positive(t, config.Verifier.Timeout)
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add(zip(f, makeTar(f, file("a/b", "c"), member{"l", "a", 0o777, tar.TypeSymlink})))
	f.Add(makeTar(f, file("../x", "y"), member{"d/", "", 0o755, tar.TypeDir}))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, data []byte) {
		parent := t.TempDir()
		_ = harbor.UnpackTar(t.Context(), bytes.NewReader(data), filepath.Join(parent, "in"), harbor.Limits{MaxBytes: 1 << 20, MaxEntries: 100})
		left, err := os.ReadDir(parent)
		require.NoError(t, err)
		require.LessOrEqual(t, len(left), 1)
	})
}

func FuzzRows(f *testing.F) {
	f.Add([]byte(`{"task_name":"x","instruction":"i","docker_image":"a/b","tags":["p","q"],"agent_timeout_sec":1e2,"test_sh":"echo"}`))
	f.Add(row(f, "path", "a/b", "task_binary", zip(f, makeTar(f, file("task.toml", "")))))
	f.Fuzz(func(t *testing.T, data []byte) {
		if gjson.GetBytes(data, "task_dir").Exists() {
			return // would read what is on this machine
		}
		parent := t.TempDir()
		task, err := harbor.FromRow(t.Context(), data, filepath.Join(parent, "x"), harbor.Limits{MaxBytes: 1 << 20, MaxEntries: 100})
		left, dirErr := os.ReadDir(parent)
		require.NoError(t, dirErr)
		if err != nil {
			require.Empty(t, left)
			return
		}
		require.Len(t, left, 1)
		require.NotEmpty(t, task.Name)
	})
}

func TestARowOfATextFileBecomesATask(t *testing.T) {
	// A CSV file has nothing but texts, empty ones where there is no value.
	data := row(t, "task_name", "x", "instruction", "i", "docker_image", "a", "category", "", "difficulty", "", "tags", "",
		"agent_timeout_sec", "900.0", "test_timeout_sec", "", "environment_tar", "", "tests_tar", "", "test_sh", "echo 1")
	task, err := harbor.FromRow(t.Context(), data, filepath.Join(t.TempDir(), "x"), harbor.Limits{})
	require.NoError(t, err)
	require.Equal(t, 15*time.Minute, task.Config.Agent.Timeout)
	require.Equal(t, 10*time.Minute, task.Config.Verifier.Timeout)
}

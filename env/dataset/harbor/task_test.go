package harbor_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/dataset/harbor"
)

// write makes files below a folder; names that end in "!" may be executed, and content
// "-> x" makes a link.
func write(t testing.TB, dir string, files map[string]string) string {
	t.Helper()
	for name, content := range files {
		name, executable := strings.CutSuffix(name, "!")
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			require.NoError(t, os.Symlink(target, path))
			continue
		}
		mode := os.FileMode(0o644)
		if executable {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
		require.NoError(t, os.Chmod(path, mode))
	}
	return dir
}

// simple is a task of one step.
func simple() map[string]string {
	return map[string]string{
		"task.toml":              "schema_version = '1.1'\n[metadata]\ncategory = 'files'\ndifficulty = 'easy'\ntags = ['a', 'b']\n[agent]\ntimeout_sec = 120.5\n[verifier]\ntimeout_sec = 60\n",
		"instruction.md":         "Say <hello> & \"bye\".\n",
		"environment/Dockerfile": "FROM scratch\n",
		"environment/run.sh!":    "#!/bin/sh\n",
		"tests/test.sh!":         "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
		"solution/solve.sh!":     "#!/bin/sh\ntrue\n",
	}
}

func with(files map[string]string, more ...string) map[string]string {
	for i := 0; i < len(more); i += 2 {
		if more[i+1] == "(none)" {
			delete(files, more[i])
		} else {
			files[more[i]] = more[i+1]
		}
	}
	return files
}

func TestATaskOfOneStepIsLoaded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "say-hello")
	task, err := harbor.Load(t.Context(), write(t, dir, simple()))
	require.NoError(t, err)
	require.Equal(t, "say-hello", task.Name)
	require.Equal(t, dir, task.Dir)
	require.Equal(t, simple()["instruction.md"], task.Instruction)
	require.Equal(t, 120500*time.Millisecond, task.Config.Agent.Timeout)
	require.True(t, task.HasSolution)
	require.True(t, task.HasDockerfile)
	require.False(t, task.HasCompose)
	require.Empty(t, task.Steps)
	require.Empty(t, task.Notes)
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, task.Digest)

	row, err := harbor.Row(task)
	require.NoError(t, err)
	require.Equal(t, `{"task_name":"say-hello","instruction":"Say <hello> & \"bye\".\n","docker_image":"","category":"files","difficulty":"easy","tags":"a, b",`+
		`"agent_timeout_sec":120.5,"test_timeout_sec":60,"has_solution":true,"task_dir":"`+dir+`","task_digest":"`+task.Digest+`"}`, string(row))

	again, err := harbor.FromRow(t.Context(), row, filepath.Join(t.TempDir(), "unused"), harbor.Limits{})
	require.NoError(t, err)
	require.Equal(t, task, again)

	_, err = harbor.FromRow(t.Context(), []byte(`{"task_name":"x","task_dir":"`+dir+`"}`), "", harbor.Limits{})
	require.ErrorContains(t, err, "task_digest", "a foreign row can't name a folder whose content it does not know")
	write(t, dir, map[string]string{"tests/more": "x"})
	_, err = harbor.FromRow(t.Context(), row, "", harbor.Limits{})
	require.ErrorContains(t, err, "was changed since")
}

func TestATaskOfSeveralStepsIsLoaded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "steps")
	files := map[string]string{
		"task.toml":                       "[environment]\ndocker_image = 'x/y:1'\n[[steps]]\nname = 'two'\n[[steps]]\nname = 'one'\nmin_reward = 1\n",
		"environment/docker-compose.yaml": "services: {main: {}}\n",
		"tests/test.sh":                   "shared",
		"steps/one/instruction.md":        "First.",
		"steps/one/solution/solve.sh":     "",
		"steps/one/workdir/setup.sh":      "",
		"steps/two/instruction.md":        "Second.",
		"steps/two/tests/test.sh":         "own",
	}
	task, err := harbor.Load(t.Context(), write(t, dir, files))
	require.NoError(t, err)
	require.Empty(t, task.Instruction)
	require.Len(t, task.Steps, 2)
	two, one := task.Steps[0], task.Steps[1]
	require.Equal(t, []string{"two", "Second.", filepath.Join(dir, "steps", "two")}, []string{two.Name, two.Instruction, two.Dir})
	require.True(t, two.HasTests && !two.HasSolution && !two.HasWorkdir)
	require.True(t, one.HasSolution && one.HasWorkdir && one.HasSetup && !one.HasTests)
	require.False(t, task.HasSolution, "one step has none")
	require.True(t, task.HasCompose)
	row, err := harbor.Row(task)
	require.NoError(t, err)
	require.Equal(t, "Second.", gjson.GetBytes(row, "instruction").String())
	require.EqualValues(t, 2, gjson.GetBytes(row, "steps").Int())
	require.Equal(t, gjson.Null, gjson.GetBytes(row, "agent_timeout_sec").Type)
	_, err = harbor.PackRow(t.Context(), task)
	require.ErrorContains(t, err, "several steps")
}

func TestWhatATaskLacksIsSaidAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"nothing but task.toml": {map[string]string{"task.toml": ""}, []string{
			"environment: needs a Dockerfile", "instruction.md: is missing", "tests/test.sh: is missing"}},
		"no task.toml":            {with(simple(), "task.toml", "(none)"), []string{"task.toml: is missing"}},
		"an empty instruction":    {with(simple(), "instruction.md", " \n"), []string{"instruction.md: is empty"}},
		"several things":          {with(simple(), "task.toml", "[agent]\ntimeout_sec = ''\nuser = 1.5\n", "tests/test.sh!", "(none)"), []string{"task.toml:2: agent.timeout_sec", "task.toml:3: agent.user", "tests/test.sh: is missing"}},
		"a step without folder":   {with(simple(), "task.toml", "[[steps]]\nname = 'x'\n"), []string{"steps/x: is missing"}},
		"a step without anything": {with(simple(), "task.toml", "[[steps]]\nname = 'x'\n", "steps/x/note", "", "tests/test.sh!", "(none)"), []string{"steps/x/instruction.md: is missing", "steps/x/tests/test.sh: is missing"}},
		"steps without table":     {with(simple(), "instruction.md", "(none)", "steps/x/instruction.md", "x"), []string{"task.toml: has no [[steps]]"}},
		"the old format":          {map[string]string{"task.yaml": "instruction: x", "run-tests.sh": "", "docker-compose.yaml": ""}, []string{"task.yaml: is a task of the older Terminal-Bench 1 format", "instruction.md: is missing", "tests/test.sh: is missing"}},
		"an instruction outside":  {with(simple(), "instruction.md", "-> /etc/hostname"), []string{"instruction.md: path escapes from parent"}},
		"tests outside":           {with(simple(), "tests/test.sh!", "-> /bin/true"), []string{"tests/test.sh: is missing"}},
		"an instruction folder":   {with(simple(), "instruction.md", "(none)", "instruction.md/x", ""), []string{"instruction.md: is no file"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, filepath.Join(t.TempDir(), "task"), c.files)
			_, err := harbor.Load(t.Context(), dir)
			var e *harbor.Error
			require.ErrorAs(t, err, &e)
			require.Len(t, e.Problems, len(c.want), err)
			for i, want := range c.want {
				require.True(t, strings.HasPrefix(e.Problems[i].String(), dir+string(filepath.Separator)), e.Problems[i])
				require.Contains(t, filepath.ToSlash(e.Problems[i].String()), want)
			}
		})
	}
	_, err := harbor.Load(t.Context(), filepath.Join(t.TempDir(), "nope"))
	require.ErrorContains(t, err, "nope")
}

func TestUnusualThingsAreNoted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd")
	task, err := harbor.Load(t.Context(), write(t, dir, with(simple(),
		"task.toml", "[environment]\ndocker_image = 'x/y'\nfuture = 1\n", "environment/Dockerfile", "(none)",
		"instruction.md", "bad \xff byte", "environment/python", "-> /usr/bin/python3", "environment/up", "-> ../../x", "environment/ok", "-> run.sh")))
	require.NoError(t, err)
	require.Equal(t, "bad \ufffd byte", task.Instruction)
	var notes []string
	for _, n := range task.Notes {
		notes = append(notes, filepath.ToSlash(strings.TrimPrefix(n.String(), dir+string(filepath.Separator))))
	}
	require.Equal(t, []string{
		"task.toml:3: environment.future: is not known and is ignored",
		"environment: has neither Dockerfile nor docker-compose.yaml, which Harbor wants besides docker_image",
		"instruction.md: is not all UTF-8; what is not has been replaced",
		`environment/python: is a link that leads out of the task ("/usr/bin/python3"); it stays a link and is not followed`,
		`environment/up: is a link that leads out of the task ("../../x"); it stays a link and is not followed`,
	}, notes)
}

func TestADigestCoversWhatMattersAndNothingElse(t *testing.T) {
	digest := func(files map[string]string) string {
		task, err := harbor.Load(t.Context(), write(t, filepath.Join(t.TempDir(), "task"), files))
		require.NoError(t, err)
		return task.Digest
	}
	base := digest(simple())
	require.Equal(t, "sha256:e280a0733775009d96c96678a23be0efc1131f584db7273767d9dd0b56ace683", base, "the definition must not change unnoticed")
	for name, same := range map[string]map[string]string{
		"again":             simple(),
		"a README":          with(simple(), "README.md", "read me"),
		"a git folder":      with(simple(), ".git/HEAD", "x"),
		"other files aside": with(simple(), "notes/x", "y"),
	} {
		require.Equal(t, base, digest(same), name)
	}
	for name, other := range map[string]map[string]string{
		"instruction": with(simple(), "instruction.md", "Say hello."),
		"mode":        with(simple(), "environment/run.sh!", "(none)", "environment/run.sh", "#!/bin/sh\n"),
		"solution":    with(simple(), "solution/solve.sh!", "x"),
		"a new file":  with(simple(), "tests/data", ""),
		"a link":      with(simple(), "tests/data", "-> test.sh"),
		"config":      with(simple(), "task.toml", simple()["task.toml"]+"\n"),
	} {
		require.NotEqual(t, base, digest(other), name)
	}

	dir := write(t, t.TempDir(), simple())
	task, err := harbor.Load(t.Context(), dir)
	require.NoError(t, err)
	past := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "instruction.md"), past, past))
	require.NoError(t, os.Chmod(filepath.Join(dir, "instruction.md"), 0o600))
	again, err := harbor.Load(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, task.Digest, again.Digest)

	environment, err := task.EnvironmentDigest(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, task.Digest, environment)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = harbor.FolderDigest(ctx, dir)
	require.ErrorIs(t, err, context.Canceled)
}

func TestTasksAreFoundInAndBelowAFolder(t *testing.T) {
	for name, c := range map[string]struct {
		at    []string // folders that hold the simple task
		root  string
		names []string
	}{
		"the folder itself":    {[]string{"t"}, "t", []string{"t"}},
		"folders at the root":  {[]string{"b", "a"}, "", []string{"a", "b"}},
		"below tasks/":         {[]string{"tasks/b", "tasks/a"}, "", []string{"a", "b"}},
		"nested sets":          {[]string{"set1/x", "set2/deep/y"}, "", []string{"x", "y"}},
		"names that repeat":    {[]string{"set1/x", "set2/x", "set2/y"}, "", []string{"set1/x", "set2/x", "y"}},
		"not in hidden ones":   {[]string{"a", ".git/b", ".cache/c", "node_modules/d"}, "", []string{"a"}},
		"not inside tasks":     {[]string{"a", "a/environment/b"}, "", []string{"a"}},
		"not endlessly deep":   {[]string{"a", "1/2/3/4/5/6/7/b", "1/2/3/4/5/c"}, "", []string{"a", "c"}},
		"a hidden root itself": {[]string{".set/a"}, ".set", []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, at := range c.at {
				write(t, filepath.Join(root, at), simple())
			}
			collection, err := harbor.List(t.Context(), filepath.Join(root, c.root))
			require.NoError(t, err)
			var names []string
			for _, task := range collection.Tasks {
				names = append(names, task.Name)
			}
			require.Equal(t, c.names, names)
			require.Empty(t, collection.Broken)
			require.NotNil(t, collection.Task(names[0]))
			require.Nil(t, collection.Task("nope"))
		})
	}
}

func TestBrokenTasksDoNotHideOthers(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "good"), simple())
	alone, err := harbor.List(t.Context(), root)
	require.NoError(t, err)
	write(t, filepath.Join(root, "bad-config"), with(simple(), "task.toml", "[agent]\ntimeout_sec = 'x'\n"))
	write(t, filepath.Join(root, "no-config"), with(simple(), "task.toml", "(none)"))
	write(t, filepath.Join(root, "old"), map[string]string{"task.yaml": "", "docker-compose.yaml": ""})
	collection, err := harbor.List(t.Context(), root)
	require.NoError(t, err)
	require.Len(t, collection.Tasks, 1)
	require.Len(t, collection.Broken, 3)
	require.Equal(t, "bad-config", collection.Broken[0].Name)
	require.ErrorContains(t, collection.Broken[0].Err, "task.toml:2: agent.timeout_sec")
	require.ErrorContains(t, collection.Broken[1].Err, "task.toml: is missing")
	require.ErrorContains(t, collection.Broken[2].Err, "Terminal-Bench 1")
	require.Equal(t, alone.Digest, collection.Digest)

	_, err = harbor.List(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "no task is in or below")
	_, err = harbor.List(t.Context(), filepath.Join(root, "good", "task.toml"))
	require.ErrorContains(t, err, "is no folder")
	_, err = harbor.List(t.Context(), filepath.Join(root, "nope"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

const commitID = "0123456789abcdef0123456789abcdef01234567"

func TestTheCommitOfACheckoutIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		at    string
		want  *harbor.Checkout
	}{
		"none":            {map[string]string{"x": ""}, ".", nil},
		"a branch":        {map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": commitID + "\n"}, ".", &harbor.Checkout{Path: ".", Commit: commitID, Branch: "main"}},
		"a folder below":  {map[string]string{".git/HEAD": commitID + "\n", "tasks/a/x": ""}, "tasks/a", &harbor.Checkout{Path: "tasks/a", Commit: commitID}},
		"packed":          {map[string]string{".git/HEAD": "ref: refs/heads/a/b\n", ".git/packed-refs": "# pack-refs with: peeled\n" + strings.Repeat("f", 40) + " refs/heads/a\n" + commitID + " refs/heads/a/b\n^" + strings.Repeat("e", 40) + "\n"}, ".", &harbor.Checkout{Path: ".", Commit: commitID, Branch: "a/b"}},
		"before a commit": {map[string]string{".git/HEAD": "ref: refs/heads/main\n"}, ".", &harbor.Checkout{Path: ".", Branch: "main"}},
		"a worktree": {map[string]string{"w/.git": "gitdir: ../main/.git/worktrees/w\n", "main/.git/worktrees/w/HEAD": "ref: refs/heads/x\n", "main/.git/worktrees/w/commondir": "../..\n",
			"main/.git/refs/heads/x": commitID, "main/.git/config": "[core]\n\tbare = false\n[remote \"up\"]\n\turl = no\n[remote \"origin\"]\n\turl = https://user:secret@example.org/tasks.git?x=secret\n"}, "w",
			&harbor.Checkout{Path: ".", Commit: commitID, Branch: "x", Origin: "https://example.org/tasks.git"}},
		"SSH":              {map[string]string{".git/HEAD": commitID, ".git/config": "[remote \"origin\"]\nurl = \"git@example.org:a/b.git\"\n"}, ".", &harbor.Checkout{Path: ".", Commit: commitID, Origin: "git@example.org:a/b.git"}},
		"a link in a loop": {map[string]string{".git/HEAD": "ref: HEAD\n"}, ".", &harbor.Checkout{Path: "."}},
		"reftable":         {map[string]string{".git/HEAD": "ref: refs/heads/.invalid\n"}, ".", &harbor.Checkout{Path: "."}},
		"out of the way":   {map[string]string{".git/HEAD": "ref: ../../../etc/passwd\n"}, ".", &harbor.Checkout{Path: "."}},
		"an odd file":      {map[string]string{".git": "what is this\n"}, ".", nil},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			write(t, root, c.files)
			at := filepath.Join(root, c.at)
			if c.want != nil {
				c.want.Root = strings.TrimSuffix(strings.TrimSuffix(at, filepath.FromSlash(c.want.Path)), string(filepath.Separator))
			}
			require.Equal(t, c.want, harbor.FindCheckout(at))
		})
	}
}

func TestWhatGitMakesIsUnderstood(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed; the forms it writes are tested above")
	}
	root := t.TempDir()
	git := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	main := filepath.Join(root, "main")
	require.NoError(t, os.Mkdir(main, 0o755))
	git(main, "init", "-q", "-b", "trunk")
	write(t, filepath.Join(main, "tasks", "a"), simple())
	git(main, "add", ".")
	git(main, "commit", "-qm", "one")
	want := git(main, "rev-parse", "HEAD")
	git(main, "pack-refs", "--all")
	git(main, "worktree", "add", "-q", filepath.Join(root, "tree"), "-b", "side")
	git(main, "clone", "-q", main, filepath.Join(root, "clone"))
	for dir, branch := range map[string]string{"main": "trunk", "tree": "side", "clone": "trunk"} {
		collection, err := harbor.List(t.Context(), filepath.Join(root, dir))
		require.NoError(t, err)
		require.NotNil(t, collection.Checkout, dir)
		require.Equal(t, want, collection.Checkout.Commit, dir)
		require.Equal(t, branch, collection.Checkout.Branch, dir)
		require.Len(t, collection.Tasks, 1)
	}
}

package terminalbench

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// bashImage makes an image with bash and what it needs of this machine's libraries, "" where
// this machine has none.
func bashImage(t *testing.T) string {
	t.Helper()
	list, err := exec.Command("ldd", "/bin/bash").Output()
	if err != nil {
		t.Skipf("needs /bin/bash and ldd: %v", err)
	}
	extra := map[string]string{}
	for _, path := range append([]string{"/bin/bash"}, regexp.MustCompile(`/\S+`).FindAllString(string(list), -1)...) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		extra[strings.TrimPrefix(path, "/")] = string(content)
	}
	const name = "hermes-env-test:bash"
	dockertest.Import(t, name, extra)
	return name
}

// built is a task whose image is built from a Dockerfile.
func built(dockerfile string, more files) files {
	own := files{"environment/Dockerfile": dockerfile, "task.toml": "[metadata]\ncategory = \"built\"\n[agent]\ntimeout_sec = 30\n[verifier]\ntimeout_sec = 30\n[environment]\nallow_internet = false\n"}
	for name, content := range more {
		own[name] = content
	}
	return own
}

// lastGeneration is how the tests of published tasks begin and end: they install their
// tools, refuse to run in the root directory, run pytest and write its verdict.
const lastGeneration = `#!/bin/bash
PATH=/tests/shims:$PATH
apt-get update
apt-get install -y curl
curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh
source $HOME/.local/bin/env
if [ "$PWD" = "/" ]; then
    echo "Error: No working directory set."
    exit 1
fi
uvx -p 3.13 -w pytest==8.4.1 -w pytest-json-ctrf==0.3.5 pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py -rA
if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
`

var shims = files{
	"tests/shims/apt-get": "#!/bin/sh\necho apt-get \"$@\"\n",
	"tests/shims/curl":    "#!/bin/sh\ncat <<'EOF'\nmkdir -p $HOME/.local/bin\ncp /tests/shims/runner $HOME/.local/bin/uvx\nchmod 755 $HOME/.local/bin/uvx\necho 'export PATH=\"$HOME/.local/bin:$PATH\"' > $HOME/.local/bin/env\nEOF\n",
	"tests/shims/runner":  "#!/bin/sh\nwhile [ \"$1\" != --ctrf ]; do shift; done\necho '{\"results\":{\"tool\":{\"name\":\"pytest\"},\"summary\":{\"tests\":1}}}' > \"$2\"\nexec sh \"$3\"\n",
}

func (f files) with(more files) files {
	all := files{}
	for name, content := range f {
		all[name] = content
	}
	for name, content := range more {
		all[name] = content
	}
	return all
}

func TestTasksLikeThePublishedOnesRunUnchanged(t *testing.T) {
	b := newBench(t)
	bash := bashImage(t)
	app := "FROM " + bash + "\nWORKDIR /app\n"
	answer := shims.with(files{"tests/test.sh": lastGeneration, "tests/test_outputs.py": "[ \"$(cat answer.txt)\" = 42 ]\n"})
	tasks := map[string]struct {
		agent string
		files files
		want  string
	}{
		"the last generation":                   {agent: "echo 42 > answer.txt", files: built(app, answer), want: "1"},
		"the last generation, unsolved":         {agent: "true", files: built(app, answer), want: "0"},
		"the last generation in the root":       {agent: "echo 42 > answer.txt", files: built("FROM "+bash+"\nWORKDIR /\n", answer), want: classNoReward},
		"an image with an entry point":          {agent: "echo 42 > answer.txt", files: built(app+"ENTRYPOINT [\"/bin/sh\", \"-c\", \"echo I am done; exit 3\"]\n", answer), want: "1"},
		"an image whose command prints":         {agent: "echo 42 > answer.txt", files: built(app+"CMD [\"/bin/echo\", \"hello\"]\n", answer), want: "1"},
		"an image with a user":                  {agent: "id -un > who; echo 42 > answer.txt", files: built(app+"RUN chown agent /app\nUSER agent\n", answer.with(files{"tests/test_outputs.py": "[ \"$(cat who)\" = agent ] && [ \"$(id -un)\" = agent ] && [ $HOME = /home/agent ] && [ \"$(cat answer.txt)\" = 42 ]\n"})), want: "1"},
		"an image with a user, tests root":      {agent: "echo 42 > answer.txt", files: built(app+"RUN chown agent /app\nUSER agent\n", answer.with(files{"task.toml": "[verifier]\nuser = \"root\"\n[environment]\n", "tests/test_outputs.py": "[ \"$(id -un)\" = root ] && [ $HOME = /root ]\n"})), want: "1"},
		"an image with variables":               {agent: "echo $GREETING > answer.txt", files: built(app+"ENV GREETING=hello HOME=/srv\nRUN mkdir /srv\n", answer.with(files{"tests/test_outputs.py": "[ \"$(cat answer.txt)\" = hello ] && [ $GREETING = hello ] && [ $HOME = /srv ]\n"})), want: "1"},
		"an image without bash":                 {agent: "echo 42 > answer.txt", files: built("FROM "+dockertest.Image+"\nWORKDIR /app\n", answer), want: classNoShell},
		"a script without bash or line":         {agent: "echo 42 > answer.txt", files: built("FROM "+dockertest.Image+"\nWORKDIR /app\n", files{"tests/test.sh": "[ \"$(cat answer.txt)\" = 42 ] && echo 1 > /logs/verifier/reward.txt\n"}), want: "1"},
		"a script in the manner of Windows":     {agent: "echo 42 > answer.txt", files: built(app, files{"tests/test.sh": "#!/bin/bash\r\necho 1 > /logs/verifier/reward.txt\r\n"}), want: classNoShell},
		"a script that stops at errors":         {agent: "true", files: built(app, files{"tests/test.sh": "#!/bin/bash\nset -euo pipefail\ncat answer.txt\necho 1 > /logs/verifier/reward.txt\n"}), want: classNoReward},
		"relative paths in the solution":        {agent: "cp $(dirname $0)/data/words.txt out.txt; cd sub; cat ../out.txt > ../answer.txt", files: built(app+"RUN mkdir /app/sub\n", answer.with(files{"solution/data/words.txt": "42\n"})), want: "1"},
		"a build with many files":               {agent: "cat data/* | wc -l > answer.txt", files: built(app+"COPY data /app/data/\nCOPY one two.txt /app/\n", manyFiles(answer.with(files{"tests/test_outputs.py": "[ $(cat answer.txt) = 300 ] && [ -x one ] && [ -f two.txt ]\n", "environment/one": "#!/bin/sh\n", "environment/two.txt": "2\n"}), 300)), want: "1"},
		"variables for the tests":               {agent: "true", files: built(app, files{"task.toml": "[verifier]\nenv = { WORD = \"given\" }\n[environment]\n", "tests/test.sh": "#!/bin/bash\n[ \"$WORD\" = given ] && echo 1 > /logs/verifier/reward.txt\n"}), want: "1"},
		"a health check before the agent":       {agent: "cat /tmp/ready > answer.txt", files: built(app, answer.with(files{"task.toml": "[environment]\nworkdir = \"/app\"\n[environment.healthcheck]\ncommand = \"echo 42 > /tmp/ready\"\n"})), want: "1"},
		"tests beside links and big files":      {agent: "true", files: built(app, files{"tests/big": strings.Repeat("0123456789abcdef", 1<<20), "tests/test.sh": "#!/bin/bash\n[ $(wc -c < /tests/big) = 16777216 ] && [ \"$(readlink /tests/link)\" = big ] && [ $(wc -c < /tests/link) = 16777216 ] && echo 1 > /logs/verifier/reward.txt\n"}), want: "1"},
		"a server asked by the last generation": {agent: "mkdir www; echo 42 > www/answer; httpd -p 8080 -h /app/www", files: built(app, answer.with(files{"tests/test_outputs.py": "[ \"$(timeout 5 wget -q -O - http://localhost:8080/answer)\" = 42 ]\n"})), want: "1"},
	}
	for name, task := range tasks {
		writeTask(t, b.root, taskName(name), "#!/bin/bash\n"+task.agent+"\n", task.files)
	}
	require.NoError(t, os.Symlink("big", filepath.Join(b.root, taskName("tests beside links and big files"), "tests", "link")))
	records := b.run()
	for name, task := range tasks {
		r := records[taskName(name)]
		if got := outcome(r); got != task.want {
			t.Errorf("%s: got %s, want %s: %s %s", name, got, task.want, problemOf(r), r.Metadata)
		}
	}
	require.Equal(t, "pytest", verifierOf(records[taskName("the last generation")]).Get("ctrf.results.tool.name").String())
	require.Equal(t, "httpd -p 8080 -h /app/www", verifierOf(records[taskName("a server asked by the last generation")]).Get("kept_processes.0.command").String())
	b.agent = env.AgentNop
	for name, r := range b.run() {
		require.NotEqual(t, classTampered, outcome(r), name)
	}
}

func manyFiles(f files, n int) files {
	for i := range n {
		f["environment/data/"+strconv.Itoa(i)+".txt"] = strconv.Itoa(i) + "\n"
	}
	return f
}

//go:build amd64 || arm64

package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Word {
		os.Exit(Launch(os.Args[2:], os.Stderr))
	}
	os.Exit(m.Run())
}

// bench is a directory with tests, results and the work of an agent.
type bench struct {
	t        *testing.T
	root     string
	readable bool // the tests are not hidden from the agent's code
}

func newBench(t *testing.T) *bench {
	if err := supported(); err != nil {
		t.Skipf("the kernel has no supervisors: %v", err)
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	b := &bench{t: t, root: root}
	for _, dir := range []string{"tests", "results", "app", "lib"} {
		require.NoError(t, os.Mkdir(b.path(dir), 0o755))
	}
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.root, name) }

// write makes an executable file; $R in it is the bench's directory.
func (b *bench) write(name, content string) {
	require.NoError(b.t, os.WriteFile(b.path(name), []byte(strings.ReplaceAll(content, "$R", b.root)), 0o755))
}

func (b *bench) read(name string) string {
	content, err := os.ReadFile(b.path(name))
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// run runs tests/test.sh under supervision, in the agent's directory.
func (b *bench) run() (output string, seen sandbox.Supervision) {
	b.t.Helper()
	s, err := Start(sandbox.Policy{
		Results: []string{b.path("results/reward.txt"), b.path("results/reward.json")},
		Sealed:  []string{b.path("tests")}, Code: []string{b.path("lib"), "/usr"}, Foreign: []string{b.path("app") + "/"},
		TestFiles: []string{"conftest.py"}, HideSealed: !b.readable,
	})
	require.NoError(b.t, err)
	self, err := os.Executable()
	require.NoError(b.t, err)
	argv := s.Args(self, []string{b.path("tests/test.sh")})
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir = b.path("app")
	out, _ := c.CombinedOutput() // the exit code is not what tests look at
	seen, err = s.End()
	require.NoError(b.t, err, "%s", out)
	return string(out), seen
}

func (b *bench) kinds(seen sandbox.Supervision) []string {
	var kinds []string
	for _, a := range seen.Acts {
		kinds = append(kinds, a.Kind)
	}
	return kinds
}

// honest runs the agent's program and rewards its answer.
const honest = `#!/bin/bash
if [ "$($R/app/answer)" = 42 ]; then echo 1 > $R/results/reward.txt; else echo 0 > $R/results/reward.txt; fi
`

func TestSupervisor_LetsHonestTestsWork(t *testing.T) {
	for name, script := range map[string]string{
		"shell":                "#!/bin/bash\necho 0 > $R/results/reward.txt\nif [ \"$($R/app/answer)\" = 42 ]; then echo 1 > $R/results/reward.txt; fi\n",
		"copied":               "#!/bin/bash\n$R/app/answer > $R/out; grep -q 42 $R/out && printf 1 > $R/one; cp $R/one $R/results/reward.txt\n",
		"moved":                "#!/bin/bash\n$R/app/answer > /dev/null; echo 1 > $R/results/new; mv $R/results/new $R/results/reward.txt\n",
		"tee and timeout":      "#!/bin/bash\ntimeout 10 $R/app/answer > /dev/null && echo 1 | timeout 5 tee $R/results/reward.txt\n",
		"script of the tests":  "#!/bin/bash\nbash $R/tests/score.sh $R/app/answer\n",
		"program of the tests": "#!/bin/bash\n$R/tests/score.sh $R/app/answer\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("app/answer", "#!/bin/sh\necho 42\necho scratch > $R/app/scratch\nmkdir -p $R/lib/new && echo x > $R/lib/new/file\nkill -0 $PPID\n")
			b.write("tests/score.sh", "#!/bin/bash\n[ $($1) = 42 ] && echo 1 > $R/results/reward.txt\n")
			b.write("tests/test.sh", script)
			out, seen := b.run()
			require.Equal(t, "1", strings.TrimSpace(b.read("results/reward.txt")), out)
			require.Empty(t, seen.Acts)
			require.Positive(t, seen.ResultWrites)
			require.Equal(t, "scratch\n", b.read("app/scratch"))
			require.Equal(t, "x\n", b.read("lib/new/file"))
		})
	}
}

func TestSupervisor_RefusesForgeries(t *testing.T) {
	for name, c := range map[string]struct{ attack, kind string }{
		"writes the reward":             {"echo 1 > $R/results/reward.txt", sandbox.ActResult},
		"writes the other reward":       {"echo 1 > $R/results/reward.json", sandbox.ActResult},
		"moves a file over the reward":  {"echo 1 > $R/app/r; mv $R/app/r $R/results/reward.txt", sandbox.ActResult},
		"links the reward":              {"ln -s $R/app/r $R/results/reward.txt", sandbox.ActResult},
		"makes the reward a directory":  {"mkdir $R/results/reward.txt", sandbox.ActResult},
		"moves the directory of it":     {"mv $R/results $R/old", sandbox.ActResult},
		"goes through a link":           {"ln -s $R/results $R/app/l; echo 1 > $R/app/l/reward.json", sandbox.ActResult},
		"goes through /proc":            {"echo 1 > /proc/self/root/$R/results/reward.json", sandbox.ActResult},
		"leaves a daemon":               {"(setsid sh -c 'while ! [ -e $R/results/reward.txt ]; do :; done; echo 1 > $R/results/reward.txt' >/dev/null 2>&1 &)", ""},
		"edits the script":              {"echo 'echo 1 > $R/results/reward.txt' >> $R/tests/test.sh", sandbox.ActSealed},
		"edits the script by its file":  {"echo 'echo 1 > $R/results/reward.txt' >> /proc/$PPID/fd/255", sandbox.ActSealed},
		"links the script":              {"ln $R/tests/test.sh $R/app/t; echo exit >> $R/app/t", sandbox.ActSealed},
		"replaces the script":           {"rm -f $R/tests/test.sh; echo x > $R/tests/test.sh", sandbox.ActSealed},
		"truncates the script":          {"truncate -s 0 $R/tests/test.sh", sandbox.ActSealed},
		"adds a conftest":               {"echo x > $R/tests/conftest.py", sandbox.ActStartup},
		"changes a library":             {"echo evil > $R/lib/library", sandbox.ActCode},
		"kills the script":              {"echo 1 > $R/app/r; kill -9 $PPID", sandbox.ActSignal},
		"kills the group":               {"kill -TERM 0", sandbox.ActSignal},
		"kills all":                     {"kill -9 -1", sandbox.ActSignal},
		"limits the script":             {"prlimit --pid $PPID --nofile=0:0", sandbox.ActLimit},
		"writes to the script's memory": {"echo x > /proc/$PPID/mem", sandbox.ActTrace},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("app/answer", "#!/bin/bash\necho 41\n"+c.attack+"\n")
			b.write("lib/library", "good")
			b.write("tests/test.sh", honest)
			out, seen := b.run()
			if c.kind != "" { // else it depends on time whether the refusal is seen
				require.Contains(t, b.kinds(seen), c.kind, out)
			}
			require.Equal(t, "0\n", b.read("results/reward.txt"), out)
			require.Equal(t, "good", b.read("lib/library"))
			require.Equal(t, 1, seen.ResultWrites)
		})
	}
}

func TestSupervisor_LetsPackageManagersChangeLibraries(t *testing.T) {
	b := newBench(t)
	b.write("app/answer", "#!/bin/sh\necho 42\n")
	b.write("lib/library", "old")
	b.write("lib/apt-get", "#!/bin/sh\nsh -c 'sh $R/lib/postinst'; sh -c 'echo 1 > $R/results/reward.json'\n")
	b.write("lib/postinst", "#!/bin/sh\ncp /dev/null $R/lib/temporary && mv $R/lib/temporary $R/lib/library; echo new > $R/lib/library\n")
	b.write("tests/test.sh", "#!/bin/bash\n$R/lib/apt-get install -y library\n"+strings.TrimPrefix(honest, "#!/bin/bash\n"))
	out, seen := b.run()
	require.Equal(t, "new\n", b.read("lib/library"), out)
	require.Equal(t, "1\n", b.read("results/reward.txt"), out)
	require.Equal(t, []string{sandbox.ActResult}, b.kinds(seen), "a package has no rewards")
	require.NoFileExists(t, b.path("results/reward.json"))
	require.Contains(t, seen.Replaced, b.path("lib/library"))

	// What it is told to run by the agent is not of a package.
	b.write("lib/apt-get", "#!/bin/sh\nsh $R/app/hook\n")
	b.write("app/hook", "echo evil > $R/lib/library\n")
	out, seen = b.run()
	require.Equal(t, []string{sandbox.ActCode}, b.kinds(seen), out)
	require.Equal(t, "new\n", b.read("lib/library"), out)
}

func TestSupervisor_RefusesWhatItCanNotRead(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	b := newBench(t)
	b.write("lib/library", "good")
	b.write("app/answer", "#!"+python+`
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
descriptor = libc.syscall(447, 0) # memfd_secret
print(41)
if descriptor >= 0:
    os.ftruncate(descriptor, 4096)
    hidden = mmap.mmap(descriptor, 4096)
    hidden[:64] = b"$R/lib/library".ljust(64, b"\0")
    open("$R/app/evil", "w").write("evil")
    libc.rename(b"$R/app/evil", ctypes.c_char_p(ctypes.addressof(ctypes.c_char.from_buffer(hidden))))
`)
	b.write("tests/test.sh", honest)
	out, _ := b.run()
	require.Equal(t, "good", b.read("lib/library"), out)
}

func TestSupervisor_RefusesSocketsInPlaceOfResults(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	b := newBench(t)
	b.write("app/answer", "#!"+python+"\nimport socket\nprint(42)\nsocket.socket(socket.AF_UNIX).bind('$R/app/own')\ntry:\n    socket.socket(socket.AF_UNIX).bind('$R/results/reward.txt')\nexcept OSError:\n    pass\n")
	b.write("tests/test.sh", honest)
	out, seen := b.run()
	require.Equal(t, []string{sandbox.ActResult}, b.kinds(seen), out)
	require.Equal(t, "1\n", b.read("results/reward.txt"), out)
	require.FileExists(t, b.path("app/own"))
}

func TestSupervisor_ListsNewFilesBesideTests(t *testing.T) {
	b := newBench(t)
	b.write("app/answer", "#!/bin/sh\necho x > $R/tests/by-agent; echo 42\n")
	b.write("tests/test.sh", "#!/bin/bash\necho x > $R/tests/by-tests; mkdir $R/tests/dir; mv $R/tests/by-tests $R/tests/dir/moved\n"+strings.TrimPrefix(honest, "#!/bin/bash\n"))
	out, seen := b.run()
	require.Equal(t, []string{b.path("tests/by-agent"), b.path("tests/by-tests"), b.path("tests/dir"), b.path("tests/dir/moved")}, seen.Added, out)
}

func TestSupervisor_RefusesToWriteResultsThroughLinksOfTheAgent(t *testing.T) {
	b := newBench(t)
	b.write("app/answer", "#!/bin/sh\necho 1\n")
	b.write("tests/expected", "42")
	require.NoError(t, os.Symlink(b.path("results/reward.json"), b.path("app/out")))
	require.NoError(t, os.Symlink(b.path("tests/expected"), b.path("app/actual")))
	require.NoError(t, os.Symlink(b.path("app/answer"), b.path("app/other")))
	b.write("tests/test.sh", "#!/bin/bash\n$R/app/other > $R/app/out\n$R/app/answer > $R/app/actual\necho 0 > $R/results/reward.txt\n")
	out, seen := b.run()
	require.ElementsMatch(t, []string{sandbox.ActResult, sandbox.ActSealed}, b.kinds(seen), out)
	require.Equal(t, "42", b.read("tests/expected"))
	require.NoFileExists(t, b.path("results/reward.json"))
}

func TestSupervisor_KeepsDescriptorsOfOthersApart(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	for name, c := range map[string]struct {
		attack string
		kinds  []string
	}{
		"its own output":           {"open('/proc/self/fd/1', 'w').write('42'); fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())", nil},
		"the output of its parent": {"open('/proc/%d/fd/1' % os.getppid(), 'w').write('42')", []string{sandbox.ActTrace}},
		"signals of a descriptor":  {"fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid()); print(42)", []string{sandbox.ActSignal}},
		"another signal of it":     {"fcntl.fcntl(0, 10, signal.SIGKILL); print(42)", []string{sandbox.ActSignal}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("app/answer", "#!"+python+"\nimport fcntl, os, signal\ntry:\n    "+c.attack+"\nexcept OSError:\n    print(41)\n")
			b.write("tests/test.sh", "#!/bin/bash\nanswer=$(bash $R/tests/ask.sh)\n[ \"$answer\" = 42 ] && echo 1 > $R/results/reward.txt || echo 0 > $R/results/reward.txt\n")
			b.write("tests/ask.sh", "$R/app/answer > $R/app/printed\ncat $R/app/printed\n")
			out, seen := b.run()
			require.Equal(t, c.kinds, b.kinds(seen), out)
			want := "0\n"
			if c.kinds == nil {
				want = "1\n"
			}
			require.Equal(t, want, b.read("results/reward.txt"), out)
		})
	}
}

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

// compares is a test script that gives the agent's program nothing but an argument.
const compares = `#!/bin/bash
[ "$($R/app/answer 7)" = "$(cat $R/tests/expected)" ] && echo 1 > $R/results/reward.txt || echo 0 > $R/results/reward.txt
`

func (b *bench) needs(programs ...string) {
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			b.t.Skipf("there is no %s", name)
		}
	}
}

// compile compiles C code.
func (b *bench) compile(name, code string) {
	b.t.Helper()
	b.write(name+".c", code)
	out, err := exec.Command("gcc", "-w", "-o", b.path(name), b.path(name+".c")).CombinedOutput()
	require.NoError(b.t, err, "%s", out)
}

func TestSupervisor_HidesTestsFromTheAgentsCode(t *testing.T) {
	for name, program := range map[string]string{
		"opens the file":            "cat $R/tests/expected",
		"opens it in a shell":       "read -r line < $R/tests/expected; echo $line",
		"from its directory":        "cd $R/tests && cat expected",
		"through /proc":             "cat /proc/self/root/$R/tests/expected",
		"through a working dir":     "cd $R/tests && cat /proc/self/cwd/expected",
		"through a link":            "ln -s $R/tests/expected $R/app/l; cat $R/app/l",
		"through a linked dir":      "ln -s $R/tests $R/app/l; cat $R/app/l/expected",
		"copies it":                 "cp $R/tests/expected $R/app/copy; cat $R/app/copy",
		"through a descriptor":      "exec 5< $R/tests; cat /proc/self/fd/5/expected",
		"another's descriptor":      "cat /proc/$PPID/fd/255",
		"runs it":                   "$R/tests/reference",
		"runs a copy of it":         "cp $R/tests/reference $R/app/r; $R/app/r",
		"as an interpreter":         "printf '#!$R/tests/reference\\n' > $R/app/i; chmod 755 $R/app/i; $R/app/i",
		"gives it to a shell":       "bash $R/tests/reference",
		"compiled":                  "cat $R/tests/__pycache__/x.pyc",
		"in a daemon":               "(setsid sh -c 'sleep 0.2; cat $R/tests/expected > $R/app/stolen' &); sleep 0.6; cat $R/app/stolen",
		"after its parent's end":    "bash -c '(sleep 0.1; cat $R/tests/expected > $R/app/stolen) &'; sleep 0.5; cat $R/app/stolen",
		"by a program that it made": "printf '#!/bin/sh\\ncat $R/tests/expected\\n' > /tmp/own-$$; sh /tmp/own-$$; rm /tmp/own-$$",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("app/answer", "#!/bin/bash\n"+program+" 2>/dev/null\n")
			b.write("tests/expected", "K-4471\n")
			b.write("tests/reference", "#!/bin/bash\necho K-4471\n")
			require.NoError(t, os.Mkdir(b.path("tests/__pycache__"), 0o755))
			b.write("tests/__pycache__/x.pyc", "K-4471\n")
			b.write("tests/test.sh", compares)
			out, seen := b.run()
			require.Contains(t, b.kinds(seen), sandbox.ActRead, out)
			require.Equal(t, "0\n", b.read("results/reward.txt"), out)
		})
	}
}

func TestSupervisor_HidesTestsFromProgramsOfOtherKinds(t *testing.T) {
	for name, c := range map[string]struct{ needs, agent, script string }{
		"started by a program of the tests": {"", "cat $R/tests/expected", "bash $R/tests/run.sh"},
		"read from standard input":          {"", "cat $R/tests/expected", "bash < $R/app/answer"},
		"a copy of it":                      {"", "cat $R/tests/expected", "cp $R/app/answer $R/copy && $R/copy"},
		"a copy made by a program":          {"python3", "cat $R/tests/expected", "python3 -c 'import shutil, subprocess; shutil.copy(\"$R/app/answer\", \"$R/other\"); subprocess.run([\"bash\", \"$R/other/answer\"])'"},
		"a script":                          {"python3", "print(open(\"$R/tests/expected\").read())", "python3 $R/app/answer"},
		"a script of a child":               {"python3", "print(open(\"$R/tests/expected\").read())", "python3 -c 'import subprocess; subprocess.run([\"python3\", \"$R/app/answer\"])'"},
		"a program that is made of it":      {"make", "all:\n\tcat $R/tests/expected", "make -s -f $R/app/answer"},
		"code that includes it":             {"gcc", "#include <stdio.h>\nint main(void) { char line[] = {\n#include \"$R/tests/number\"\n}; puts(line); }", "gcc -x c -o $R/prog $R/app/answer && $R/prog"},
		"code that is compiled":             {"gcc", "#include <stdio.h>\nint main(void) { char line[99] = \"\"; FILE *f = fopen(\"$R/tests/expected\", \"r\"); if (f) fgets(line, 99, f); puts(line); }", "gcc -w -x c -o $R/prog $R/app/answer && $R/prog"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.needs(strings.Fields(c.needs)...)
			require.NoError(t, os.Mkdir(b.path("other"), 0o755))
			b.write("app/answer", c.agent+"\n")
			b.write("tests/expected", "K-4471\n")
			b.write("tests/number", "75,45,0\n")
			b.write("tests/run.sh", "bash -c '. /dev/null; exec bash $R/app/answer'\n")
			b.write("tests/test.sh", "#!/bin/bash\n"+c.script+" > $R/out 2>/dev/null\ngrep -q K- $R/out && echo 1 > $R/results/reward.txt || echo 0 > $R/results/reward.txt\n")
			out, seen := b.run()
			require.Contains(t, b.kinds(seen), sandbox.ActRead, out)
			require.Equal(t, "0\n", b.read("results/reward.txt"), out)
		})
	}
}

func TestSupervisor_LetsTestsHandTheirFilesOver(t *testing.T) {
	const show = "cat \"${1:-/dev/stdin}\""
	for name, c := range map[string]struct{ needs, agent, script string }{
		"as an argument":                {"", show, "$R/app/answer $R/tests/in.txt"},
		"in an option":                  {"", "cat ${1#--file=}", "$R/app/answer --file=$R/tests/in.txt"},
		"from the tests' directory":     {"", show, "cd $R/tests && $R/app/answer in.txt"},
		"from the directory above":      {"", show, "cd $R && app/answer tests/in.txt"},
		"as an input":                   {"", show, "$R/app/answer < $R/tests/in.txt"},
		"as an input that is opened":    {"", "cat /dev/stdin /proc/self/fd/0", "$R/app/answer < $R/tests/in.txt"},
		"as a variable":                 {"", "cat $INPUT", "INPUT=$R/tests/in.txt $R/app/answer"},
		"as a directory":                {"", "cat $1/deep/in.txt", "$R/app/answer $R/tests/data"},
		"as the working directory":      {"", "cat deep/in.txt", "cd $R/tests/data && $R/app/answer"},
		"as a pattern":                  {"", "cat ${1%/*}/in.txt", "$R/app/answer '$R/tests/*.txt'"},
		"through a launcher":            {"", show, "timeout 10 env A=b $R/app/answer $R/tests/in.txt"},
		"to what it starts":             {"", "bash -c 'cat $0' $1", "$R/app/answer $R/tests/in.txt"},
		"to a daemon":                   {"", "(setsid sh -c \"sleep 0.1; cat $1 > $R/app/o\" &); sleep 0.4; cat $R/app/o", "$R/app/answer $R/tests/in.txt"},
		"by a link":                     {"", "cat $R/app/in.txt", "ln -s $R/tests/in.txt $R/app/in.txt; $R/app/answer"},
		"by a hard link":                {"", "cat $R/app/in.txt", "ln $R/tests/in.txt $R/app/in.txt; $R/app/answer"},
		"by a copy":                     {"", "cat $R/app/in.txt", "cp $R/tests/in.txt $R/app/in.txt; $R/app/answer"},
		"by many arguments":             {"", "shift 999; cat $1", "$R/app/answer $(seq 999) $R/tests/in.txt"},
		"by a program of the tests":     {"", show, "$R/tests/driver $R/app/answer"},
		"by a program of their program": {"python3", show, "python3 -c 'import subprocess; subprocess.run([\"bash\", \"$R/tests/driver\", \"$R/app/answer\"])'"},
		"after a daemon of theirs":      {"", "echo", "$R/app/answer $R/tests/in.txt; (cat $R/tests/in.txt &); (bash $R/tests/driver echo &); wait; sleep 0.3"},
		"to a script":                   {"python3", "import sys; print(open(sys.argv[1]).read())", "python3 $R/app/answer $R/tests/in.txt"},
		"to a compiler":                 {"gcc", "int answer(void) { return 42; }", "cp $R/app/answer $R/app/answer.c; gcc -o $R/tests/built $R/tests/main.c $R/app/answer.c && $R/tests/built"},
		"to a compiler of a program":    {"gcc python3", "int answer(void) { return 42; }", "cp $R/app/answer $R/app/answer.c; python3 -c 'import subprocess; subprocess.run([\"gcc\", \"-o\", \"$R/tests/built\", \"$R/tests/main.c\", \"$R/app/answer.c\"]); subprocess.run([\"$R/tests/built\"])'"},
		"to tests within the program":   {"make", "check:\n\t@sh own-test.sh", "cp $R/tests/own-test.sh $R/app; cd $R/app; cp answer Makefile; make -s check"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.needs(strings.Fields(c.needs)...)
			require.NoError(t, os.MkdirAll(b.path("tests/data/deep"), 0o755))
			first := "#!/bin/bash\n"
			if strings.Contains(c.needs, "gcc") || strings.Contains(c.needs, "make") {
				first = ""
			}
			b.write("app/answer", first+c.agent+"\n")
			b.write("tests/in.txt", "input\n")
			b.write("tests/data/deep/in.txt", "input\n")
			b.write("tests/driver", "#!/bin/bash\ncat $R/tests/in.txt > /dev/null\n$1 $R/tests/in.txt\n")
			b.write("tests/own-test.sh", "cat $R/tests/in.txt\n")
			b.write("tests/head.h", "char line[99];\n")
			b.write("tests/main.c", "#include <stdio.h>\n#include \"head.h\"\nint answer(void);\nint main(void) { FILE *f = fopen(\"$R/tests/in.txt\", \"r\"); fgets(line, 99, f); puts(line); return answer() != 42; }\n")
			b.write("tests/test.sh", "#!/bin/bash\n{ "+c.script+"\n} > $R/out\ngrep -q input $R/out && echo 1 > $R/results/reward.txt || echo 0 > $R/results/reward.txt\n")
			out, seen := b.run()
			require.Empty(t, seen.Acts, out)
			require.Equal(t, "1\n", b.read("results/reward.txt"), out)
		})
	}
}

func TestSupervisor_HandsNothingOverByChance(t *testing.T) {
	for name, c := range map[string]struct{ agent, script string }{
		"the directory of the tests": {"cat $1/expected", "$R/app/answer $R/tests"},
		"their working directory":    {"cat expected", "cd $R/tests && $R/app/answer"},
		"a file beside another":      {"cat ${1%/*}/expected", "$R/app/answer $R/tests/in.txt"},
		"the name of a test":         {"cat $R/tests/expected", "PYTEST_CURRENT_TEST=$R/tests/expected::test _=$R/tests/expected $R/app/answer"},
		"a link of the agent's":      {"cat $1", "$R/app/answer $R/app/planted"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("app/answer", "#!/bin/bash\n"+c.agent+" 2>/dev/null\n")
			b.write("tests/expected", "K-4471\n")
			b.write("tests/in.txt", "input\n")
			require.NoError(t, os.Symlink(b.path("tests/expected"), b.path("app/planted")))
			b.write("tests/test.sh", "#!/bin/bash\n[ \"$("+c.script+")\" = K-4471 ] && echo 1 > $R/results/reward.txt || echo 0 > $R/results/reward.txt\n")
			out, seen := b.run()
			require.Contains(t, b.kinds(seen), sandbox.ActRead, out)
			require.Equal(t, "0\n", b.read("results/reward.txt"), out)
		})
	}
}

func TestSupervisor_HidesTestsFromOtherSystemCalls(t *testing.T) {
	b := newBench(t)
	b.needs("gcc")
	b.compile("app/answer", `#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
static void put(const char *how, long fd) { if (fd >= 0) printf("%s\n", how); }
int main(void) {
	const char *name = "$R/tests/expected";
	unsigned long flags[3] = {0, 0, 0};
	int dir = open("$R/tests", O_RDONLY | O_DIRECTORY), above = open("$R", O_PATH | O_DIRECTORY);
	char memory[64], buf[8];
	struct iovec here = {buf, 8}, there = {(void *)&main, 8};
	put("open", syscall(SYS_open, name, O_RDONLY));
	put("openat", openat(dir, "expected", O_RDONLY));
	put("below", openat(above, "tests/../tests/./expected", O_RDONLY));
	put("openat2", syscall(437, AT_FDCWD, name, flags, sizeof flags));
	put("path", open(name, O_PATH));
	put("writing", open(name, O_RDWR));
	put("uring", syscall(425, 8, memory));
	put("link", link(name, "$R/app/hard") ? -1 : open("$R/app/hard", O_RDONLY));
	put("rename", rename(name, "$R/app/moved"));
	chroot("$R/tests") ? 0 : put("chroot", open("/expected", O_RDONLY));
	sprintf(memory, "/proc/%d/mem", getppid());
	put("memory", open(memory, O_RDONLY));
	put("vm", process_vm_readv(getppid(), &here, 1, &there, 1, 0) == 8 ? 0 : -1);
	return 0;
}
`)
	b.write("tests/expected", "K-4471\n")
	b.write("tests/test.sh", "#!/bin/bash\n$R/app/answer > $R/out\n")
	_, seen := b.run()
	require.Empty(t, b.read("out"))
	require.Subset(t, b.kinds(seen), []string{sandbox.ActRead, sandbox.ActTrace, sandbox.ActSealed})
}

func TestSupervisor_ListsFilesOfTheTestsThatTheProgramChanged(t *testing.T) {
	b := newBench(t)
	b.write("app/answer", "#!/bin/bash\necho no > $R/app/expected; rm $R/removed; echo x > $R/app/own; echo y >> $R/app/log; echo no\n")
	b.write("tests/expected", "K-4471\n")
	b.write("tests/test.sh", "#!/bin/bash\ncp $R/tests/expected $R/app/expected; cp $R/tests/expected $R/removed; $R/app/answer > $R/out; echo x >> $R/app/own; echo x >> $R/other\n")
	out, seen := b.run()
	require.Equal(t, []string{filepath.Join(b.root, "app/expected"), filepath.Join(b.root, "removed")}, seen.Changed, out)
	require.Empty(t, seen.Acts)
}

func TestSupervisor_LetsTestsBeReadWithoutThePolicy(t *testing.T) {
	b := newBench(t)
	b.readable = true
	b.write("app/answer", "#!/bin/bash\ncat $R/tests/expected\n")
	b.write("tests/expected", "K-4471\n")
	b.write("tests/test.sh", compares)
	out, seen := b.run()
	require.Empty(t, seen.Acts, out)
	require.Equal(t, "1\n", b.read("results/reward.txt"), out)
}

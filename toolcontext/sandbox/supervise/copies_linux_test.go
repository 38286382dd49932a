//go:build amd64 || arm64

package supervise

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestSupervisor_RefusesResultsFromFilesOfTheAgent(t *testing.T) {
	for name, script := range map[string]string{
		"copies a file":         "cp $R/app/out/reward.json $R/results/reward.json",
		"copies a pattern":      "cp $R/app/out/*.json $R/results/",
		"copies a directory":    "cp -r $R/app/out/. $R/results/",
		"moves a file":          "mv $R/app/out/reward.json $R/results/",
		"copies another name":   "cp $R/app/out/answer.json $R/results/reward.json",
		"a script as its input": "sed -n -f - < $R/app/out/script",
		"a command in a file":   "bash -c \"$(cat $R/app/out/command)\"",
		"data as its input":     "dd of=$R/results/reward.json < $R/app/out/answer.json 2> /dev/null",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			require.NoError(t, os.Mkdir(b.path("app/out"), 0o755))
			b.write("app/out/reward.json", "1\n")
			b.write("app/out/command", "echo 1 > $R/results/reward.json\n")
			b.write("app/out/answer.json", "1\n")
			b.write("app/out/script", "w $R/results/reward.json\n$!d\n")
			b.write("tests/test.sh", "#!/bin/bash\n"+script+"\necho 0 > $R/results/reward.txt\n")
			out, seen := b.run()
			require.Contains(t, b.kinds(seen), sandbox.ActResult, out)
			require.Contains(t, b.read("results/reward.json"), "no such file", out)
			require.Equal(t, "0\n", b.read("results/reward.txt"))
		})
	}
}

func TestSupervisor_LetsTestsCopyTheirOwnResults(t *testing.T) {
	for name, script := range map[string]string{
		"beside other files":    "echo 1 > $R/app/reward.txt; cp $R/app/answer $R/app/reward.txt $R/results/",
		"after other files":     "cp $R/app/answer $R/results/; echo 1 > $R/results/reward.txt",
		"from a pipe":           "cat $R/app/answer | sed -n 1p > /dev/null; echo 1 | dd of=$R/results/reward.txt 2> /dev/null",
		"a script of the tests": "bash $R/tests/score.sh < $R/app/answer",
		"a binary of the tests": "$R/tests/score.sh < $R/app/answer",
		"a command of its own":  "cat $R/app/answer > /dev/null; bash -c 'echo 1 > $R/results/reward.txt'",
		"a filter":              "sed -n 1p < $R/app/answer > $R/out; grep -q bash $R/out && echo 1 > $R/results/reward.txt",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("app/answer", "#!/bin/bash\necho 41\n")
			b.write("tests/score.sh", "#!/bin/bash\ngrep -q echo && echo 1 > $R/results/reward.txt\n")
			b.write("tests/test.sh", "#!/bin/bash\n"+script+"\n")
			out, seen := b.run()
			require.Equal(t, "1\n", b.read("results/reward.txt"), out)
			require.Empty(t, seen.Acts)
		})
	}
}

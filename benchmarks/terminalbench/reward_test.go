package terminalbench

import (
	"archive/tar"
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyAFiniteNumberIsAReward(t *testing.T) {
	for name, test := range map[string]struct {
		text, json *string
		value      float64
		file       string
		class      string
	}{
		"one":                              {text: p("1\n"), value: 1, file: "reward.txt"},
		"zero with spaces":                 {text: p(" 0 \n\n"), value: 0, file: "reward.txt"},
		"a fraction":                       {text: p("0.25"), value: 0.25, file: "reward.txt"},
		"an exponent":                      {text: p("1e-1"), value: 0.1, file: "reward.txt"},
		"negative":                         {text: p("-1"), value: -1, file: "reward.txt"},
		"not a number":                     {text: p("NaN"), class: classBadReward},
		"infinite":                         {text: p("inf"), class: classBadReward},
		"too large":                        {text: p("1e999"), class: classBadReward},
		"hexadecimal":                      {text: p("0x1p0"), class: classBadReward},
		"underscores":                      {text: p("1_0"), class: classBadReward},
		"words":                            {text: p("passed"), class: classBadReward},
		"two numbers":                      {text: p("1 0"), class: classBadReward},
		"empty":                            {text: p(" \n"), class: classEmptyReward},
		"no file":                          {class: classNoReward},
		"a number in JSON":                 {json: p("0.5"), value: 0.5, file: "reward.json"},
		"an object":                        {json: p(`{"reward": 0.75, "style": 1}`), value: 0.75, file: "reward.json"},
		"an object without reward":         {json: p(`{"a": 1, "b": 0}`), value: 0.5, file: "reward.json"},
		"an object with one number":        {json: p(`{"accuracy": 0.3}`), value: 0.3, file: "reward.json"},
		"JSON goes before text":            {json: p(`1`), text: p("0"), value: 1, file: "reward.json"},
		"empty JSON gives way to text":     {json: p(" "), text: p("1"), value: 1, file: "reward.txt"},
		"broken JSON does not":             {json: p("{"), text: p("1"), class: classBadReward},
		"empty JSON alone":                 {json: p(""), class: classEmptyReward},
		"text in JSON":                     {json: p(`"1"`), class: classBadReward},
		"null in JSON":                     {json: p(`null`), class: classBadReward},
		"true in JSON":                     {json: p(`true`), class: classBadReward},
		"a list in JSON":                   {json: p(`[1]`), class: classBadReward},
		"an object of other things":        {json: p(`{"reward": "1"}`), class: classBadReward},
		"an empty object":                  {json: p(`{}`), class: classBadReward},
		"a number in JSON that's too high": {json: p(`1e999`), class: classBadReward},
	} {
		t.Run(name, func(t *testing.T) {
			var f verifierFiles
			if test.text != nil {
				f.rewardText, f.hasText = []byte(*test.text), true
			}
			if test.json != nil {
				f.rewardJSON, f.hasJSON = []byte(*test.json), true
			}
			r, err := f.parse()
			if test.class != "" {
				var bad *rewardError
				require.True(t, errors.As(err, &bad), "%v", err)
				require.Equal(t, test.class, bad.class)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.value, r.value)
			require.Equal(t, test.file, r.file)
		})
	}
}

func p(s string) *string { return &s }

func TestOnlyRegularFilesOfTheDirectoryItselfCount(t *testing.T) {
	for name, h := range map[string]*tar.Header{
		"a link":          {Typeflag: tar.TypeSymlink, Name: "verifier/reward.txt", Linkname: "/tmp/planted"},
		"a directory":     {Typeflag: tar.TypeDir, Name: "verifier/reward.txt/"},
		"a hard link":     {Typeflag: tar.TypeLink, Name: "verifier/reward.json", Linkname: "verifier/x"},
		"a huge file":     {Typeflag: tar.TypeReg, Name: "verifier/reward.txt", Size: maxRewardBytes + 1},
		"further below":   {Typeflag: tar.TypeReg, Name: "verifier/sub/reward.txt", Size: 1},
		"another name":    {Typeflag: tar.TypeReg, Name: "verifier/reward.txt.bak", Size: 1},
		"another folder":  {Typeflag: tar.TypeReg, Name: "reward.txt", Size: 1},
		"dots in the way": {Typeflag: tar.TypeReg, Name: "verifier/../reward.txt", Size: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var f verifierFiles
			require.NoError(t, f.take(h, strings.NewReader("1")))
			_, err := f.parse()
			require.Error(t, err)
		})
	}
	var f verifierFiles
	require.NoError(t, f.take(&tar.Header{Typeflag: tar.TypeReg, Name: "verifier/reward.txt", Size: 1}, strings.NewReader("1")))
	r, err := f.parse()
	require.NoError(t, err)
	require.Equal(t, 1.0, r.value)
}

func FuzzARewardIsFiniteOrAnErrorWithAName(f *testing.F) {
	f.Add([]byte("1"), []byte(`{"reward":1}`), true, true)
	f.Add([]byte("nan"), []byte(`[]`), true, false)
	f.Add([]byte{0xff}, []byte(`{"a":1e400}`), false, true)
	f.Fuzz(func(t *testing.T, text, json []byte, hasText, hasJSON bool) {
		v := verifierFiles{rewardText: text, rewardJSON: json, hasText: hasText, hasJSON: hasJSON}
		r, err := v.parse()
		if err != nil {
			var named *rewardError
			require.True(t, errors.As(err, &named))
			require.NotEmpty(t, named.class)
			return
		}
		require.False(t, math.IsNaN(r.value) || math.IsInf(r.value, 0))
		require.NotEmpty(t, r.file)
	})
}

func TestSetupFailuresAreToldFromWrongAnswers(t *testing.T) {
	failed := map[string]string{
		"no names for curl":      "curl: (6) Could not resolve host: astral.sh\n/tests/test.sh: line 9: /root/.local/bin/env: No such file or directory\n/tests/test.sh: line 20: uvx: command not found\n",
		"uvx is missing":         "/tests/test.sh: line 20: uvx: command not found\n",
		"uvx is missing in dash": "/tests/test.sh: 20: uvx: not found\n",
		"apt without names":      "Err:1 http://deb.debian.org/debian bookworm InRelease\n  Temporary failure resolving 'deb.debian.org'\nE: Unable to locate package curl\n",
		"uv without network":     "error: Failed to fetch: `https://pypi.org/simple/pytest/`\n  Caused by: Request failed after 3 retries\n  Caused by: dns error: failed to lookup address information\n",
		"the python download":    "error: Failed to download https://github.com/astral-sh/python-build-standalone/releases/x.tar.gz\n  Caused by: operation timed out\n",
		"pip without pytest":     "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken\nERROR: No matching distribution found for pytest==8.4.1\n",
		"no curl":                "/tests/test.sh: line 5: curl: command not found\n",
	}
	for name, output := range failed {
		require.NotEmpty(t, setupFailure(output), name)
	}
	verdicts := map[string]string{
		"a failed test":                     "collected 3 items\n\ntests/test_outputs.py F..\n=== 1 failed, 2 passed in 0.10s ===\n",
		"a test that shows curl's words":    "=========== short test summary info ============\nFAILED tests/test_outputs.py::test_server - AssertionError: curl: (7) Failed to connect\n=== 1 failed in 2.00s ===\n",
		"a test of a server of the agent's": "curl: (7) Failed to connect to localhost port 8080 after 0 ms: Couldn't connect to server\nFAILED: no server\n",
		"a wrong file":                      "FAILED: /app/out.txt was not found\n",
		"a program of the agent's":          "/app/run.sh: line 3: frobnicate: command not found\nAssertionError\n",
		"nothing":                           "",
		"words about networks":              "expected 'Temporary failure resolving' in the answer\n",
		"an agent's error":                  "error: could not compile `app`\n",
	}
	for name, output := range verdicts {
		require.Empty(t, setupFailure(output), name)
	}
}

func TestTheEndAndTheBeginningOfLongOutputAreKept(t *testing.T) {
	o := outputOf(bytes.Repeat([]byte("x"), 3*outputBytes))
	text, cut := cutOutput(o)
	require.True(t, cut)
	require.Less(t, len(text), outputBytes+200)
	text, cut = cutOutput(outputOf([]byte("ok \xff\n")))
	require.False(t, cut)
	require.Equal(t, "ok \uFFFD\n", text)
}

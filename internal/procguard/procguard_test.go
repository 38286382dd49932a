package procguard

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// childVariable makes this test binary protect itself and print what is left.
const childVariable = "PROCGUARD_TEST_CHILD"

func isSecret(flag string) bool { return flag == "key" }

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	before := strings.Join(os.Environ(), "\n")
	if err := Protect(isSecret); err != nil {
		println(err.Error())
		os.Exit(1)
	}
	if strings.Join(os.Environ(), "\n") != before || os.Getenv("SECRET") == "" {
		println("the program lost its environment")
		os.Exit(1)
	}
	command := exec.Command("/bin/sh", "-c", `tr '\0' '\n' </proc/$PPID/environ; echo; tr '\0' ' ' </proc/$PPID/cmdline`)
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	command.Stdout = os.Stdout
	_ = command.Run() // as a user without rights it fails, and shows nothing
	println(strings.Join(os.Args[1:], " "))
	os.Exit(0)
}

func TestProtect_ErasesWhatOthersSeeAndKeepsItForTheProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only for Linux")
	}
	for name, args := range map[string][]string{
		"plain":                {"evaluate", "--key", "sk-1", "--key=sk-2", "--name=public"},
		"an empty last one":    {"--key=sk-1", "public", ""},
		"a flag without value": {"public", "--key"},
		"none":                 nil,
	} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command(os.Args[0], args...)
			c.Env = append(os.Environ(), childVariable+"=1", "SECRET=sk-3", "SECRET=sk-4", "LONG="+strings.Repeat("sk-", 30_000), "EMPTY=")
			var errors strings.Builder
			c.Stderr = &errors
			shown, err := c.Output()
			require.NoError(t, err, errors.String())
			require.NotContains(t, string(shown), "sk-")
			require.Equal(t, strings.Join(args, " ")+"\n", errors.String(), "os.Args is whole")
		})
	}
}

func TestSecretParts_AreTheValuesOfSecretFlags(t *testing.T) {
	require.Equal(t, []string{"a", "b", "--x"}, secretParts([]string{"key", "--key", "a", "--key=b", "-key=", "--other", "c", "--key", "--x", "--key"}, isSecret))
}

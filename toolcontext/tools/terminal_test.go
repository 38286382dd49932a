package tools_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

func TestTerminalResultsHaveTheShapeModelsKnow(t *testing.T) {
	r := newRollout(t, tools.Options{})
	for _, c := range []struct{ name, arguments, want string }{
		{"success", `{"command":"echo hi"}`, `{"output":"hi","exit_code":0,"error":null}`},
		{"failure", `{"command":"echo no >&2; exit 3"}`, `{"output":"no","exit_code":3,"error":null}`},
		{"both streams in order", `{"command":"echo a; echo b >&2; echo c"}`, `{"output":"a\nb\nc","exit_code":0,"error":null}`},
		{"markup is not escaped", `{"command":"echo '<b>&'"}`, `{"output":"<b>&","exit_code":0,"error":null}`},
		{"escapes are stripped", `{"command":"printf '\\033[1;31mred\\033[0m \\033]0;title\\007end'"}`, `{"output":"red end","exit_code":0,"error":null}`},
		{"no matches", `{"command":"A=1 /bin/grep x /dev/null"}`, `{"output":"","exit_code":1,"error":null,"exit_code_meaning":"No matches found (not an error)"}`},
		{"a quoted pipe is no pipe", `{"command":"sh -c 'exit 1' 'x | grep y'"}`, `{"output":"","exit_code":1,"error":null}`},
		{"the last of a pipe counts", `{"command":"echo a | grep b"}`, `{"output":"","exit_code":1,"error":null,"exit_code_meaning":"No matches found (not an error)"}`},
		{"no command", `{}`, `{"output":"","exit_code":-1,"error":"Invalid command: expected string, got null","status":"error"}`},
		{"a command of another type", `{"command":["ls"]}`, `{"output":"","exit_code":-1,"error":"Invalid command: expected string, got array","status":"error"}`},
		{"a NUL in the command", `{"command":"a\u0000b"}`, `{"output":"","exit_code":-1,"error":"Invalid command: it contains a NUL character","status":"error"}`},
		{"a timeout that is too long", `{"command":"true","timeout":601}`, `{"error":"timeout 601s is more than the 600s allowed for a foreground command; use a smaller timeout or split the work"}`},
		{"a timeout of zero", `{"command":"true","timeout":0}`, `{"error":"invalid timeout: 0; give at least 1 second"}`},
		{"a timeout sent as text", `{"command":"echo hi","timeout":"5"}`, `{"output":"hi","exit_code":0,"error":null}`},
		{"a timeout that is no number", `{"command":"true","timeout":"soon"}`, `{"error":"invalid timeout: expected integer, got string"}`},
		{"a forbidden workdir", `{"command":"true","workdir":"/tmp;id"}`, `{"output":"","exit_code":-1,"error":"workdir \"/tmp;id\" contains characters that are not allowed; cd inside the command instead","status":"blocked"}`},
		{"a workdir", `{"command":"pwd","workdir":"/usr"}`, `{"output":"/usr","exit_code":0,"error":null}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, r.call("terminal", c.arguments))
		})
	}
}

func TestTerminalKeepsDirectoryAndExportsButAWorkdirIsForOneCommand(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.do("terminal", "command", "mkdir -p 'a b' && cd 'a b' && export GREETING='hi there'")
	require.Equal(t, "hi there "+r.path("a b"), r.do("terminal", "command", `echo "$GREETING $PWD"`).Get("output").String())
	r.do("terminal", "command", "true", "workdir", "/usr")
	require.Equal(t, r.path("a b"), r.do("terminal", "command", "pwd").Get("output").String())
}

func TestTerminalSaysWhenACommandTimedOutAndKeepsItsOutput(t *testing.T) {
	r := newRollout(t, tools.Options{})
	require.Equal(t, `{"output":"partial\n[Command timed out after 1s]","exit_code":124,"error":null}`,
		r.call("terminal", `{"command":"echo partial; sleep 60","timeout":1}`))
	require.Equal(t, "", r.do("terminal", "command", "exit 124").Get("output").String())
}

func TestTerminalSaysWhenACommandWasInterrupted(t *testing.T) {
	r := newRollout(t, tools.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for i := 0; i < 500; i++ {
			if ok, _ := r.box.Exec(context.Background(), sandbox.Command{Args: []string{"test", "-e", r.path("started")}}); ok.ExitCode == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	result, err := r.registry.Call(ctx, r.state, "terminal", []byte(`{"command":"echo partial; touch started; sleep 60"}`))
	require.NoError(t, err)
	require.Equal(t, `{"output":"partial\n[Command interrupted]","exit_code":130,"error":null}`, result)
}

func TestTerminalKeepsHeadAndTailOfLongOutput(t *testing.T) {
	r := newRollout(t, tools.Options{})
	for _, c := range []struct {
		name, letter string
		count        int
	}{{"just over the limit", "x", 50_001}, {"ten times", "x", 500_000}, {"many bytes per character", "語", 60_000}} {
		t.Run(c.name, func(t *testing.T) {
			r.put("long", "BEGIN"+strings.Repeat(c.letter, c.count)+"END")
			output := r.do("terminal", "command", "cat long").Get("output").String()
			require.True(t, utf8.ValidString(output) && !strings.ContainsRune(output, utf8.RuneError))
			total := c.count + 8
			notice := fmt.Sprintf("\n\n... [OUTPUT TRUNCATED - %d chars omitted out of %d total] ...\n\n", total-50_000, total)
			head, tail, ok := strings.Cut(output, notice)
			require.True(t, ok, "want the notice %q in %d characters", notice, utf8.RuneCountInString(output))
			require.Equal(t, 20_000, utf8.RuneCountInString(head))
			require.Equal(t, 30_000, utf8.RuneCountInString(tail))
			require.True(t, strings.HasPrefix(head, "BEGIN") && strings.HasSuffix(tail, "END"))
		})
	}
	r.put("exact", strings.Repeat("y", 50_000))
	require.Equal(t, 50_000, len(r.do("terminal", "command", "cat exact").Get("output").String()))
}

func TestTerminalRefusesLongLivedCommandsOnlyWhenAsked(t *testing.T) {
	strict, lenient := newRollout(t, tools.Options{RefuseLongLived: true}), newRollout(t, tools.Options{})
	for command, refused := range map[string]bool{
		"nohup sleep 0":                   true,
		"sleep 0 &":                       true,
		"sleep 0 & echo x":                true,
		"echo 'a & b'":                    false,
		"true && echo ok":                 false,
		"echo x 2>&1":                     false,
		"python3 -m http.server --help":   false,
		"cd / && python3 -m http.server":  true,
		"npm run dev":                     true,
		"echo uvicorn":                    true,
		"echo 'npm run dev'":              false,
		"docker compose up":               true,
		"for i in 1; do nohup true; done": true,
	} {
		result := strict.do("terminal", "command", command, "timeout", 20)
		require.Equal(t, refused, result.Get("status").String() == "error", command)
	}
	require.EqualValues(t, 0, lenient.do("terminal", "command", "echo uvicorn").Get("exit_code").Int())
}

func TestTerminalNeverRepeatsACommandWhoseSandboxFailed(t *testing.T) {
	lost := &broken{}
	state := tools.NewState(func(context.Context) (sandbox.Sandbox, error) { return lost, nil }, tools.Options{})
	_, err := builtin(t).Call(context.Background(), state, "terminal", []byte(`{"command":"echo once"}`))
	var infrastructure *tools.InfrastructureError
	require.ErrorAs(t, err, &infrastructure)
	require.ErrorContains(t, err, "connection lost")
	require.Equal(t, 1, lost.execs)
}

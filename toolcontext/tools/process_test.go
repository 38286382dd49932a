package tools_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// patience bounds the wait for something that is going to happen.
const patience = 30 * time.Second

// background starts a command and returns its id.
func (r *rollout) background(command string, arguments ...any) string {
	r.t.Helper()
	result := r.do("terminal", append([]any{"command", command, "background", true}, arguments...)...)
	require.Equal(r.t, "Background process started", result.Get("output").String(), result.Raw)
	return result.Get("session_id").String()
}

func (r *rollout) process(action, id string, arguments ...any) gjson.Result {
	r.t.Helper()
	return r.do("process", append([]any{"action", action, "session_id", id}, arguments...)...)
}

// says waits until a process has written text.
func (r *rollout) says(id, text string) gjson.Result {
	r.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		v := r.process("poll", id)
		if strings.Contains(v.Get("output_preview").String(), text) {
			return v
		}
		require.True(r.t, v.Get("status").String() == "running" && time.Now().Before(end), "no %q in %s", text, v.Raw)
	}
}

// scrubbed replaces what differs from run to run.
func scrubbed(v gjson.Result) string {
	text := v.Raw
	for _, field := range []string{"session_id", "pid", "started_at", "exited_at", "uptime_seconds", "cwd"} {
		v.ForEach(func(key, value gjson.Result) bool {
			if key.Str == field {
				text = strings.Replace(text, fmt.Sprintf("%q:%s", field, value.Raw), fmt.Sprintf("%q:_", field), 1)
			}
			return true
		})
	}
	return text
}

func TestABackgroundProcessIsStartedPolledWaitedForAndListed(t *testing.T) {
	r := newRollout(t, tools.Options{})
	require.Equal(t, `{"processes":[]}`, r.call("process", `{"action":"list"}`))
	command := "echo begun; while [ ! -e go ]; do sleep 0.01; done; echo problem >&2; exit 3"
	started := r.do("terminal", "command", command, "background", true, "timeout", 100000)
	require.Equal(t, `{"output":"Background process started","session_id":_,"pid":_,"exit_code":0,"error":null,"hint":`+started.Get("hint").Raw+`}`, scrubbed(started))
	id := started.Get("session_id").String()
	require.Regexp(t, "^proc_[0-9a-f]{12}$", id)
	require.Positive(t, started.Get("pid").Int())

	require.Equal(t, `{"session_id":_,"command":"`+command+`","status":"running","pid":_,"uptime_seconds":_,"output_preview":"begun\n"}`, scrubbed(r.says(id, "begun")))
	listed := r.do("process", "action", "list").Get("processes")
	require.Len(t, listed.Array(), 1)
	require.Equal(t, `{"session_id":_,"command":"`+command+`","cwd":_,"pid":_,"started_at":_,"uptime_seconds":_,"status":"running","output_preview":"begun\n"}`, scrubbed(listed.Array()[0]))
	require.Equal(t, r.box.Info().Dir, listed.Array()[0].Get("cwd").String())

	timedOut := r.process("wait", id, "timeout", 1)
	require.Equal(t, `{"status":"timeout","session_id":_,"command":"`+command+`","output":"begun\n","process_running":true,"timeout_note":"Waited 1s, the process is still running"}`, scrubbed(timedOut))
	r.put("go", "")
	ended := `{"status":"exited","session_id":_,"command":"` + command + `","exit_code":3,"completion_reason":"exited","output":"begun\nproblem\n"}`
	for range 2 {
		require.Equal(t, ended, scrubbed(r.process("wait", id)))
	}
	require.Equal(t, `{"session_id":_,"command":"`+command+`","status":"exited","pid":_,"uptime_seconds":_,"output_preview":"begun\nproblem\n","exit_code":3,"completion_reason":"exited"}`, scrubbed(r.process("poll", id)))
	listed = r.do("process", "action", "list").Get("processes.0")
	require.EqualValues(t, 3, listed.Get("exit_code").Int())
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, listed.Get("exited_at").String())
	for _, action := range []string{"kill", "close", "submit"} {
		v := r.process(action, id)
		require.Equal(t, "already_exited", v.Get("status").String(), action)
		require.EqualValues(t, 3, v.Get("exit_code").Int(), action)
	}
}

func TestAKillEndsAProcessWithAllItStarted(t *testing.T) {
	r := newRollout(t, tools.Options{})
	id := r.background("sh -c 'echo $$ > child; exec sleep 600' & while [ ! -s child ]; do sleep 0.01; done; echo ready; sleep 600")
	other := r.background("sleep 600")
	r.says(id, "ready")
	require.Equal(t, `{"status":"killed","session_id":_,"completion_reason":"killed","termination_source":"process.kill","output":"ready\n"}`, scrubbed(r.process("kill", id)))
	// What is left of it may be a zombie that nobody has taken notice of yet.
	alive := r.do("terminal", "command", "ps -o stat= -p $(cat child) | grep -v Z")
	require.EqualValues(t, 1, alive.Get("exit_code").Int(), alive.Raw)
	v := r.process("poll", id)
	require.EqualValues(t, -15, v.Get("exit_code").Int())
	require.Equal(t, "killed process.kill", v.Get("completion_reason").String()+" "+v.Get("termination_source").String())
	again := r.process("kill", id)
	require.Equal(t, "already_exited -15", again.Get("status").String()+" "+again.Get("exit_code").Raw)
	require.Equal(t, "running", r.process("poll", other).Get("status").String())
}

func TestInputReachesAProcessUntilItIsClosed(t *testing.T) {
	r := newRollout(t, tools.Options{})
	id := r.background("cat; echo end")
	require.Equal(t, `{"status":"ok","bytes_written":4}`, r.process("write", id, "data", "é 1").Raw)
	require.Equal(t, `{"status":"ok","bytes_written":2}`, r.process("submit", id, "data", 7).Raw)
	require.Equal(t, `{"status":"ok","bytes_written":1}`, r.process("submit", id).Raw)
	require.Equal(t, `{"status":"ok","message":"stdin closed"}`, r.process("close", id).Raw)
	require.Equal(t, "é 17\n\nend\n", r.process("wait", id).Get("output").String())
	require.Equal(t, "already_exited", r.process("write", id, "data", "x").Get("status").String())

	id = r.background("sleep 600")
	require.Equal(t, `{"status":"ok","message":"stdin closed"}`, r.process("close", id).Raw)
	require.Equal(t, `{"status":"error","error":"the input of the process is closed","bytes_written":0}`, r.process("write", id, "data", "x").Raw)
	require.Equal(t, `{"error":"data is required for write"}`, r.process("write", id).Raw)
}

func TestAPseudoTerminalIsOneWhereTheSandboxHasThem(t *testing.T) {
	r := newRollout(t, tools.Options{})
	id := r.background(`[ -t 0 ] && [ -t 1 ] && echo "all $PAGER $TERM"; read line; echo "got $line"; cat; echo after`, "pty", true)
	r.says(id, "all cat dumb\n")
	require.Equal(t, `{"status":"ok","bytes_written":5}`, r.process("submit", id, "data", "word").Raw)
	r.says(id, "got word\n")
	require.Equal(t, `{"status":"ok","message":"EOF sent"}`, r.process("close", id).Raw)
	v := r.process("wait", id)
	require.EqualValues(t, 0, v.Get("exit_code").Int())
	require.Contains(t, v.Get("output").String(), "after\n")
	require.NotContains(t, v.Get("output").String(), "\r")

	foreground := r.do("terminal", "command", "[ -t 1 ] || echo none", "pty", true)
	require.Equal(t, "none", foreground.Get("output").String())
	require.Contains(t, foreground.Get("pty_note").String(), "background=true")
}

func TestAProcessIsFoundByAnyUniqueBeginningOfItsID(t *testing.T) {
	r := newRollout(t, tools.Options{})
	var ids []string
	for range 17 { // two begin with the same digit
		ids = append(ids, r.background("true"))
	}
	byDigit := map[byte]int{}
	for _, id := range ids {
		byDigit[id[len("proc_")]]++
		require.Equal(t, id, r.process("poll", id[len("proc_"):]).Get("session_id").String())
		require.Equal(t, id, r.process("poll", " "+id[:len(id)-1]).Get("session_id").String())
	}
	for digit, n := range byDigit {
		v := r.process("poll", "proc_"+string(digit))
		if n > 1 {
			require.Equal(t, "not_found", v.Get("status").String())
			require.Contains(t, v.Get("error").String(), "ambiguous")
		} else {
			require.Equal(t, "exited", r.process("wait", string(digit)).Get("status").String())
		}
	}
	for name, c := range map[string]struct{ arguments, want string }{
		"an unknown id":       {`{"action":"poll","session_id":"proc_xyz"}`, `{"status":"not_found","error":"No process with ID proc_xyz"}`},
		"only the mark":       {`{"action":"kill","session_id":"proc_"}`, `{"status":"not_found","error":"No process with ID proc_"}`},
		"no id":               {`{"action":"wait"}`, `{"error":"session_id is required for wait"}`},
		"no action":           {`{}`, `{"error":"missing required argument: action. Use one of: list, poll, log, wait, kill, write, submit, close"}`},
		"an unknown action":   {`{"action":"handoff"}`, `{"error":"Unknown process action: handoff. Use one of: list, poll, log, wait, kill, write, submit, close"}`},
		"an action of a type": {`{"action":1}`, `{"error":"invalid action: expected string, got number"}`},
		"a wait of nothing":   {`{"action":"wait","timeout":0,"session_id":"` + ids[0] + `"}`, `{"error":"invalid timeout: 0; give at least 1 second"}`},
		"a wait of text":      {`{"action":"wait","timeout":"x","session_id":"` + ids[0] + `"}`, `{"error":"invalid timeout: expected integer, got string"}`},
		"an offset of text":   {`{"action":"log","offset":"x","session_id":"` + ids[0] + `"}`, `{"error":"invalid offset: expected integer, got string"}`},
		"a limit of text":     {`{"action":"log","limit":"x","session_id":"` + ids[0] + `"}`, `{"error":"invalid limit: expected integer, got string"}`},
	} {
		require.Equal(t, c.want, r.call("process_manage", c.arguments), name)
	}
}

func TestTheLogShowsLines(t *testing.T) {
	r := newRollout(t, tools.Options{})
	id := r.background("seq 1 300; printf '\\033[31mred\\033[0m'")
	r.process("wait", id)
	numbers := func(from, to int) string {
		var lines []string
		for i := from; i <= to; i++ {
			lines = append(lines, strconv.Itoa(i))
		}
		return strings.Join(lines, "\n")
	}
	for _, c := range []struct {
		name      string
		arguments []any
		want      string
		showing   string
	}{
		{"the last 200", nil, numbers(102, 300) + "\nred", "200 lines"},
		{"the last few", []any{"limit", 2}, "300\nred", "2 lines"},
		{"the head", []any{"offset", 0, "limit", 2}, "1\n2", "2 lines"},
		{"a page", []any{"offset", 298, "limit", 500}, "299\n300\nred", "3 lines"},
		{"behind the end", []any{"offset", 1000}, "", "0 lines"},
		{"a negative offset", []any{"offset", -5, "limit", 1}, "1", "1 lines"},
		{"a negative limit", []any{"limit", -5}, "red", "1 lines"},
	} {
		v := r.process("log", id, c.arguments...)
		require.Equal(t, c.want, v.Get("output").String(), c.name)
		require.Equal(t, c.showing, v.Get("showing").String(), c.name)
		require.EqualValues(t, 301, v.Get("total_lines").Int(), c.name)
		require.False(t, v.Get("truncated").Exists(), c.name)
	}
	empty := r.background("true")
	r.process("wait", empty)
	require.Equal(t, `{"session_id":_,"command":"true","status":"exited","output":"","total_lines":0,"showing":"0 lines"}`, scrubbed(r.process("log", empty)))
}

func TestOnlyTheEndOfLongOutputIsKept(t *testing.T) {
	r := newRollout(t, tools.Options{})
	for name, letter := range map[string]string{"one byte": "x", "four bytes": "😀"} {
		r.put("long", "BEGIN"+strings.Repeat(letter, 3_000_000/len(letter))+"END\n")
		id := r.background("cat long")
		r.process("wait", id)
		v := r.process("log", id)
		output := v.Get("output").String()
		require.True(t, v.Get("truncated").Bool(), name)
		require.Equal(t, strings.Repeat(letter, 200_000-4)+"END", output, name)
	}
}

func TestABackgroundProcessStartsWhereTheSessionIs(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.do("terminal", "command", "mkdir -p 'a b'\nmkdir other\ncd 'a b'\nexport GREETING='hi\n  there' TERM=vt100\nunexported=1")
	id := r.background(`printf '%s|%s|%s|%s' "$PWD" "$GREETING" "$unexported" "$PYTHONUNBUFFERED"`)
	require.Equal(t, r.path("a b")+"|hi\n  there||1", r.process("wait", id).Get("output").String())
	id = r.background(`printf '%s|%s' "$PWD" "$GREETING"; cd /; export GREETING=bye`, "workdir", r.path("other"))
	require.Equal(t, r.path("other")+"|hi\n  there", r.process("wait", id).Get("output").String())
	require.Equal(t, r.path("a b")+" hi\n  there", r.do("terminal", "command", `echo "$PWD $GREETING"`).Get("output").String(), "the session is as it was")

	v := r.do("terminal", "command", "true", "background", true, "workdir", "/no/such/directory")
	require.EqualValues(t, -1, v.Get("exit_code").Int())
	require.Regexp(t, "^Failed to start background process: .*/no/such/directory", v.Get("error").String())
	require.Equal(t, "blocked", r.do("terminal", "command", "true", "background", true, "workdir", "/tmp;id").Get("status").String())
	require.Contains(t, r.do("terminal", "command", "true", "background", []int{1}).Get("error").String(), "invalid background")
	require.Contains(t, r.do("terminal", "command", "true", "background", true, "pty", []int{1}).Get("error").String(), "invalid pty")
}

func TestNobodyIsNotifiedAndTheModelIsToldSo(t *testing.T) {
	r := newRollout(t, tools.Options{})
	for argument, asks := range map[string]bool{
		`"notify_on_complete":true`: true, `"notify_on_complete":"true"`: true, `"watch_patterns":["x"]`: true, `"notify":{"on":"exit"}`: true,
		`"notify_on_complete":false`: false, `"watch_patterns":[]`: false, `"watch_patterns":null`: false, `"notify":"false"`: false,
	} {
		v := gjson.Parse(r.call("terminal", `{"command":"true","background":true,`+argument+`}`))
		require.Equal(t, "Background process started", v.Get("output").String(), argument)
		require.Equal(t, asks, v.Get("notify_unsupported").Exists(), argument)
		require.Equal(t, asks, v.Get("notify_on_complete").Raw == "false", argument)
		require.Equal(t, asks, !v.Get("hint").Exists(), argument)
	}
}

func TestNoMoreThan64ProcessesAreTracked(t *testing.T) {
	slowtest.Require(t)
	r := newRollout(t, tools.Options{})
	first := r.background("true")
	r.process("wait", first)
	for range 62 {
		r.background("sleep 600")
	}
	last := r.background("true")
	r.process("wait", last)
	r.background("sleep 600")
	require.Equal(t, "not_found", r.process("poll", first).Get("status").String(), "the oldest that has ended makes way")
	require.Equal(t, "exited", r.process("poll", last).Get("status").String())
	r.background("sleep 600")
	v := r.do("terminal", "command", "touch ran", "background", true)
	require.Equal(t, "Failed to start background process: 64 background processes are running, and no more are taken; end some with the process tool", v.Get("error").String())
	require.NoFileExists(t, r.path("ran"))
	require.Len(t, r.do("process", "action", "list").Get("processes").Array(), 64)
}

func TestAWaitIsNeverLongerThanTheTerminalsTimeoutAndEndsWithItsContext(t *testing.T) {
	r := newRollout(t, tools.Options{TerminalTimeout: time.Second})
	id := r.background("echo x; sleep 600")
	v := r.process("wait", id, "timeout", 900)
	require.Equal(t, "timeout", v.Get("status").String())
	require.Equal(t, "Requested wait of 900s was clamped to the limit of 1s; the process is still running", v.Get("timeout_note").String())
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	result, err := r.registry.Call(ctx, r.state, "process", []byte(`{"action":"wait","session_id":"`+id+`"}`))
	require.NoError(t, err)
	require.Equal(t, `{"status":"interrupted","session_id":_,"command":"echo x; sleep 600","output":"x\n","process_running":true}`, scrubbed(gjson.Parse(result)))
	result, err = r.registry.Call(ctx, r.state, "terminal", []byte(`{"command":"touch ran","background":true}`))
	require.NoError(t, err)
	require.EqualValues(t, -1, gjson.Get(result, "exit_code").Int(), result)
	require.NoFileExists(t, r.path("ran"))
}

func TestASandboxThatFailsIsInfrastructureForProcessesToo(t *testing.T) {
	r := newRollout(t, tools.Options{})
	id := r.background("sleep 600")
	require.NoError(t, r.box.Close(context.Background()))
	for _, action := range []string{"list", "poll", "log", "wait", "kill", "write", "close"} {
		_, err := r.registry.Call(context.Background(), r.state, "process", []byte(`{"action":"`+action+`","data":"x","session_id":"`+id+`"}`))
		var infrastructure *tools.InfrastructureError
		require.ErrorAs(t, err, &infrastructure, action)
		require.ErrorIs(t, err, sandbox.ErrClosed, action)
	}
	_, err := r.registry.Call(context.Background(), r.state, "terminal", []byte(`{"command":"true","background":true}`))
	require.ErrorIs(t, err, sandbox.ErrClosed)
}

// starter is a sandbox whose background processes fail to start in a way of its own.
type starter struct {
	sandbox.Sandbox
	starts []sandbox.Command
	fail   func(sandbox.Command) error
	during func()
}

func (s *starter) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	s.starts = append(s.starts, c)
	if s.during != nil {
		s.during()
	}
	if err := s.fail(c); err != nil {
		return nil, err
	}
	return s.Sandbox.(sandbox.Starter).Start(ctx, c)
}

func TestASpawnHappensOnceWhateverFails(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.box = &starter{Sandbox: r.box}
	box := r.box.(*starter)
	state := tools.NewState(func(context.Context) (sandbox.Sandbox, error) { return box, nil }, tools.Options{})
	spawn := func(arguments string) (gjson.Result, error) {
		box.starts = nil
		result, err := r.registry.Call(context.Background(), state, "terminal", []byte(`{"command":"echo x","background":true`+arguments+`}`))
		return gjson.Parse(result), err
	}
	box.fail = func(sandbox.Command) error { return fmt.Errorf("it went away: %w", sandbox.ErrLost) }
	for _, arguments := range []string{``, `,"pty":true`} {
		_, err := spawn(arguments)
		require.ErrorIs(t, err, sandbox.ErrLost)
		require.Len(t, box.starts, 1, "it may have begun")
	}
	box.fail = func(c sandbox.Command) error {
		if c.Terminal != nil {
			return errors.New("no /dev/pts here")
		}
		return nil
	}
	v, err := spawn(`,"pty":true`)
	require.NoError(t, err)
	require.Contains(t, v.Get("pty_note").String(), "no /dev/pts here")
	require.Len(t, box.starts, 2)
	box.fail = func(sandbox.Command) error { return sandbox.ErrInvalidCommand }
	v, err = spawn(``)
	require.NoError(t, err)
	require.Equal(t, "Failed to start background process: invalid command", v.Get("error").String())

	// A start that Seal overtakes leaves nothing running.
	box.fail, box.during = func(sandbox.Command) error { return nil }, state.Detach
	v, err = spawn(``)
	require.NoError(t, err)
	require.Equal(t, "Failed to start background process: the rollout is over", v.Get("error").String())
	result, err := r.registry.Call(context.Background(), state, "process", []byte(`{"action":"list"}`))
	require.NoError(t, err)
	require.Equal(t, `{"processes":[]}`, result)
}

func TestASandboxWithoutBackgroundProcessesSaysSo(t *testing.T) {
	r := newRollout(t, tools.Options{})
	plain := struct{ sandbox.Sandbox }{r.box}
	state := tools.NewState(func(context.Context) (sandbox.Sandbox, error) { return plain, nil }, tools.Options{})
	result, err := r.registry.Call(context.Background(), state, "terminal", []byte(`{"command":"touch ran","background":"true"}`))
	require.NoError(t, err)
	require.EqualValues(t, -1, gjson.Get(result, "exit_code").Int())
	require.Contains(t, gjson.Get(result, "error").String(), "not supported by the local sandbox")
	_, err = os.Stat(r.path("ran"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

package reward

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// asProgram makes this test binary a reward program; its value says how it behaves.
const asProgram = "REWARD_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if how := os.Getenv(asProgram); how != "" {
		os.Exit(runProgram(how))
	}
	goleak.VerifyTestMain(m)
}

// asked is what the program under test reads of a request.
type asked struct {
	Type, ID, Answer string
	Item             struct {
		ID  string
		Row struct{ Do string }
	}
	Deadline float64 `json:"deadline_seconds"`
}

// runProgram is a reward program that does what the row's column "do" says.
func runProgram(how string) int {
	switch how {
	case "exits":
		fmt.Fprintln(os.Stderr, "no such model")
		return 3
	case "silent":
		time.Sleep(time.Hour)
	case "other-protocol":
		fmt.Println(`{"type":"hello","protocol":99}`)
		time.Sleep(time.Hour)
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var r asked
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return 4
		}
		switch r.Type {
		case "hello":
			say(`{"type":"hello","protocol":1,"name":"go","future":true}`)
			continue
		case "cancel":
			fmt.Fprintln(os.Stderr, "cancelled", r.ID)
			continue
		}
		do, argument, _ := strings.Cut(r.Item.Row.Do, " ")
		switch do {
		case "score":
			say(`{"id":%q,"score":%s,"parts":{"a":1},"details":{"pid":%d}}`, r.ID, argument, os.Getpid())
		case "later":
			go func() {
				d, _ := time.ParseDuration(argument)
				time.Sleep(d)
				say(`{"id":%q,"score":0.25}`, r.ID)
			}()
		case "never":
		case "exit":
			fmt.Fprintln(os.Stderr, "going down")
			return 7
		case "once":
			if _, err := os.Stat(argument); err == nil {
				say(`{"id":%q,"score":0.75}`, r.ID)
				continue
			}
			_ = os.WriteFile(argument, nil, 0o600)
			return 7
		case "freeze":
			_ = os.WriteFile(argument, nil, 0o600)
			time.Sleep(time.Hour)
		case "garbage":
			say("Traceback (most recent call last):")
		case "long":
			say(`{"id":%q,"score":1,"x":"%s"}`, r.ID, strings.Repeat("x", maxAnswerLine))
		case "error":
			say(`{"id":%q,"error":"no reference <here>"}`, r.ID)
		case "answer":
			say("%s", strings.ReplaceAll(argument, "ID", r.ID))
		case "env":
			value, ok := os.LookupEnv(argument)
			say(`{"id":%q,"score":1,"details":{"value":%q,"set":%v}}`, r.ID, value, ok)
		case "child":
			child := exec.Command("sleep", "1000")
			_ = child.Start()
			_ = os.WriteFile(argument, fmt.Appendf(nil, "%d", child.Process.Pid), 0o600)
			say(`{"id":%q,"score":1}`, r.ID)
		}
	}
	return 0
}

func newTestProgram(t *testing.T, how string, change func(*Part)) *program {
	t.Helper()
	g, err := newProgram(configured(func(p *Part) {
		p.Type, p.Program, p.Environment = TypeProgram, []string{os.Args[0]}, map[string]string{asProgram: how}
		if change != nil {
			change(p)
		}
	}), os.LookupEnv)
	require.NoError(t, err)
	require.NoError(t, g.find())
	g.start.grace = 300 * time.Millisecond
	g.alone.start.grace = g.start.grace
	t.Cleanup(func() { require.NoError(t, g.close()) })
	return g
}

func (g *program) try(t *testing.T, do string) (result, error) {
	row := fmt.Appendf(nil, `{"do":%q}`, do)
	return g.score(t.Context(), Input{ItemID: "item", Row: row, Result: said("the answer")})
}

func TestAProgramScoresManyRolloutsAtOnceInAnyOrder(t *testing.T) {
	g := newTestProgram(t, "good", nil)
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			do, want := "later "+fmt.Sprint((60-i)%7)+"ms", 0.25
			if i%2 == 0 {
				do, want = fmt.Sprintf("score 0.%d", i), 0
				_, _ = fmt.Sscanf(fmt.Sprintf("0.%d", i), "%g", &want)
			}
			r, err := g.try(t, do)
			if err != nil || r.score != want {
				t.Errorf("%s: %v, %v", do, r.score, err)
			}
		})
	}
	all.Wait()
	first, err := g.try(t, "score 1")
	require.NoError(t, err)
	second, err := g.try(t, "score 1")
	require.NoError(t, err)
	require.Equal(t, first.details, second.details, "one process serves them all")
	require.Equal(t, map[string]float64{"a": 1}, first.parts)
}

func TestWhateverAProgramDoesWrongIsAnErrorOfThatRolloutAndNeverAScore(t *testing.T) {
	tests := map[string]struct{ do, want string }{
		"an error":                  {"error", "the reward program reports: no reference <here>"},
		"an error without a text":   {`answer {"id":"ID","error":""}`, "an error without a message"},
		"no score":                  {`answer {"id":"ID"}`, "it has no score"},
		"text as score":             {`answer {"id":"ID","score":"1"}`, `its score is "1", want a number`},
		"null as score":             {`answer {"id":"ID","score":null}`, "want a number"},
		"NaN is no JSON":            {`answer {"id":"ID","score":NaN}`, "no JSON object"},
		"parts that are no numbers": {`answer {"id":"ID","score":1,"parts":{"a":"b"}}`, `its part "a"`},
		"garbage":                   {"garbage", "no JSON object (standard output is for answers; print to standard error): \"Traceback"},
		"a line without end":        {"long", "a line of more than 8 MiB"},
		"a list":                    {`answer [1]`, "no JSON object"},
		"a crash":                   {"exit", "exit status 7; it said: going down"},
		"no answer in time":         {"never", "did not answer within"},
		"somebody else's answer":    {`answer {"id":"r999","score":1}`, "did not answer within"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newTestProgram(t, "good", func(p *Part) {
				if strings.Contains(test.want, "did not answer") {
					p.Timeout = 0.5
				}
			})
			r, err := g.try(t, test.do)
			require.ErrorContains(t, err, test.want)
			require.Equal(t, classProgram, classOf(err))
			require.Zero(t, r.parts)
			r, err = g.try(t, "score 0.5")
			require.NoError(t, err, "the next rollout is scored all the same")
			require.Equal(t, 0.5, r.score)
		})
	}
}

func TestACrashTakesNobodyElseDown(t *testing.T) {
	g := newTestProgram(t, "good", nil)
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			if i == 6 {
				if _, err := g.try(t, "exit"); err == nil {
					t.Error("the rollout that ends every process was scored")
				}
				return
			}
			r, err := g.try(t, "later 100ms")
			if err != nil || r.score != 0.25 {
				t.Errorf("%v, %v", r.score, err)
			}
		})
	}
	all.Wait()
	r, err := g.try(t, "once "+filepath.Join(t.TempDir(), "crashed"))
	require.NoError(t, err, "what was under way is asked once more")
	require.Equal(t, 0.75, r.score)
}

func TestManyCrashesTogetherTakeNobodyElseDown(t *testing.T) {
	g := newTestProgram(t, "good", nil)
	const crashes, others = 9, 4
	var all sync.WaitGroup
	for range crashes {
		all.Go(func() {
			_, err := g.try(t, "exit")
			require.ErrorContains(t, err, "exit status 7")
			require.NotErrorIs(t, err, errNotAsked)
		})
	}
	for range others {
		all.Go(func() {
			r, err := g.try(t, "later 50ms")
			require.NoError(t, err, "a rollout beside those that crash has its score")
			require.Equal(t, 0.25, r.score)
		})
	}
	all.Wait()
}

func TestAHungQuestionTimesOutAloneWhileTheProcessAnswersOthers(t *testing.T) {
	t.Parallel()
	g := newTestProgram(t, "good", func(p *Part) { p.Timeout = 2.5 })
	before, err := g.try(t, "score 1")
	require.NoError(t, err)
	var hung error
	var all sync.WaitGroup
	all.Go(func() { _, hung = g.try(t, "never") })
	for range 8 {
		_, err := g.try(t, "later 350ms")
		require.NoError(t, err)
	}
	all.Wait()
	require.ErrorContains(t, hung, "did not answer within 2.5s")
	after, err := g.try(t, "score 1")
	require.NoError(t, err)
	require.Equal(t, before.details, after.details, "the process is the same")
}

func TestAFrozenProcessIsReplacedAndItsOtherQuestionsAskedAgain(t *testing.T) {
	t.Parallel()
	g := newTestProgram(t, "good", func(p *Part) { p.Timeout = 2.5 })
	_, err := g.try(t, "score 1")
	require.NoError(t, err)
	mark := filepath.Join(t.TempDir(), "frozen")
	var frozen, other error
	var r result
	var all sync.WaitGroup
	all.Go(func() { _, frozen = g.try(t, "freeze "+mark) })
	require.Eventually(t, func() bool { _, err := os.Stat(mark); return err == nil }, 10*time.Second, time.Millisecond)
	all.Go(func() { r, other = g.try(t, "score 0.5") })
	all.Wait()
	require.Error(t, frozen)
	require.NoError(t, other)
	require.Equal(t, 0.5, r.score)
}

func TestAProgramThatDoesNotStartIsSaidSoWithItsLastWords(t *testing.T) {
	g := newTestProgram(t, "exits", nil)
	for range hopeless + 2 {
		_, err := g.try(t, "score 1")
		require.ErrorContains(t, err, "did not start: the reward program ended: exit status 3; it said: no such model")
	}
	g = newTestProgram(t, "silent", nil)
	g.start.startTimeout = 50 * time.Millisecond
	_, err := g.try(t, "score 1")
	require.ErrorContains(t, err, "said no hello within 50ms")
	g = newTestProgram(t, "other-protocol", nil)
	_, err = g.try(t, "score 1")
	require.ErrorContains(t, err, "speaks protocol 99, this program version 1")
	missing, err := newProgram(configured(func(p *Part) { p.Program = []string{"no-such-program-here"} }), os.LookupEnv)
	require.NoError(t, err)
	require.ErrorContains(t, missing.find(), "no-such-program-here")
}

func TestAProgramSeesNoVariablesButThoseNamed(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("REWARD_TOKEN", "named")
	g := newTestProgram(t, "good", func(p *Part) { p.PassEnvironment = []string{"REWARD_TOKEN"} })
	for name, want := range map[string]string{
		"OPENAI_API_KEY": `{"value":"","set":false}`, "REWARD_TOKEN": `{"value":"named","set":true}`, asProgram: `{"value":"good","set":true}`,
	} {
		r, err := g.try(t, "env "+name)
		require.NoError(t, err)
		require.Equal(t, want, string(r.details.Get("details")), name)
	}
}

func TestClosingEndsTheProcessAndWhatItStarted(t *testing.T) {
	dir := t.TempDir()
	g := newTestProgram(t, "good", nil)
	g.logTo(dir, "my reward")
	_, err := g.try(t, "child "+filepath.Join(dir, "pid"))
	require.NoError(t, err)
	_, err = g.try(t, "exit")
	require.Error(t, err)
	require.NoError(t, g.close())
	_, err = g.try(t, "score 1")
	require.ErrorIs(t, err, errProgramClosed)
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile("/proc/" + string(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, 10*time.Second, 5*time.Millisecond)
	log, err := os.ReadFile(filepath.Join(dir, "reward-my_reward.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "going down")
}

func TestTheLogOfAProgramIsBounded(t *testing.T) {
	o := &errorOutput{path: filepath.Join(t.TempDir(), "log")}
	line := []byte(strings.Repeat("x", 1<<20))
	for range 15 {
		_, _ = o.Write(line)
	}
	require.LessOrEqual(t, len(o.last()), keptErrorOutput)
	require.NoError(t, o.close())
	info, err := os.Stat(o.path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(maxErrorLog+100))
	require.Greater(t, info.Size(), int64(maxErrorLog))
}

func TestTheReferenceImplementationInPythonSpeaksTheProtocol(t *testing.T) {
	slowtest.Require(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed; the protocol is tested with a program in Go")
	}
	g, err := newProgram(configured(func(p *Part) {
		p.Program = []string{python, "../../docs/examples/reward_program/reward_program.py"}
	}), os.LookupEnv)
	require.NoError(t, err)
	defer func() { require.NoError(t, g.close()) }()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			r, err := g.score(t.Context(), Input{ItemID: "a", Row: fmt.Appendf(nil, `{"answer":"%d"}`, i), Result: said(fmt.Sprintf("it is %d", i))})
			if err != nil || r.score != 1 || r.parts["right"] != 1 {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
	all.Wait()
	r, err := g.score(t.Context(), Input{ItemID: "a", Row: []byte(`{"answer":"x"}`), Result: said("y")})
	require.NoError(t, err)
	require.Zero(t, r.score)
	_, err = g.score(t.Context(), Input{ItemID: "a", Row: []byte(`[]`), Result: said("y")})
	require.ErrorContains(t, err, "AttributeError", "an exception is an error of its rollout")
	require.NoError(t, g.close())
}

func FuzzProgramLines(f *testing.F) {
	for _, seed := range []string{`{"type":"hello","protocol":1}`, `{"id":"r1","score":1}`, `{"id":"r1","error":{}}`, `[`, `{"id":1,"score":1e999}`, `{"type":"hello","protocol":1,"max_in_flight":2}`, "{}"} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, line []byte, greeted bool) {
		waiting := make(chan answer, 1)
		p := &process{errors: &errorOutput{}, hello: make(chan struct{}), slots: make(chan struct{}, 4), pending: map[string]question{"r1": {1, waiting}}}
		if greeted {
			close(p.hello)
		}
		err := p.take(line)
		select {
		case a := <-waiting:
			require.NoError(t, err)
			require.True(t, greeted)
			if a.err == nil {
				require.Contains(t, string(line), "r1")
			}
		default:
		}
	})
}

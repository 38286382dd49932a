package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

func TestMain(m *testing.M) {
	if serveMock() {
		return
	}
	goleak.VerifyTestMain(m)
}

// toolbox is a Tools for tests: a handler per tool, and a list of what was called.
type toolbox struct {
	set      *chat.Toolset
	handlers map[string]func(ctx context.Context, arguments string) (string, error)
	limits   map[string]int
	spillErr error

	mu     sync.Mutex
	called []string
	spills []string
}

func newToolbox(t *testing.T, handlers map[string]func(context.Context, string) (string, error)) *toolbox {
	var definitions []chat.ToolDefinition
	for _, name := range []string{"echo", "wait", "big", "small", "fail", "panic"} {
		if handlers[name] != nil {
			definitions = append(definitions, chat.ToolDefinition{Name: name})
		}
	}
	set, err := chat.NewToolset(definitions...)
	require.NoError(t, err)
	return &toolbox{set: set, handlers: handlers, limits: map[string]int{}}
}

func (b *toolbox) Definitions() *chat.Toolset { return b.set }

func (b *toolbox) Offers(name string) bool { return b.set.Has(name) || name == "alias" }

func (b *toolbox) Call(ctx context.Context, name string, arguments json.RawMessage) (string, error) {
	b.mu.Lock()
	b.called = append(b.called, name+string(arguments))
	b.mu.Unlock()
	if name == "alias" {
		name = "echo"
	}
	return b.handlers[name](ctx, string(arguments))
}

func (b *toolbox) Spill(_ context.Context, _, callID, text string) (string, error) {
	if b.spillErr != nil {
		return "", b.spillErr
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spills = append(b.spills, text)
	return "/tmp/hermes-results/" + callID + ".txt", nil
}

func (b *toolbox) ResultLimit(tool string) int { return b.limits[tool] }

func echoTools(t *testing.T) *toolbox {
	return newToolbox(t, map[string]func(context.Context, string) (string, error){
		"echo": func(_ context.Context, arguments string) (string, error) {
			return `{"output": ` + string(chat.AppendString(nil, arguments)) + `, "exit_code": 0, "error": null}`, nil
		},
	})
}

func call(id, name, arguments string) chat.ToolCall {
	return chat.ToolCall{ID: id, Name: name, Arguments: arguments}
}

// run plays a script against a loop over a real socket.
func run(t *testing.T, script modeltest.Script, tools agentloop.Tools, change func(*agentloop.Config)) (*agentloop.Result, *modeltest.Server, error) {
	server := modeltest.NewServer(t, script)
	client, err := model.NewChat(model.Server{BaseURL: server.URL, Model: "mock"})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	cfg := agentloop.Config{Model: client, Tools: tools, Stop: []agentloop.StopCondition{agentloop.MaxTurns(10)}}
	if change != nil {
		change(&cfg)
	}
	result, err := agentloop.Run(t.Context(), cfg, []chat.Message{chat.User("do it")})
	requireValidConversation(t, result.Messages)
	return result, server, err
}

// requireValidConversation checks what chat templates and strict servers demand:
// every call is answered exactly once, directly behind it, and ids are unique.
func requireValidConversation(t *testing.T, messages []chat.Message) {
	t.Helper()
	ids := map[string]bool{}
	for i := 0; i < len(messages); i++ {
		for _, c := range messages[i].ToolCalls() {
			require.False(t, ids[c.ID], "id %q is used twice", c.ID)
			ids[c.ID] = true
			i++
			require.Less(t, i, len(messages), "call %q has no result", c.ID)
			require.Equal(t, chat.RoleTool, messages[i].Role())
			require.Equal(t, c.ID, messages[i].ToolCallID())
		}
	}
}

func toolResults(r *agentloop.Result) []string {
	var texts []string
	for _, m := range r.Messages {
		if m.Role() == chat.RoleTool {
			texts = append(texts, m.Text())
		}
	}
	return texts
}

func TestToolCallsRunInOrderAndTheAnswerEndsTheLoop(t *testing.T) {
	tools := echoTools(t)
	r, server, err := run(t, modeltest.Turns(
		modeltest.Calls(call("a", "echo", `{"n":1}`), call("b", "echo", `{"n":2}`)),
		modeltest.TextAndCalls("thinking aloud", call("c", "echo", `{"n":3}`)),
		modeltest.Text("done").WithUsage(10, 5),
	), tools, nil)
	require.NoError(t, err)
	require.Equal(t, []string{`echo{"n":1}`, `echo{"n":2}`, `echo{"n":3}`}, tools.called)
	require.True(t, r.FinishedNaturally)
	require.Equal(t, agentloop.StopNatural, r.StopReason)
	require.Equal(t, 3, r.TurnsUsed)
	require.Equal(t, "done", r.FinalText())
	require.Len(t, r.Turns, 3)
	require.Equal(t, 2, r.Turns[0].ToolCalls)
	require.EqualValues(t, 15, r.Turns[2].Usage.TotalTokens)
	require.Empty(t, r.ToolErrors)
	last := server.Requests()[2].Body
	require.Equal(t, string(chat.AppendMessages(nil, r.Messages[:len(r.Messages)-1])), gjson.GetBytes(last, "messages").Raw, "the request holds the very bytes of the record")
}

func TestTheModelsMistakesBecomeResultsItCanRead(t *testing.T) {
	tests := map[string]struct {
		call      chat.ToolCall
		runs      string // what the tool gets, "" when it must not run
		result    string // part of what the model is told
		toolError string // part of the recorded error, "" when none
	}{
		"unknown tool":             {call("a", "rm_rf", `{}`), "", `Unknown tool 'rm_rf'. Available tools: ['echo']`, "Unknown tool"},
		"another name of a tool":   {call("a", "alias", `{}`), "", "exit_code", ""},
		"broken JSON":              {call("a", "echo", `{"x": `), "", "Invalid JSON in tool arguments", "Invalid JSON"},
		"trailing garbage":         {call("a", "echo", `{"x": 1}}`), "", "Invalid JSON in tool arguments", "Invalid JSON"},
		"two objects":              {call("a", "echo", `{"x": 1}{"x": 2}`), "", "Invalid JSON in tool arguments", "Invalid JSON"},
		"an array":                 {call("a", "echo", `[1]`), "", "must be a JSON object, got an array", "Invalid arguments"},
		"a number":                 {call("a", "echo", `7`), "", "must be a JSON object, got a number", "Invalid arguments"},
		"a string":                 {call("a", "echo", `"x"`), "", "must be a JSON object, got a string", "Invalid arguments"},
		"an object encoded twice":  {call("a", "echo", `"{\"x\": 1}"`), `{"x": 1}`, `exit_code`, ""},
		"null":                     {call("a", "echo", `null`), `{}`, `exit_code`, ""},
		"nothing":                  {call("a", "echo", ``), `{}`, `exit_code`, ""},
		"blank":                    {call("a", "echo", " \n"), `{}`, `exit_code`, ""},
		"digits and order survive": {call("a", "echo", `{"b":12345678901234567890,"a":1.0}`), `{"b":12345678901234567890,"a":1.0}`, `exit_code`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tools := echoTools(t)
			r, _, err := run(t, modeltest.Turns(modeltest.Calls(test.call), modeltest.Text("ok")), tools, nil)
			require.NoError(t, err)
			if test.call.Name == "alias" {
				require.Equal(t, []string{"alias{}"}, tools.called)
			} else if test.runs == "" {
				require.Empty(t, tools.called, "the tool must not run")
				require.Equal(t, 1, r.InvalidToolCalls)
			} else {
				require.Equal(t, []string{"echo" + test.runs}, tools.called)
			}
			require.True(t, json.Valid([]byte(toolResults(r)[0])))
			require.Contains(t, toolResults(r)[0], test.result)
			if test.toolError == "" {
				require.Empty(t, r.ToolErrors)
			} else {
				require.Len(t, r.ToolErrors, 1)
				require.Contains(t, r.ToolErrors[0].Error, test.toolError)
				require.Equal(t, 1, r.ToolErrors[0].Turn)
			}
		})
	}
}

func TestMissingAndRepeatedCallIDsAreReplaced(t *testing.T) {
	r, _, err := run(t, modeltest.Turns(
		modeltest.Calls(call("", "echo", `{}`), call("x", "echo", `{}`), call("x", "echo", `{}`)),
		modeltest.Calls(call("x", "echo", `{}`)), // counts from the start again
		modeltest.Text("ok"),
	), echoTools(t), nil)
	require.NoError(t, err) // requireValidConversation has checked the ids
	require.Len(t, toolResults(r), 4)
}

func TestArgumentsSentAsAnObjectAreAccepted(t *testing.T) {
	tools := echoTools(t)
	_, _, err := run(t, modeltest.Turns(modeltest.Calls(call("a", "echo", `{"x":1.50}`)).WithObjectArguments(), modeltest.Text("ok")), tools, nil)
	require.NoError(t, err)
	require.Equal(t, []string{`echo{"x":1.50}`}, tools.called)
}

func TestACutCallIsNotExecutedButEarlierOnesOfTheAnswerAre(t *testing.T) {
	tools := echoTools(t)
	r, _, err := run(t, modeltest.Turns(
		modeltest.Calls(call("a", "echo", `{"n":1}`), call("b", "echo", `{"n":2}`)).WithFinish("length"),
		modeltest.Text("ok"),
	), tools, nil)
	require.NoError(t, err)
	require.Equal(t, []string{`echo{"n":1}`}, tools.called)
	require.Contains(t, toolResults(r)[1], "cut off at the token limit")
}

func TestAnswersWithoutCallsEndWithTheRightReason(t *testing.T) {
	tests := map[string]struct {
		reply   modeltest.Reply
		reason  agentloop.StopReason
		natural bool
		text    string
	}{
		"text":                {modeltest.Text("hi"), agentloop.StopNatural, true, "hi"},
		"parts":               {modeltest.Parts("a", "b"), agentloop.StopNatural, true, "ab"},
		"cut text":            {modeltest.Text("hi").WithFinish("length"), agentloop.StopAnswerCut, false, "hi"},
		"refusal":             {modeltest.Refusal("no"), agentloop.StopRefusal, true, ""},
		"filtered":            {modeltest.Text("").WithFinish("content_filter"), agentloop.StopContentFilter, false, ""},
		"empty":               {modeltest.Text(""), agentloop.StopEmpty, true, ""},
		"null content":        {modeltest.Message(`{"role":"assistant","content":null}`), agentloop.StopEmpty, true, ""},
		"only reasoning":      {modeltest.Text("").WithReasoning(modeltest.ReasoningContent, "hm"), agentloop.StopNatural, true, ""},
		"null tool calls":     {modeltest.Message(`{"content":"hi","tool_calls":null}`), agentloop.StopNatural, true, "hi"},
		"empty list of calls": {modeltest.Message(`{"content":"hi","tool_calls":[]}`), agentloop.StopNatural, true, "hi"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, _, err := run(t, modeltest.Always(test.reply), echoTools(t), nil)
			require.NoError(t, err)
			require.Equal(t, test.reason, r.StopReason)
			require.Equal(t, test.natural, r.FinishedNaturally)
			require.Equal(t, test.text, r.FinalText())
			require.Equal(t, 1, r.TurnsUsed)
		})
	}
}

func TestReasoningIsCollectedPerTurnAndSentBack(t *testing.T) {
	shapes := []modeltest.ReasoningShape{modeltest.ReasoningContent, modeltest.ReasoningField, modeltest.ReasoningObject, modeltest.ReasoningDetails, modeltest.ThinkingParts, modeltest.ThinkTags}
	for _, shape := range shapes {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			r, server, err := run(t, modeltest.Turns(
				modeltest.TextAndCalls("calling", call("a", "echo", `{}`)).WithReasoning(shape, "because"),
				modeltest.Text("ok"),
			), echoTools(t), nil)
			require.NoError(t, err)
			require.Equal(t, []string{"because", ""}, r.ReasoningPerTurn)
			history := gjson.GetBytes(server.Requests()[1].Body, "messages.1")
			if shape == modeltest.ThinkTags {
				require.Contains(t, history.Get("content").String(), "<think>", "inline thinking stays where the template put it")
			} else {
				require.Equal(t, "because", history.Get("reasoning_content").String())
			}
		})
	}
}

func TestLimitsAreStopConditions(t *testing.T) {
	endless := modeltest.Always(modeltest.Calls(call("", "echo", `{}`)).WithUsage(40, 10))
	tests := map[string]struct {
		stop   agentloop.StopCondition
		reason agentloop.StopReason
		turns  int
	}{
		"turns":   {agentloop.MaxTurns(3), agentloop.StopTurnLimit, 3},
		"tokens":  {agentloop.MaxTokens(100), agentloop.StopTokenLimit, 2},
		"elapsed": {agentloop.MaxElapsed(time.Nanosecond), agentloop.StopTimeLimit, 0},
		"own rule": {func(p agentloop.Progress) agentloop.StopReason {
			if len(p.Messages) > 4 {
				return "enough_messages"
			}
			return ""
		}, "enough_messages", 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, _, err := run(t, endless, echoTools(t), func(c *agentloop.Config) {
				c.Stop = []agentloop.StopCondition{agentloop.MaxTurns(8), test.stop}
			})
			require.NoError(t, err)
			require.Equal(t, test.reason, r.StopReason)
			require.Equal(t, test.turns, r.TurnsUsed)
			require.False(t, r.FinishedNaturally)
		})
	}
}

func TestTheGraceTurnAsksForAnAnswerWithoutTools(t *testing.T) {
	script := func(r *modeltest.Request) modeltest.Reply {
		if r.Get("tool_choice").String() == "none" {
			return modeltest.Text("my best answer")
		}
		return modeltest.Calls(call("", "echo", `{}`))
	}
	r, _, err := run(t, script, echoTools(t), func(c *agentloop.Config) {
		c.Stop = []agentloop.StopCondition{agentloop.MaxTurns(2)}
		c.GraceTurn = true
	})
	require.NoError(t, err)
	require.Equal(t, "my best answer", r.FinalText())
	require.Equal(t, 3, r.TurnsUsed)
	require.Equal(t, agentloop.StopTurnLimit, r.StopReason)
	require.False(t, r.FinishedNaturally)
}

func TestCallsInTheGraceTurnAreNotExecuted(t *testing.T) {
	tools := echoTools(t)
	_, _, err := run(t, modeltest.Always(modeltest.Calls(call("", "echo", `{}`))), tools, func(c *agentloop.Config) {
		c.Stop = []agentloop.StopCondition{agentloop.MaxTurns(2)}
		c.GraceTurn = true
	})
	require.NoError(t, err)
	require.Len(t, tools.called, 2)
}

func TestTheTimeLimitEndsAHangingModelCall(t *testing.T) {
	r, _, err := run(t, modeltest.Always(modeltest.Hang()), echoTools(t), func(c *agentloop.Config) { c.Timeout = 20 * time.Millisecond })
	require.NoError(t, err, "a limit that ran out is no failure")
	require.Equal(t, agentloop.StopTimeLimit, r.StopReason)
	require.Equal(t, 1, r.TurnsUsed)
}

func TestTheTimeLimitEndsAHangingToolAndAnswersEveryCall(t *testing.T) {
	tools := newToolbox(t, map[string]func(context.Context, string) (string, error){
		"wait": func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() },
	})
	r, _, err := run(t, modeltest.Always(modeltest.Calls(call("a", "wait", `{}`), call("b", "wait", `{}`))), tools, func(c *agentloop.Config) { c.Timeout = 50 * time.Millisecond })
	require.NoError(t, err)
	require.Equal(t, agentloop.StopTimeLimit, r.StopReason)
	require.Len(t, tools.called, 1, "the second call must not start")
	require.Contains(t, toolResults(r)[1], "Not executed")
}

func TestCancellingIsAnErrorWithThePartialResult(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.Turns(modeltest.Calls(call("a", "echo", `{}`)), modeltest.Hang()))
	client, err := model.NewChat(model.Server{BaseURL: server.URL, Model: "mock"})
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	stopped := errors.New("stopped by the user")
	ctx, cancel := context.WithCancelCause(t.Context())
	tools := newToolbox(t, map[string]func(context.Context, string) (string, error){
		"echo": func(context.Context, string) (string, error) {
			time.AfterFunc(20*time.Millisecond, func() { cancel(stopped) })
			return "{}", nil
		},
	})
	r, err := agentloop.Run(ctx, agentloop.Config{Model: client, Tools: tools}, []chat.Message{chat.User("x")})
	require.ErrorIs(t, err, stopped)
	require.Equal(t, agentloop.StopCancelled, r.StopReason)
	require.Len(t, r.Messages, 3)
}

func TestAnEndpointThatFailsIsAnErrorAndKeepsWhatWasDone(t *testing.T) {
	r, _, err := run(t, modeltest.Turns(modeltest.Calls(call("a", "echo", `{}`)), modeltest.Status(500)), echoTools(t), nil)
	var modelErr *model.Error
	require.ErrorAs(t, err, &modelErr)
	require.Equal(t, model.KindServerError, modelErr.Kind)
	require.Equal(t, agentloop.StopModelError, r.StopReason)
	require.Equal(t, 2, r.TurnsUsed)
	require.Len(t, r.ReasoningPerTurn, 1)
	require.Len(t, r.Messages, 3)
}

func TestAConversationThatNoLongerFitsIsALimit(t *testing.T) {
	r, _, err := run(t, modeltest.Turns(
		modeltest.Calls(call("a", "echo", `{}`)),
		modeltest.ErrorCode(400, "context_length_exceeded", "This model's maximum context length is 8192 tokens"),
	), echoTools(t), nil)
	require.NoError(t, err)
	require.Equal(t, agentloop.StopContextLength, r.StopReason)
	require.True(t, r.StopReason.Limit())
}

func TestASandboxThatFailsEndsTheLoopAndKeepsTheConversationValid(t *testing.T) {
	gone := errors.New("container is gone")
	tools := newToolbox(t, map[string]func(context.Context, string) (string, error){
		"fail": func(context.Context, string) (string, error) { return "", gone },
		"echo": func(context.Context, string) (string, error) { return "{}", nil },
	})
	r, _, err := run(t, modeltest.Always(modeltest.Calls(call("a", "echo", `{}`), call("b", "fail", `{}`), call("c", "echo", `{}`))), tools, nil)
	require.ErrorIs(t, err, gone)
	require.Equal(t, agentloop.StopSandboxError, r.StopReason)
	require.Equal(t, []string{"echo{}", "fail{}"}, tools.called)
	require.Len(t, toolResults(r), 3)
}

func TestAPanickingToolIsAToolError(t *testing.T) {
	tools := newToolbox(t, map[string]func(context.Context, string) (string, error){
		"panic": func(context.Context, string) (string, error) { panic("boom") },
	})
	r, _, err := run(t, modeltest.Turns(modeltest.Calls(call("a", "panic", `{}`)), modeltest.Text("ok")), tools, nil)
	require.NoError(t, err)
	require.Contains(t, toolResults(r)[0], "boom")
	require.Len(t, r.ToolErrors, 1)
}

func TestOrdinaryExitCodesAreNoToolErrors(t *testing.T) {
	results := map[string]bool{ // result -> is a tool error
		`{"output":"","exit_code":1,"error":null}`:             false,
		`{"output":"","exit_code":1,"error":"grep: no match"}`: false,
		`{"output":"","exit_code":-1,"error":"no shell"}`:      true,
		`{"error":"file not found"}`:                           true,
		`{"error":""}`:                                         false,
		`not json`:                                             false,
	}
	for result, isError := range results {
		tools := newToolbox(t, map[string]func(context.Context, string) (string, error){
			"echo": func(context.Context, string) (string, error) { return result, nil },
		})
		r, _, err := run(t, modeltest.Turns(modeltest.Calls(call("a", "echo", `{}`)), modeltest.Text("ok")), tools, nil)
		require.NoError(t, err)
		require.Equal(t, isError, len(r.ToolErrors) == 1, result)
	}
}

func TestParallelCallsKeepTheOrderOfTheirResults(t *testing.T) {
	var running, most atomic.Int64
	second := make(chan struct{})
	tools := newToolbox(t, map[string]func(context.Context, string) (string, error){
		"echo": func(_ context.Context, arguments string) (string, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			if strings.Contains(arguments, "1") {
				<-second // the first call ends after the second
			} else {
				close(second)
			}
			return arguments, nil
		},
	})
	r, _, err := run(t, modeltest.Turns(modeltest.Calls(call("a", "echo", `{"n":1}`), call("b", "echo", `{"n":2}`)), modeltest.Text("ok")), tools,
		func(c *agentloop.Config) { c.ParallelTools = true })
	require.NoError(t, err)
	require.Equal(t, []string{`{"n":1}`, `{"n":2}`}, toolResults(r))
}

func TestWithoutToolsTheRequestOffersNone(t *testing.T) {
	r, server, err := run(t, modeltest.Always(modeltest.Calls(call("a", "echo", `{}`))), nil, func(c *agentloop.Config) {
		temperature := 0.5
		c.Temperature, c.MaxTokens = &temperature, 99
		c.Extra = chat.Object{{Key: "top_k", Value: json.RawMessage("7")}}
	})
	require.NoError(t, err)
	require.Contains(t, toolResults(r)[0], "no tools")
	body := server.Requests()[0].Body
	require.False(t, gjson.GetBytes(body, "tools").Exists())
	require.EqualValues(t, 99, gjson.GetBytes(body, "max_tokens").Int())
	require.EqualValues(t, 7, gjson.GetBytes(body, "top_k").Int())
	require.Equal(t, 0.5, gjson.GetBytes(body, "temperature").Float())
}

func TestDeeplyNestedArgumentsAreRefusedNotFatal(t *testing.T) {
	deep := `{"x":` + strings.Repeat("[", 3_000_000) // a recursive check would exhaust the stack
	tools := echoTools(t)
	r, _, err := run(t, modeltest.Turns(
		modeltest.Calls(call("a", "echo", deep), call("b", "echo", deep+strings.Repeat("]", 3_000_000)+"}")),
		modeltest.Text("ok"),
	), tools, nil)
	require.NoError(t, err)
	require.Empty(t, tools.called)
	require.Contains(t, toolResults(r)[1], "Invalid JSON")
}

// Some servers parse the arguments in the history and refuse it when the model
// once wrote broken JSON. That must not end the rollout as the endpoint's failure.
func TestAServerThatRefusesBrokenArgumentsInTheHistoryGetsThemQuoted(t *testing.T) {
	script := func(r *modeltest.Request) modeltest.Reply {
		for _, m := range r.Get("messages").Array() {
			for _, c := range m.Get("tool_calls").Array() {
				if !json.Valid([]byte(c.Get("function.arguments").String())) {
					return modeltest.Status(400, "Expecting ',' delimiter: line 1 column 9")
				}
			}
		}
		switch r.Turn() {
		case 0:
			return modeltest.Calls(call("a", "echo", `{"n": 1`), call("b", "echo", `{"n": 2}`)).With("vendor", "1")
		case 1:
			return modeltest.Calls(call("c", "echo", `{"n": 3}`))
		}
		return modeltest.Text("done")
	}
	tools := echoTools(t)
	r, _, err := run(t, script, tools, nil)
	require.NoError(t, err)
	require.Equal(t, agentloop.StopNatural, r.StopReason)
	require.Equal(t, []string{`echo{"n": 2}`, `echo{"n": 3}`}, tools.called)
	require.Equal(t, `"{\"n\": 1"`, r.Messages[1].ToolCalls()[0].Arguments)
	require.Equal(t, `{"n": 2}`, r.Messages[1].ToolCalls()[1].Arguments)
	require.Equal(t, "1", string(r.Messages[1].Get("vendor")))

	_, _, err = run(t, modeltest.Always(modeltest.Status(400, "no")), echoTools(t), nil)
	require.Error(t, err, "a refusal for another reason stays one")
}

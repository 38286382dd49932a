package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"
)

// Tools runs the calls a model makes. It is called from one goroutine at a time
// unless Config.ParallelTools is set.
type Tools interface {
	// Definitions returns what is offered to the model; it does not change during a loop.
	Definitions() *chat.Toolset
	// Offers says whether the model may call a tool by this name, which may be
	// another than the one in Definitions.
	Offers(name string) bool
	// Call runs one tool with a JSON object of arguments and returns the text for
	// the model. An error means that the sandbox failed and ends the loop.
	Call(ctx context.Context, name string, arguments json.RawMessage) (string, error)
	// Spill stores the full text of a large result where the model can read it.
	Spill(ctx context.Context, tool, callID, text string) (path string, err error)
	// ResultLimit returns how many characters of the tool's results are shown:
	// 0 for the default, Unlimited for all.
	ResultLimit(tool string) int
}

// verdict is what became of one call.
type verdict struct {
	result  string
	failure string // why it counts as a tool error, "" when it doesn't
	invalid bool   // the call could not run through the model's own fault
}

const (
	pythonQuote   = "'"
	notRunAborted = "Not executed: the rollout ended before this call could run."
	notRunCut     = "Not executed: the response was cut off at the token limit (finish_reason \"length\"), so this call may be incomplete. Send it again, in smaller steps."
	notRunGrace   = "Not executed: the turn limit is reached and tools are no longer available."
)

// runCalls executes the calls of one turn and returns their results in call
// order. On error the results that are missing have been filled in, so that the
// conversation stays valid.
func (l *loop) runCalls(ctx context.Context, turn int, calls []chat.ToolCall, cut bool) ([]toolResult, error) {
	verdicts := make([]verdict, len(calls))
	for i := range verdicts {
		verdicts[i] = verdict{result: errorResult(notRunAborted)}
	}
	one := func(ctx context.Context, i int) error {
		if cut && i == len(calls)-1 {
			verdicts[i] = verdict{result: errorResult(notRunCut), failure: "response cut at the token limit", invalid: true}
			return nil
		}
		v, err := l.runCall(ctx, calls[i])
		if err == nil {
			verdicts[i] = v
		}
		return err
	}
	var err error
	if l.cfg.ParallelTools && len(calls) > 1 {
		var g errgroup.Group
		for i := range calls {
			g.Go(func() error { return one(ctx, i) })
		}
		err = g.Wait()
	} else {
		for i := range calls {
			if err = one(ctx, i); err != nil {
				break
			}
		}
	}
	results := make([]toolResult, len(calls))
	for i, v := range verdicts {
		results[i] = toolResult{tool: calls[i].Name, callID: calls[i].ID, text: v.result}
		if v.invalid {
			l.result.InvalidToolCalls++
		}
		if v.failure != "" {
			l.result.ToolErrors = append(l.result.ToolErrors, ToolError{
				Turn: turn, Tool: calls[i].Name, Arguments: cutTo(calls[i].Arguments, 200),
				Error: v.failure, Result: cutTo(v.result, 500),
			})
		}
	}
	return results, err
}

// runCall executes one call. Everything the model did wrong is in the verdict.
func (l *loop) runCall(ctx context.Context, call chat.ToolCall) (v verdict, err error) {
	if err := ctx.Err(); err != nil {
		return v, context.Cause(ctx)
	}
	if !l.tools.Offers(call.Name) {
		msg := fmt.Sprintf("Unknown tool '%s'. Available tools: %s", call.Name, pythonList(l.offered.Names()))
		return verdict{result: errorResult(msg), failure: fmt.Sprintf("Unknown tool '%s'", call.Name), invalid: true}, nil
	}
	arguments, problem := checkArguments(call.Arguments)
	if problem != nil {
		return verdict{result: errorResult(problem.forModel), failure: problem.forRecord, invalid: true}, nil
	}
	defer func() {
		if p := recover(); p != nil {
			msg := fmt.Sprintf("Tool execution failed: panic: %v", p)
			v, err = verdict{result: errorResult(msg), failure: msg}, nil
		}
	}()
	text, err := l.tools.Call(ctx, call.Name, arguments)
	if err != nil {
		return v, err
	}
	return verdict{result: text, failure: failureOf(text)}, nil
}

type argumentProblem struct{ forModel, forRecord string }

// checkArguments returns the JSON object to call a tool with. Blank and null mean
// no arguments; anything else that is not an object is refused, never replaced.
func checkArguments(text string) (json.RawMessage, *argumentProblem) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed == "null" {
		return json.RawMessage("{}"), nil
	}
	if !chat.Valid([]byte(trimmed)) {
		var probe json.RawMessage
		detail := "not valid JSON"
		if err := json.Unmarshal([]byte(trimmed), &probe); err != nil {
			detail = err.Error()
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				detail = fmt.Sprintf("%s (at byte %d of %d)", err, syntax.Offset, len(trimmed))
			}
		}
		return nil, &argumentProblem{
			forModel:  "Invalid JSON in tool arguments: " + detail + ". Please retry with valid JSON.",
			forRecord: "Invalid JSON: " + detail,
		}
	}
	parsed := gjson.Parse(trimmed)
	if !parsed.IsObject() {
		// Some models encode the object twice.
		if inner := strings.TrimSpace(parsed.Str); parsed.Type == gjson.String && chat.Valid([]byte(inner)) && gjson.Parse(inner).IsObject() {
			return json.RawMessage(inner), nil
		}
		detail := "tool arguments must be a JSON object, got " + kindOf(parsed)
		return nil, &argumentProblem{
			forModel:  "Invalid tool arguments: " + detail + ". Please retry with a JSON object.",
			forRecord: "Invalid arguments: " + detail,
		}
	}
	return json.RawMessage(trimmed), nil
}

func kindOf(v gjson.Result) string {
	switch {
	case v.IsArray():
		return "an array"
	case v.Type == gjson.String:
		return "a string"
	case v.Type == gjson.Number:
		return "a number"
	default:
		return "a boolean"
	}
}

// failureOf applies the original's rule: a result is a tool error when it is an
// object with a truthy error and a negative exit code, or an error alone.
// Ordinary non-zero exit codes are not errors of the tool.
func failureOf(result string) string {
	if !strings.HasPrefix(strings.TrimSpace(result), "{") || !chat.Valid([]byte(result)) {
		return ""
	}
	v := gjson.Parse(result)
	e := v.Get("error")
	switch {
	case !e.Exists(), e.Type == gjson.Null, e.Type == gjson.False, e.Type == gjson.String && e.Str == "":
		return ""
	}
	if code := v.Get("exit_code"); code.Exists() && code.Int() >= 0 {
		return ""
	}
	return cutTo(e.String(), 500)
}

func errorResult(message string) string {
	return string(append(chat.AppendString([]byte(`{"error": `), message), '}'))
}

// pythonList writes names the way the original did, which models were trained on.
func pythonList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = pythonQuote + n + pythonQuote
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// cutTo returns at most n characters of s.
func cutTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	count := 0
	for i := range s {
		if count == n {
			return s[:i]
		}
		count++
	}
	return s
}

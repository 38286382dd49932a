package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// InfrastructureError says that a tool could not do its work because the sandbox
// failed. It is no result for the model: the rollout ends unscored.
type InfrastructureError struct {
	Op  string // what was attempted
	Err error
}

// Error says what was attempted and why it failed.
func (e *InfrastructureError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the sandbox's error.
func (e *InfrastructureError) Unwrap() error { return e.Err }

// maxErrorChars is the longest error field a result may carry.
const maxErrorChars = 2048

// Call runs one tool once and returns its result for the model. Everything the
// model can be told is a result: an unknown name, arguments that are not an
// object, a handler's error or panic. The returned error is an
// *InfrastructureError or wraps one.
func (r *Registry) Call(ctx context.Context, state *State, name string, arguments json.RawMessage) (string, error) {
	e, ok := r.tools[name]
	if !ok {
		return ErrorResult("Unknown tool: " + name), nil
	}
	args, err := parseArguments(arguments)
	if err != nil {
		return ErrorResult(err.Error()), nil
	}
	args.object = coerceArguments(e.schema, args.object)
	state.note(e.Name)
	result, err := run(ctx, e, &Call{Tool: e.Name, Args: args, State: state})
	if err != nil {
		var broken *InfrastructureError
		if errors.As(err, &broken) {
			return "", fmt.Errorf("run tool %s: %w", e.Name, err)
		}
		return ErrorResult(sanitise("Tool execution failed: " + errorKind(err) + ": " + err.Error())), nil
	}
	return cutError(result), nil
}

// handlerPanic is what a handler panicked with.
type handlerPanic struct{ message string }

func (p *handlerPanic) Error() string { return p.message }

func errorKind(err error) string {
	var p *handlerPanic
	switch {
	case errors.As(err, &p):
		return "Panic"
	case errors.Is(err, context.DeadlineExceeded):
		return "TimeoutError"
	case errors.Is(err, context.Canceled):
		return "Cancelled"
	}
	return "Error"
}

// run calls the handler. A panic is the tool's own fault and must not take the
// other rollouts of the process with it, so it becomes an error.
func run(ctx context.Context, e *entry, call *Call) (result string, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = "", &handlerPanic{fmt.Sprint(p)}
		}
	}()
	return e.Handler(ctx, call)
}

// ErrorResult returns the result {"error": message}, the message cut to 2,048 characters.
func ErrorResult(message string) string {
	return encode(struct {
		Error string `json:"error"`
	}{cutChars(message, maxErrorChars)})
}

// encode writes a result; the result types of this package always encode.
func encode(v any) string {
	raw, err := chat.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("tools: encode %T: %v", v, err))
	}
	return string(raw)
}

// cutError shortens an overlong error field and leaves every other result as it is.
func cutError(result string) string {
	const suffix = "… [truncated]"
	if len(result) <= maxErrorChars || result[0] != '{' {
		return result
	}
	field := gjson.Get(result, "error")
	if field.Type != gjson.String || len(field.Str) <= maxErrorChars {
		return result
	}
	object, err := chat.ParseObject([]byte(result))
	if err != nil {
		return result
	}
	message := []rune(field.Str)
	if len(message) <= maxErrorChars {
		return result
	}
	object.Set("error", chat.AppendString(nil, string(message[:maxErrorChars])+suffix))
	return string(object.Append(nil))
}

// cutChars returns the first n characters of s.
func cutChars(s string, n int) string {
	if len(s) <= n {
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

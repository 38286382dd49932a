package agentloop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/parsers"
	"github.com/tidwall/gjson"
)

// Config says how to run a loop. Model is required; every other zero value is a
// sensible default, but without a stop condition a loop may run for ever.
type Config struct {
	Model model.Client
	Tools Tools // nil: the model gets no tools

	Stop    []StopCondition // asked in order before every model call
	Timeout time.Duration   // ends a model or tool call that is under way; time in which a model.Pool holds requests back doesn't count; 0: none

	Temperature *float64
	MaxTokens   int         // completion tokens per call; 0: the server's default
	Extra       chat.Object // further request fields
	Affinity    string      // see model.Request

	// Parser reads tool calls that a server leaves in the text of an answer;
	// TextCalls says when. nil: text is never parsed.
	Parser    *parsers.Format
	TextCalls TextCalls

	Budget        Budget
	ParallelTools bool // run the calls of one turn at once; results stay in call order

	// GraceTurn grants one more model call without tools when a turn limit is
	// hit, so that the model can state its answer.
	GraceTurn bool

	// Reply, if not nil, is asked after an answer that would end the conversation: the
	// messages it returns go on with it, none ends it. Its error ends the loop as a
	// *ReplyError.
	Reply func(ctx context.Context, soFar *Result) ([]chat.Message, error)
}

// ReplyError is a failure of Config.Reply.
type ReplyError struct{ Err error }

// Error returns the text for people.
func (e *ReplyError) Error() string { return "reply to the agent: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ReplyError) Unwrap() error { return e.Err }

// errTimeLimit is the cause of the loop's own deadline, told apart from the caller's.
var errTimeLimit = errors.New("time limit of the rollout reached")

// roomForMessages is how many messages a conversation can grow by before its
// list has to be moved; most are shorter.
const roomForMessages = 24

const graceText = "You have reached the limit of turns and can no longer call tools. Give your final answer now."

type loop struct {
	cfg     Config
	tools   Tools
	offered *chat.Toolset
	result  *Result
	ids     map[string]bool // ids of all tool calls so far
	start   time.Time
	held    *model.Held

	parserTools []parsers.Tool
}

// Run drives a conversation that starts with the given messages. The Result is
// never nil. The error is not nil when the model endpoint or the sandbox failed
// or ctx ended; the Result then holds what was done until there.
func Run(ctx context.Context, cfg Config, messages []chat.Message) (*Result, error) {
	cfg.Budget = cfg.Budget.withDefaults()
	l := &loop{
		cfg:   cfg,
		tools: cfg.Tools,
		result: &Result{
			Messages: append(make([]chat.Message, 0, len(messages)+roomForMessages), messages...),
			Turns:    make([]Turn, 0, roomForMessages/2),
		},
		ids:   make(map[string]bool),
		start: time.Now(),
	}
	if session, ok := cfg.Model.(model.Session); ok {
		defer func() { l.result.Sequences = session.Sequences() }()
	}
	if l.tools != nil {
		l.offered = l.tools.Definitions()
	}
	if cfg.Parser != nil && cfg.TextCalls != TextCallsNever {
		l.parserTools = parserToolsOf(l.offered)
	}
	if cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, l.held, cancel = model.WithTimeout(ctx, cfg.Timeout, errTimeLimit)
		defer cancel()
	} else {
		ctx, l.held = model.WithHeld(ctx)
	}
	for {
		if reason := l.stop(); reason != "" {
			l.result.StopReason = reason
			if reason == StopTurnLimit && cfg.GraceTurn {
				return l.result, l.fail(ctx, l.grace(ctx))
			}
			return l.result, nil
		}
		done, err := l.turn(ctx)
		if err != nil {
			return l.result, l.fail(ctx, err)
		}
		if !done {
			continue
		}
		if done, err = l.reply(ctx); err != nil {
			return l.result, l.fail(ctx, err)
		}
		if done {
			return l.result, nil
		}
	}
}

// reply goes on with the conversation after an answer if Config.Reply has messages.
func (l *loop) reply(ctx context.Context) (done bool, err error) {
	if l.cfg.Reply == nil || !l.result.FinishedNaturally {
		return true, nil
	}
	messages, err := l.cfg.Reply(ctx, l.result)
	if err != nil {
		return true, &ReplyError{err}
	}
	if len(messages) == 0 {
		return true, nil
	}
	l.result.FinishedNaturally = false
	if reason := l.stop(); reason != "" {
		l.result.StopReason = reason
		return true, nil
	}
	l.result.StopReason = ""
	l.result.Messages = append(l.result.Messages, messages...)
	return false, nil
}

func (l *loop) stop() StopReason {
	p := Progress{Turns: l.result.TurnsUsed, Usage: l.result.Usage, Elapsed: time.Since(l.start) - l.held.Total(), Messages: l.result.Messages}
	for _, condition := range l.cfg.Stop {
		if reason := condition(p); reason != "" {
			return reason
		}
	}
	return ""
}

// fail sorts an error: limits that ran out are results, not failures.
func (l *loop) fail(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var failure *modelFailure
	isModel := errors.As(err, &failure)
	var modelErr *model.Error
	switch {
	case errors.Is(context.Cause(ctx), errTimeLimit):
		l.result.StopReason = StopTimeLimit
		return nil
	case ctx.Err() != nil:
		l.result.StopReason = StopCancelled
		return context.Cause(ctx)
	case isModel && errors.As(err, &modelErr) && modelErr.Kind == model.KindContextLength:
		l.result.StopReason = StopContextLength
		return nil
	case isModel:
		l.result.StopReason = StopModelError
	default:
		l.result.StopReason = StopSandboxError
	}
	return err
}

// ask sends the conversation and appends the answer.
func (l *loop) ask(ctx context.Context, turn *Turn, extra chat.Object) (*model.Response, error) {
	started, held := time.Now(), l.held.Total()
	l.result.TurnsUsed++
	request := &model.Request{
		Messages:    l.result.Messages,
		Tools:       l.offered,
		Temperature: l.cfg.Temperature,
		MaxTokens:   l.cfg.MaxTokens,
		Extra:       extra,
		Affinity:    l.cfg.Affinity,
	}
	resp, err := l.cfg.Model.Complete(ctx, request)
	if err != nil && l.quoteBrokenArguments(err) {
		resp, err = l.cfg.Model.Complete(ctx, request)
	}
	turn.Model, turn.Held = time.Since(started), l.held.Total()-held
	if err != nil {
		return nil, &modelFailure{err}
	}
	if err := l.take(turn, resp); err != nil {
		return nil, &modelFailure{err}
	}
	return resp, nil
}

// take appends an answer to the conversation.
func (l *loop) take(turn *Turn, resp *model.Response) error {
	turn.Queue = resp.Wait
	turn.Usage = resp.Usage
	turn.FinishReason = resp.FinishReason
	l.result.Usage = l.result.Usage.Add(resp.Usage)
	message, err := l.readText(resp.Message)
	if err == nil {
		message, err = l.uniqueIDs(message)
	}
	if err != nil {
		return err
	}
	resp.Message = message
	l.result.Messages = append(l.result.Messages, message)
	l.result.ReasoningPerTurn = append(l.result.ReasoningPerTurn, reasoningOf(message))
	return nil
}

// turn makes one model call and runs what it asks for; done means that the loop is over.
func (l *loop) turn(ctx context.Context) (done bool, err error) {
	started := time.Now()
	l.result.Turns = append(l.result.Turns, Turn{})
	turn := &l.result.Turns[len(l.result.Turns)-1]
	defer func() { turn.Total = time.Since(started) }()

	resp, err := l.ask(ctx, turn, l.cfg.Extra)
	if err != nil {
		return false, err
	}
	calls := resp.Message.ToolCalls()
	if len(calls) == 0 || l.tools == nil {
		l.finish(resp)
		if len(calls) > 0 {
			l.refuseCalls(calls, "Unknown tool: no tools are available.")
		}
		return true, nil
	}
	toolsStarted := time.Now()
	turn.ToolCalls = len(calls)
	l.result.ToolCalls += len(calls)
	results, err := l.runCalls(ctx, l.result.TurnsUsed, calls, resp.FinishReason == "length")
	l.cfg.Budget.apply(ctx, l.tools, results)
	for _, r := range results {
		l.result.Messages = append(l.result.Messages, chat.Tool(r.callID, r.text))
	}
	turn.Tools = time.Since(toolsStarted)
	return false, err
}

// finish records why an answer without tool calls ended the loop.
func (l *loop) finish(resp *model.Response) {
	r := l.result
	refusal := gjson.GetBytes(resp.Message.JSON(), "refusal").String() != ""
	switch {
	case resp.FinishReason == "length":
		r.StopReason = StopAnswerCut
	case refusal:
		r.StopReason, r.FinishedNaturally = StopRefusal, true
	case resp.FinishReason == "content_filter":
		r.StopReason = StopContentFilter
	case resp.Message.Text() == "" && resp.Message.NativeReasoning() == "":
		r.StopReason, r.FinishedNaturally = StopEmpty, true
	default:
		r.StopReason, r.FinishedNaturally = StopNatural, true
	}
}

// grace asks for a final answer without tools. The stop reason stays the limit.
func (l *loop) grace(ctx context.Context) error {
	started := time.Now()
	l.result.Messages = append(l.result.Messages, chat.User(graceText))
	l.result.Turns = append(l.result.Turns, Turn{})
	turn := &l.result.Turns[len(l.result.Turns)-1]
	defer func() { turn.Total = time.Since(started) }()
	extra := append(chat.Object(nil), l.cfg.Extra...)
	if l.offered.Len() > 0 {
		// The definitions stay: servers refuse a history with calls but no tools.
		extra.Set("tool_choice", []byte(`"none"`))
	}
	resp, err := l.ask(ctx, turn, extra)
	if err != nil {
		return err
	}
	l.refuseCalls(resp.Message.ToolCalls(), notRunGrace)
	return nil
}

// refuseCalls answers calls that will not run, so that none is left without a result.
func (l *loop) refuseCalls(calls []chat.ToolCall, why string) {
	l.result.ToolCalls += len(calls)
	l.result.InvalidToolCalls += len(calls)
	for _, c := range calls {
		l.result.Messages = append(l.result.Messages, chat.Tool(c.ID, errorResult(why)))
	}
}

// uniqueIDs renames calls whose id was used in an earlier turn: servers that
// count from zero in every answer would otherwise make results ambiguous.
func (l *loop) uniqueIDs(m chat.Message) (chat.Message, error) {
	repeated := false
	for _, c := range m.ToolCalls() {
		repeated = repeated || l.ids[c.ID]
	}
	if repeated {
		var err error
		m, err = chat.Normalize(m.JSON(), func(id string) bool { return l.ids[id] }, mintCallID)
		if err != nil {
			return m, err
		}
	}
	for _, c := range m.ToolCalls() {
		l.ids[c.ID] = true
	}
	return m, nil
}

func mintCallID() string {
	return fmt.Sprintf("call_%016x%08x", rand.Uint64(), rand.Uint32())
}

// modelFailure marks an error that came out of a model call, whatever its type.
type modelFailure struct{ err error }

func (f *modelFailure) Error() string { return f.err.Error() }
func (f *modelFailure) Unwrap() error { return f.err }

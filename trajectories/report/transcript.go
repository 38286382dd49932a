package report

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// transcript is what the page shows of one rollout. It travels as compressed JSON.
type transcript struct {
	ID       string     `json:"id"`
	Item     string     `json:"item"`
	Attempt  int        `json:"attempt"`
	Step     int        `json:"step"`
	Outcome  string     `json:"outcome"`
	Class    string     `json:"class"`
	Score    *float64   `json:"score"`
	Passed   *bool      `json:"passed"`
	Error    *clip      `json:"error,omitempty"`
	Tampered []tampered `json:"tampering,omitempty"`
	Facts    []Fact     `json:"facts"`
	Messages []message  `json:"messages"`
	Left     int        `json:"left,omitempty"`  // messages left out in the middle
	After    int        `json:"after,omitempty"` // they stood after so many of Messages
}

// tampered is one thing that the agent did to the verification.
type tampered struct {
	Kind   string `json:"kind"`
	Text   string `json:"text"`
	Active bool   `json:"active"`
}

// message is one message of a transcript.
type message struct {
	Role      string `json:"role"`
	Number    int    `json:"n,omitempty"`
	Text      *clip  `json:"text,omitempty"`
	Reasoning *clip  `json:"reasoning,omitempty"`
	Calls     []call `json:"calls,omitempty"`
	CallID    string `json:"call,omitempty"` // of a tool message
	Tool      string `json:"tool,omitempty"` // that answered
	Failed    bool   `json:"failed,omitempty"`
	Note      string `json:"note,omitempty"` // time and tokens of the turn
}

type call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments *clip  `json:"arguments"`
}

// clip is a text that may lack its middle.
type clip struct {
	Head string `json:"head"`
	Left int    `json:"left,omitempty"` // characters left out between head and tail
	Tail string `json:"tail,omitempty"`
}

// clipped returns the text with at most limit characters.
func clipped(text string, limit int) *clip {
	if text == "" {
		return nil
	}
	if len(text) <= limit { // bytes are never fewer than characters
		return &clip{Head: Visible(text)}
	}
	count := utf8.RuneCountInString(text)
	if count <= limit {
		return &clip{Head: Visible(text)}
	}
	head, tail := limit*2/3, limit/3
	return &clip{Head: Visible(firstRunes(text, head)), Left: count - head - tail, Tail: Visible(lastRunes(text, tail))}
}

func firstRunes(s string, n int) string {
	at := 0
	for ; n > 0 && at < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return s[:at]
}

func lastRunes(s string, n int) string {
	at := len(s)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return s[at:]
}

// shorten cuts the text to at most limit characters.
func (c *clip) shorten(limit int) {
	if c == nil {
		return
	}
	head, tail := utf8.RuneCountInString(c.Head), utf8.RuneCountInString(c.Tail)
	if head+tail <= limit {
		return
	}
	if c.Left == 0 {
		c.Tail, tail = c.Head, 0 // the end is cut from the one text there is
	}
	c.Head, c.Tail = firstRunes(c.Head, limit*2/3), lastRunes(c.Tail, limit/3)
	c.Left += head + tail - utf8.RuneCountInString(c.Head) - utf8.RuneCountInString(c.Tail)
}

// longest is how much of a text is kept where there is room.
const longest = 40_000

// pack returns the transcript as base64 of compressed JSON in at most size bytes.
// Where that takes more than can be shown, long texts get shorter and then
// messages in the middle are left out; the page says so.
func pack(r *trajectories.Rollout, size int) (string, error) {
	t := newTranscript(r)
	for _, limit := range []int{longest, 12_000, 4_000, 1_200, 400} {
		t.shorten(limit)
		if packed, err := t.encode(); err != nil || len(packed) <= size {
			return packed, err
		}
	}
	for {
		t.halve()
		if packed, err := t.encode(); err != nil || len(packed) <= size || len(t.Messages) <= 2 {
			return packed, err
		}
	}
}

func (t *transcript) shorten(limit int) {
	t.Error.shorten(limit)
	for _, m := range t.Messages {
		m.Text.shorten(limit)
		m.Reasoning.shorten(limit)
		for _, c := range m.Calls {
			c.Arguments.shorten(limit)
		}
	}
}

// halve leaves out the messages in the middle.
func (t *transcript) halve() {
	n := len(t.Messages)
	head, tail := n/4, n/4
	if n < 8 {
		head, tail = min(1, n), min(1, n-1)
	}
	if n <= head+tail {
		return
	}
	t.Left += n - head - tail
	t.After = head
	t.Messages = append(t.Messages[:head:head], t.Messages[n-tail:]...)
}

func (t *transcript) encode() (string, error) {
	raw, err := chat.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("encode the transcript of rollout %s: %w", t.ID, err)
	}
	var out bytes.Buffer
	z, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err != nil {
		return "", err
	}
	if _, err := z.Write(raw); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}

func newTranscript(r *trajectories.Rollout) *transcript {
	const limit = longest
	t := &transcript{ID: Visible(r.ID), Item: Visible(r.ItemID), Attempt: r.Attempt, Step: r.Step, Outcome: string(r.Outcome), Class: outcomeClass(string(r.Outcome)),
		Score: r.Score, Passed: r.Passed, Facts: facts(r), Messages: []message{}}
	if r.Error != nil {
		t.Error = clipped(r.Error.Class+": "+r.Error.Message, limit)
	}
	for _, entry := range r.Tampering {
		t.Tampered = append(t.Tampered, tampered{OneLine(entry.Kind, 40), tamperingText(entry, 300), entry.Active})
	}
	turn, calls := 0, map[string]string{}
	generated := firstGenerated(r)
	for i, m := range r.Messages {
		out := message{Role: roleClass(m.Role()), Number: i + 1}
		if m.Role() == chat.RoleAssistant {
			for _, c := range m.ToolCalls() {
				calls[c.ID] = c.Name
			}
			if i >= generated && turn < len(r.Timings.Turns) {
				out.Note = turnNote(r.Timings.Turns[turn])
				turn++
			}
		}
		text := m.Text()
		if text == "" && len(m.Get("content")) > 0 && m.Get("content")[0] == '[' {
			text = "[content without text]"
		}
		if m.Role() == chat.RoleTool {
			out.CallID, out.Tool, out.Failed = Visible(m.ToolCallID()), OneLine(calls[m.ToolCallID()], 80), trajectories.ToolFailed(text)
			text, out.Note = terminalAnswer(text)
		}
		out.Text = clipped(text, limit)
		out.Reasoning = clipped(m.NativeReasoning(), limit)
		for _, c := range m.ToolCalls() {
			out.Calls = append(out.Calls, call{ID: Visible(c.ID), Name: OneLine(c.Name, 80), Arguments: clipped(c.Arguments, limit)})
		}
		t.Messages = append(t.Messages, out)
	}
	// What the tests printed is shown like a message, after the conversation.
	metadata := gjson.ParseBytes(r.Metadata)
	t.addVerifier("", metadata.Get("verifier"))
	for _, stage := range metadata.Get("stages").Array() {
		t.addVerifier("stage "+OneLine(stage.Get("name").String(), 60), stage.Get("verifier"))
	}
	return t
}

// addVerifier adds what a verifier's tests printed, where the record kept it.
func (t *transcript) addVerifier(stage string, verifier gjson.Result) {
	out := verifier.Get("test_stdout")
	if out.Type != gjson.String || out.Str == "" {
		return
	}
	var notes []string
	if stage != "" {
		notes = append(notes, stage)
	}
	if code := verifier.Get("exit_code"); code.Type == gjson.Number {
		notes = append(notes, "exit code "+code.Raw)
	}
	t.Messages = append(t.Messages, message{Role: "verifier", Text: clipped(out.Str, longest), Note: strings.Join(notes, " · ")})
}

// terminalAnswer returns the output of a command and its exit code where an answer
// is nothing but those, and else the answer as it is.
func terminalAnswer(text string) (output, note string) {
	if !strings.HasPrefix(text, "{") || !gjson.Valid(text) {
		return text, ""
	}
	v := gjson.Parse(text)
	plain := v.Get("output").Type == gjson.String && v.Get("exit_code").Type == gjson.Number
	v.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "output", "exit_code":
		default:
			plain = plain && value.Type == gjson.Null
		}
		return plain
	})
	if !plain {
		return text, ""
	}
	return v.Get("output").Str, "exit code " + v.Get("exit_code").Raw
}

// firstGenerated is the position of the first assistant message that a model call
// of the rollout made; earlier ones came with the prompt.
func firstGenerated(r *trajectories.Rollout) int {
	assistants := 0
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role() == chat.RoleAssistant {
			if assistants++; assistants == r.TurnsUsed {
				return i
			}
		}
	}
	return 0
}

func roleClass(role chat.Role) string {
	switch role {
	case chat.RoleSystem, chat.RoleUser, chat.RoleAssistant, chat.RoleTool:
		return string(role)
	}
	return "system"
}

func turnNote(t trajectories.TurnTiming) string {
	parts := []string{"model " + Seconds(t.Model)}
	if t.Tools > 0 {
		parts = append(parts, "tools "+Seconds(t.Tools))
	}
	if t.PromptTokens+t.CompletionTokens > 0 {
		parts = append(parts, fmt.Sprintf("%s → %s tokens", trajectories.Thousands(t.PromptTokens), trajectories.Thousands(t.CompletionTokens)))
	}
	if t.FinishReason != "" && t.FinishReason != "stop" && t.FinishReason != "tool_calls" {
		parts = append(parts, "ended by "+OneLine(t.FinishReason, 40))
	}
	return strings.Join(parts, " · ")
}

// facts are the figures at the head of a transcript.
func facts(r *trajectories.Rollout) []Fact {
	list := []Fact{{"rollout", Visible(r.ID)}, {"stopped because", Visible(r.StopReason)}, {"turns", fmt.Sprint(r.TurnsUsed)}, {"time", Seconds(r.Timings.Total)}}
	add := func(name, value string) {
		if value != "" {
			list = append(list, Fact{name, value})
		}
	}
	t := r.Timings
	if t.Total > 0 {
		add("of that", fmt.Sprintf("model %s · tools %s · sandbox %s · verifier %s", Seconds(t.Model), Seconds(t.Tools), Seconds(t.Sandbox), Seconds(t.Verify)))
	}
	if r.Usage.TotalTokens > 0 {
		add("tokens", fmt.Sprintf("%s prompt (%s cached) + %s completion", trajectories.Thousands(r.Usage.PromptTokens), trajectories.Thousands(r.Usage.CachedTokens), trajectories.Thousands(r.Usage.CompletionTokens)))
	}
	if s := r.Spend; s != nil && s.Calls() > 0 {
		if usd, known := s.USD(); known && usd > 0 {
			add("cost", costText(s, usd))
		}
	}
	var parts []string
	for _, p := range r.ScoreParts {
		parts = append(parts, fmt.Sprintf("%s %g", OneLine(p.Name, 40), p.Value))
	}
	add("score parts", strings.Join(parts, " · "))
	if len(r.ToolErrors) > 0 {
		add("calls that failed in the harness", fmt.Sprint(len(r.ToolErrors)))
	}
	if r.Sandbox != nil {
		add("sandbox", strings.TrimSpace(r.Sandbox.Backend+" "+Visible(r.Sandbox.Image)+" "+r.Sandbox.Digest))
		for _, event := range r.Sandbox.Events {
			add("sandbox "+event.Kind, sandboxEvent(event))
		}
	}
	if !r.StartedAt.IsZero() {
		add("started", r.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	add("item digest", Visible(r.ItemDigest))
	metadata := string(r.Metadata)
	for _, shown := range []string{"verifier.test_stdout", "verifier.ctrf"} {
		if short, err := sjson.Delete(metadata, shown); err == nil {
			metadata = short
		}
	}
	if c := clipped(metadata, 2000); c != nil {
		text := c.Head
		if c.Left > 0 {
			text += " … " + c.Tail
		}
		add("metadata", text)
	}
	return list
}

// tamperingText is what an entry concerns, on one line.
func tamperingText(t trajectories.Tampering, n int) string {
	parts := slices.DeleteFunc([]string{t.Target, t.Detail}, func(s string) bool { return s == "" })
	return OneLine(strings.Join(parts, " · "), n)
}

// costText is what a rollout cost, and for what beside the agent's own calls.
func costText(s *trajectories.Spend, usd float64) string {
	text := trajectories.Dollars(usd)
	for _, part := range []struct {
		bill trajectories.Bill
		what string
	}{{s.Judge, "for judging"}, {s.FailedTries, "for tries that failed"}} {
		if part.bill.USD != nil && *part.bill.USD > 0 {
			text += fmt.Sprintf(", %s of it %s", trajectories.Dollars(*part.bill.USD), part.what)
		}
	}
	return text
}

// itemName is an item's id for people.
func itemName(id string) string { return Visible(trajectories.ShortItemID(id)) }

// sandboxEvent says what happened to a sandbox.
func sandboxEvent(e trajectories.SandboxEvent) string {
	text := Visible(e.Text)
	if e.Inside {
		text += " · by what ran in it"
	}
	if e.Lost {
		text += " · processes were lost"
	}
	if e.Try > 1 {
		text += fmt.Sprintf(" · try %d", e.Try)
	}
	return text
}

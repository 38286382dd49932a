package convert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/parsers"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

// Consumer is a program or service that trains on the files.
type Consumer string

// The consumers. What each reads is in docs/convert.md.
const (
	TRL          Consumer = "trl"
	Axolotl      Consumer = "axolotl"
	LLaMAFactory Consumer = "llamafactory"
	Verl         Consumer = "verl"
	OpenRLHF     Consumer = "openrlhf"
	OpenAITuning Consumer = "openai"
	Together     Consumer = "together"
)

// Consumers lists them in the order help shows them.
func Consumers() []Consumer {
	return []Consumer{TRL, Axolotl, LLaMAFactory, Verl, OpenRLHF, OpenAITuning, Together}
}

// flat says that the consumer reads nothing but roles and texts: calls, answers and tools
// become text in the format of the model.
func (c Consumer) flat() bool { return c == Verl || c == OpenRLHF || c == Together }

// defaultParser is the format of calls in flat conversations without --parser.
const defaultParser = "hermes"

// checkFor fits the other options to the consumer.
func (o *Options) checkFor() error {
	if o.For == "" && o.To == KTO {
		o.For = TRL
	}
	if o.For == "" {
		return nil
	}
	if !slices.Contains(Consumers(), o.For) {
		return usage("unknown consumer %q: want one of %v", o.For, Consumers())
	}
	if o.To == "" {
		o.To = Messages
	}
	switch {
	case o.To == Messages, o.To == KTO && o.For == TRL:
	case o.To == Preference && (o.For == TRL || o.For == OpenAITuning || o.For == Together):
	default:
		return usage("the format %s can't be written for %s", o.To, o.For)
	}
	encoding := table.JSONLines
	if o.For == Verl {
		encoding = table.Parquet
	}
	if o.Encoding != "" && o.Encoding != encoding {
		return usage("%s reads %s, not %s", o.For, encoding, o.Encoding)
	}
	o.Encoding = encoding
	if o.For.flat() && o.Text.Template != "" {
		return usage("for %s calls are written in a tool-call format: give --parser instead of a chat template", o.For)
	}
	if o.For.flat() && o.Text.Parser == "" {
		o.Text.Parser = defaultParser
	}
	return nil
}

// unfit says why a row can't be given to the consumer, "" when it can.
func (c Consumer) unfit(r *Row) string {
	if c == "" {
		return ""
	}
	messages := upToAnswer(r.Messages)
	if len(messages) == 0 {
		return reasonNoAnswer
	}
	switch c {
	case LLaMAFactory:
		if thoughtInside(messages) {
			return "reasoning or arguments hold a <think> mark, at which LLaMA-Factory splits the turn"
		}
		if !alternates(factoryTurns(messages, &losses{})) {
			return "turns don't alternate between the model and others, as LLaMA-Factory requires"
		}
	case Together:
		if first := messages[0].Role(); first != chat.RoleUser && !isSystem(messages[0]) {
			return "the conversation does not begin with a user's message, as Together requires"
		}
		if slices.ContainsFunc(messages[1:], isSystem) {
			return "a system message is not the first message, as Together requires"
		}
	case OpenAITuning:
		if unanswered(messages) {
			return "a tool call is not answered before the next message, as OpenAI requires"
		}
	}
	return ""
}

func isSystem(m chat.Message) bool { return m.Role() == chat.RoleSystem || m.Role() == "developer" }

// upToAnswer leaves out what follows the last message of the model.
func upToAnswer(messages []chat.Message) []chat.Message {
	for i := len(messages); i > 0; i-- {
		if messages[i-1].Role() == chat.RoleAssistant {
			return messages[:i]
		}
	}
	return nil
}

// unanswered says whether a call before the last message has no answer behind it.
func unanswered(messages []chat.Message) bool {
	open := map[string]bool{}
	for _, m := range messages {
		if m.Role() == chat.RoleTool {
			delete(open, m.ToolCallID())
			continue
		}
		if len(open) > 0 {
			return true
		}
		for _, c := range m.ToolCalls() {
			open[c.ID] = true
		}
	}
	return false
}

// thoughtInside reports whether a turn would be split at another place than behind its
// reasoning: LLaMA-Factory takes what stands between the first <think> and the next
// </think> for reasoning, and reads the rest of a turn with calls as JSON.
func thoughtInside(messages []chat.Message) bool {
	for _, m := range messages {
		if m.Role() != chat.RoleAssistant {
			continue
		}
		reasoning, calls := m.NativeReasoning(), m.ToolCalls()
		if strings.Contains(reasoning, "</think>") {
			return true
		}
		if len(calls) == 0 || strings.TrimSpace(reasoning) != "" {
			continue
		}
		if _, rest, found := strings.Cut(string(factoryCalls(calls)), "<think>"); found && strings.Contains(rest, "</think>") {
			return true
		}
	}
	return false
}

// hasTools reports whether a row defines tools.
func hasTools(r *Row) bool { return toolsText(r) != "[]" }

// appendTools appends the tools of a row as text, or null if it has none: templates take an
// empty list for tools and add the text that introduces them.
func appendTools(dst []byte, r *Row) []byte {
	if !hasTools(r) {
		return append(dst, "null"...)
	}
	return chat.AppendString(dst, toolsText(r))
}

// consumerRows makes the rows for a consumer.
type consumerRows struct {
	consumer Consumer
	text     *textWriter // of flat conversations
	features features
}

// line is a row as a JSON object.
func (w *consumerRows) line(r *Row) ([]byte, losses, error) {
	var l losses
	messages := upToAnswer(r.Messages)
	l.add("messages after the last answer of the model", len(r.Messages)-len(messages))
	tools := []byte(toolsText(r))
	var list []byte
	var err error
	switch w.consumer {
	case LLaMAFactory:
		line := append([]byte(`{"conversations":`), appendFactory(nil, factoryTurns(messages, &l))...)
		line = append(append(line, `,"tools":`...), chat.AppendString(nil, string(tools))...)
		return append(line, '}'), l, nil
	case Verl, OpenRLHF, Together:
		var turns []flatTurn
		if turns, err = w.text.flat(r, messages, &l); err != nil {
			return nil, nil, err
		}
		return append(append([]byte(`{"messages":`), appendFlat(nil, turns)...), '}'), l, nil
	case OpenAITuning:
		list = openAIMessages(messages, &l)
		if string(tools) == "[]" {
			return append(append([]byte(`{"messages":`), list...), '}'), l, nil
		}
		line := append(append([]byte(`{"messages":`), list...), `,"tools":`...)
		return append(append(line, tools...), '}'), l, nil
	case TRL:
		line := append(append([]byte(`{"messages":`), w.messages(messages, &l, true)...), `,"tools":`...)
		return append(appendTools(line, r), '}'), l, nil
	default:
		list = w.messages(messages, &l, false)
	}
	line := append(append([]byte(`{"messages":`), list...), `,"tools":`...)
	return append(append(line, chat.AppendString(nil, string(tools))...), '}'), l, nil
}

// row is the same for Parquet.
func (w *consumerRows) row(r *Row) (table.Row, losses, error) {
	var l losses
	messages := upToAnswer(r.Messages)
	l.add("messages after the last answer of the model", len(r.Messages)-len(messages))
	turns, err := w.text.flat(r, messages, &l)
	if err != nil {
		return nil, nil, err
	}
	list := make([]table.Value, len(turns))
	for i, t := range turns {
		list[i] = table.Values(table.Text(t.role), table.Text(t.text))
	}
	return table.Row{{Set: true, List: list}}, l, nil
}

// flatSchema is the schema of Parquet files of flat conversations.
func flatSchema() table.Schema {
	return table.Schema{{Name: "messages", Type: table.ListOf(messageType(&features{}))}}
}

// messages writes chat messages. As values, the arguments of calls are JSON values and
// members without a value are left out: the data set declares free JSON. Else arguments
// are text and every message has the same members, which loaders without such a type
// need.
func (w *consumerRows) messages(messages []chat.Message, l *losses, values bool) []byte {
	names := map[string]string{} // of tools, by the id of their call
	out := []byte{'['}
	for i, m := range messages {
		l.oddMembers(m, "name")
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, `{"role":`...), chat.AppendString(nil, string(m.Role()))...)
		out = append(append(out, `,"content":`...), chat.AppendString(nil, m.Text())...)
		member := func(name string, has bool, value []byte) {
			if !has {
				if values {
					return
				}
				value = []byte("null")
			}
			out = append(append(out, `,"`+name+`":`...), value...)
		}
		if reasoning := m.NativeReasoning(); w.features.reasoning {
			member("reasoning_content", reasoning != "", chat.AppendString(nil, reasoning))
		}
		calls := m.ToolCalls()
		for _, c := range calls {
			names[c.ID] = c.Name
		}
		if w.features.calls {
			member("tool_calls", len(calls) > 0, appendToolCalls(nil, calls, values))
		}
		if w.features.answers {
			id := m.ToolCallID()
			answer := m.Role() == chat.RoleTool
			member("tool_call_id", answer, chat.AppendString(nil, id))
			member("name", answer && names[id] != "", chat.AppendString(nil, names[id]))
		}
		out = append(out, '}')
	}
	return append(out, ']')
}

func appendToolCalls(dst []byte, calls []chat.ToolCall, values bool) []byte {
	dst = append(dst, '[')
	for i, c := range calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, `{"id":`...), chat.AppendString(nil, c.ID)...)
		dst = append(append(dst, `,"type":"function","function":{"name":`...), chat.AppendString(nil, c.Name)...)
		dst = append(append(append(dst, `,"arguments":`...), arguments(c, values)...), `}}`...)
	}
	return append(dst, ']')
}

// arguments are those of a call as a value, or as text.
func arguments(c chat.ToolCall, value bool) []byte {
	if value && isObjectText(c.Arguments) {
		return []byte(compact(c.Arguments))
	}
	return chat.AppendString(nil, c.Arguments)
}

// openAIMessages writes messages with the members that OpenAI's fine-tuning takes.
func openAIMessages(messages []chat.Message, l *losses) []byte {
	out := []byte{'['}
	for i, m := range messages {
		if i > 0 {
			out = append(out, ',')
		}
		var o chat.Object
		o.Set("role", chat.AppendString(nil, string(m.Role())))
		calls := m.ToolCalls()
		if m.Role() == chat.RoleAssistant && len(calls) == 0 {
			o.Set("content", chat.AppendString(nil, m.Text()))
		}
		chat.EachMember(m.JSON(), func(name string, value []byte) bool {
			switch name {
			case "role", "tool_calls":
			case "content":
				if o.Get("content") == nil {
					o.Set("content", value)
				}
			case "name", "weight", "tool_call_id", "refusal":
				if !isNull(value) {
					o.Set(name, value)
				}
			default:
				if !isNull(value) {
					l.add(fmt.Sprintf("member %.60s of messages", name), 1)
				}
			}
			return true
		})
		if len(calls) > 0 {
			o.Set("tool_calls", appendToolCalls(nil, calls, false))
		}
		out = append(out, o.Append(nil)...)
	}
	return append(out, ']')
}

// flatTurn is a message of nothing but a role and a text.
type flatTurn struct{ role, text string }

func appendFlat(dst []byte, turns []flatTurn) []byte {
	dst = append(dst, '[')
	for i, t := range turns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, `{"role":`...), chat.AppendString(nil, t.role)...)
		dst = append(append(append(dst, `,"content":`...), chat.AppendString(nil, t.text)...), '}')
	}
	return append(dst, ']')
}

// flat writes a conversation as roles and texts that alternate: calls in the format of
// the model, answers as the user's, the tools in the system message.
func (w *textWriter) flat(r *Row, messages []chat.Message, l *losses) ([]flatTurn, error) {
	var turns []flatTurn
	add := func(role, text string) {
		if n := len(turns); n > 0 && turns[n-1].role == role {
			turns[n-1].text += "\n" + text
			return
		}
		turns = append(turns, flatTurn{role, text})
	}
	if prompt := w.toolPrompt(r, &messages, l); prompt != "" {
		add("system", prompt)
	}
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		l.oddMembers(m)
		switch {
		case m.Role() == chat.RoleTool:
			end := i
			for end < len(messages) && messages[end].Role() == chat.RoleTool {
				end++
			}
			texts, err := w.results(messages[i:end])
			if err != nil {
				return nil, fmt.Errorf("write rollout %s as text: %w", r.ID, err)
			}
			for _, text := range texts {
				add("user", text)
			}
			i = end - 1
		case m.Role() == chat.RoleAssistant:
			add("assistant", w.answer(m, l))
		case isSystem(m):
			add("system", m.Text())
		default:
			add("user", m.Text())
		}
	}
	return turns, nil
}

// results are the turns of answers to calls in the format of the model.
func (w *textWriter) results(messages []chat.Message) ([]string, error) {
	results := make([]parsers.Result, len(messages))
	for i, m := range messages {
		results[i] = parsers.Result{CallID: m.ToolCallID(), Content: m.Text()}
	}
	return w.format.RenderResults(results)
}

// factoryTurns are the turns of LLaMA-Factory's sharegpt formatting: a system turn, then
// human or observation, and gpt or function_call.
func factoryTurns(messages []chat.Message, l *losses) (turns []flatTurn) {
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		l.oddMembers(m)
		thought := ""
		if reasoning := strings.Trim(m.NativeReasoning(), "\n"); strings.TrimSpace(reasoning) != "" {
			thought = "<think>\n" + reasoning + "\n</think>\n\n"
		}
		calls := m.ToolCalls()
		switch {
		case m.Role() == chat.RoleTool:
			texts := []string{m.Text()}
			for ; i+1 < len(messages) && messages[i+1].Role() == chat.RoleTool; i++ {
				texts = append(texts, messages[i+1].Text())
			}
			turns = append(turns, flatTurn{"observation", strings.Join(texts, "\n</tool_response>\n<tool_response>\n")})
		case m.Role() == chat.RoleAssistant && len(calls) > 0:
			if strings.TrimSpace(m.Text()) != "" {
				l.add("text beside tool calls (LLaMA-Factory reads one of them)", 1)
			}
			turns = append(turns, flatTurn{"function_call", thought + string(factoryCalls(calls))})
		case m.Role() == chat.RoleAssistant:
			turns = append(turns, flatTurn{"gpt", thought + m.Text()})
		case isSystem(m):
			turns = append(turns, flatTurn{"system", m.Text()})
		default:
			turns = append(turns, flatTurn{"human", m.Text()})
		}
	}
	return turns
}

func factoryCalls(calls []chat.ToolCall) []byte {
	out := []byte{'['}
	for i, c := range calls {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, `{"name":`...), chat.AppendString(nil, c.Name)...)
		out = append(append(append(out, `,"arguments":`...), arguments(c, true)...), '}')
	}
	return append(out, ']')
}

func appendFactory(dst []byte, turns []flatTurn) []byte {
	dst = append(dst, '[')
	for i, t := range turns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, `{"from":`...), chat.AppendString(nil, t.role)...)
		dst = append(append(append(dst, `,"value":`...), chat.AppendString(nil, t.text)...), '}')
	}
	return append(dst, ']')
}

// alternates says whether turns are those of others and of the model by turns, after an
// optional system turn.
func alternates(turns []flatTurn) bool {
	if len(turns) > 0 && turns[0].role == "system" {
		turns = turns[1:]
	}
	for i, t := range turns {
		model := t.role == "gpt" || t.role == "function_call"
		if model != (i%2 == 1) || t.role == "system" {
			return false
		}
	}
	return len(turns) > 0 && len(turns)%2 == 0
}

// features is the YAML of the features of what is written, "" where a loader finds them
// out. Messages are declared as free JSON, so that no loader adds members to them.
func (c Consumer) features(to Format) string {
	const free = "\n    list: json\n"
	switch {
	case c != TRL:
		return ""
	case to == Preference:
		return "  - name: prompt" + free + "  - name: chosen" + free + "  - name: rejected" + free + "  - name: tools\n    dtype: string\n"
	case to == KTO:
		return "  - name: prompt" + free + "  - name: completion" + free + "  - name: label\n    dtype: bool\n  - name: tools\n    dtype: string\n"
	}
	return "  - name: messages" + free + "  - name: tools\n    dtype: string\n"
}

// companions are the files beside the data that the consumer's configuration needs, by
// name. name is that of the data set.
func (c Consumer) companions(name string) (map[string][]byte, error) {
	switch c {
	case Axolotl:
		return map[string][]byte{"axolotl.yaml": []byte("datasets:\n  - path: " + string(chat.AppendString(nil, name)) + "\n    type: chat_template\n    field_messages: messages\n    field_tools: tools\n" +
			"    roles_to_train: [assistant]\n    train_on_eos: turn\n")}, nil
	case LLaMAFactory:
		info, err := json.MarshalIndent(map[string]any{name: map[string]any{
			"file_name": "data", "formatting": "sharegpt", "columns": map[string]string{"messages": "conversations", "tools": "tools"},
			"tags": map[string]string{"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt", "observation_tag": "observation", "function_tag": "function_call", "system_tag": "system"},
		}}, "", "  ")
		return map[string][]byte{"dataset_info.json": append(info, '\n')}, err
	}
	return nil, nil
}

// usageText says in the card how the consumer is told about the files.
func (c Consumer) usageText(name string, to Format) string {
	switch c {
	case TRL:
		trainer := map[Format]string{Preference: "DPOTrainer", KTO: "KTOTrainer"}[to]
		if trainer == "" {
			trainer = "SFTTrainer"
		}
		return fmt.Sprintf("```python\nfrom datasets import load_dataset  # 4.7 or newer\nfrom trl import %s\ntrainer = %s(model=…, train_dataset=load_dataset(%q, split=\"train\"))\n```\n\n", trainer, trainer, name)
	case Axolotl:
		return "The `datasets` section of the configuration is in `axolotl.yaml`; its path is relative to where Axolotl starts.\n\n"
	case LLaMAFactory:
		return fmt.Sprintf("```yaml\ndataset_dir: %s\ndataset: %s\n```\n\n", name, name)
	case Verl:
		return "```\ndata.train_files=data/*.parquet data.multiturn.messages_key=messages\n```\n\n"
	case OpenRLHF:
		return "```\n--data.dataset FOLDER --data.input_key messages --data.apply_chat_template --data.multiturn\n```\n\n"
	case OpenAITuning:
		return "Upload a file of `data` with the purpose `fine-tune`.\n\n"
	case Together:
		return "```\ntogether files check data/*.jsonl\n```\n\n"
	}
	return ""
}

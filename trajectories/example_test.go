package trajectories_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// A run is created, records a rollout and is resumed: the rollout is there and is
// not recorded a second time.
func Example() {
	base, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(base) }()
	dir := filepath.Join(base, "run")
	info := trajectories.Info{
		Command:     "evaluate",
		Environment: "greeting",
		Config:      json.RawMessage(`{"env":{"max_agent_turns":3}}`),
	}
	score := 1.0
	rollout := &trajectories.Rollout{
		ID: "1", ItemID: "hello", Outcome: trajectories.OutcomeScored, Score: &score,
		Messages: []chat.Message{chat.User("Say hello."), chat.Assistant("Hello.", "")},
	}

	run, err := trajectories.Create(dir, info)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("append:", run.Append(context.Background(), rollout))
	fmt.Println("close:", run.Close(trajectories.StatusInterrupted))

	run, err = trajectories.Resume(dir, info)
	if err != nil {
		fmt.Println(err)
		return
	}
	entry, found := run.Lookup(rollout.Key())
	fmt.Println("found:", found, entry.Outcome, *entry.Score)
	fmt.Println("close:", run.Close(trajectories.StatusDone))

	info.Config = json.RawMessage(`{"env":{"max_agent_turns":5}}`)
	_, err = trajectories.Resume(dir, info)
	var changed *trajectories.ConfigChangedError
	if errors.As(err, &changed) {
		fmt.Println(changed.Differences)
	}
	// Output:
	// append: <nil>
	// close: <nil>
	// found: true scored 1
	// close: <nil>
	// [env.max_agent_turns: 3 -> 5]
}

// ShareGPT turns a conversation into the published training format.
func ExampleShareGPT_Conversations() {
	tools, err := chat.NewToolset(chat.ToolDefinition{Name: "terminal", Description: "Run a command"})
	if err != nil {
		fmt.Println(err)
		return
	}
	converter := trajectories.NewShareGPT(trajectories.ShareGPTConfig{Tools: tools})
	turns, _ := converter.Conversations([]chat.Message{
		chat.User("Which files are there?"),
		chat.Assistant("", "I should look.", chat.ToolCall{ID: "1", Name: "terminal", Arguments: `{"command":"ls"}`}),
		chat.Tool("1", "a.txt"),
		chat.Assistant("Only a.txt.", ""),
	}, []string{"terminal"})
	for _, turn := range turns[1:] {
		fmt.Printf("[%s]\n%s\n", turn.From, turn.Value)
	}
	// Output:
	// [human]
	// Which files are there?
	// [gpt]
	// <think>
	// I should look.
	// </think>
	// <tool_call>
	// {"name": "terminal", "arguments": {"command": "ls"}}
	// </tool_call>
	// [tool]
	// <tool_response>
	// {"tool_call_id": "1", "name": "terminal", "content": "a.txt"}
	// </tool_response>
	// [gpt]
	// <think>
	// </think>
	// Only a.txt.
}

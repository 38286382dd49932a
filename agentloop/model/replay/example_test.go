package replay_test

import (
	"context"
	"fmt"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/replay"
)

func Example() {
	script, err := replay.Parse("demo.yaml", []byte(`
conversations:
  - match: {contains: hello.txt}
    turns:
      - reasoning: A file with one line is asked for.
        calls:
          - name: write_file
            arguments: {path: hello.txt, content: "Hello\n"}
      - content: I wrote hello.txt.
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := replay.New(script, replay.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := server.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()

	client, err := model.NewChat(model.Server{BaseURL: server.BaseURL(), Model: "replay"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.CloseIdleConnections()
	messages := []chat.Message{chat.User("Write a greeting to hello.txt.")}
	for {
		answer, err := client.Complete(ctx, &model.Request{Messages: messages})
		if err != nil {
			fmt.Println(err)
			return
		}
		messages = append(messages, answer.Message)
		calls := answer.Message.ToolCalls()
		if len(calls) == 0 {
			fmt.Println(answer.Message.Text())
			return
		}
		for _, call := range calls {
			fmt.Println(call.ID, call.Name, call.Arguments)
			messages = append(messages, chat.Tool(call.ID, `{"ok":true}`))
		}
	}
	// Output:
	// replay-0-0-0-0 write_file {"path":"hello.txt","content":"Hello\n"}
	// I wrote hello.txt.
}

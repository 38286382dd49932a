// Command phonebook is an environment whose agent has a tool of the environment's own,
// is scored by what it answers, and gets a reply if the answer has the wrong form:
//
//	go run ./docs/examples/phonebook tools
//	go run ./docs/examples/phonebook validate
//	go run ./docs/examples/phonebook evaluate --openai.base_url http://localhost:8000/v1 --openai.model_name my-model
package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// settings are the environment's own fields of the env section.
type settings struct {
	Replies int `yaml:"replies" default:"1" min:"0" help:"replies to answers without a number"`
}

type entry struct{ Name, Number string }

type phonebook struct {
	entries []entry
	replies int
	next    int
}

func (e *phonebook) Name() string                { return "phonebook" }
func (e *phonebook) Setup(context.Context) error { return nil }

func (e *phonebook) NextItem(context.Context) (env.Item, error) {
	if e.next == len(e.entries) {
		return env.Item{}, io.EOF
	}
	e.next++
	return env.NewItem(e.entries[e.next-1].Name, e.entries[e.next-1])
}

func (e *phonebook) FormatPrompt(item env.Item) ([]chat.Message, error) {
	return []chat.Message{chat.User("What is the number of " + item.Value.(entry).Name + "? Look it up.")}, nil
}

// Tools are offered beside the built-in ones; the toolset phonebook has them.
func (e *phonebook) Tools() []tools.Tool {
	return []tools.Tool{{
		Name: "lookup", Toolset: "phonebook", Description: "Finds entries of the phone book by a part of the name.",
		Parameters: []byte(`{"type":"object","properties":{"name":{"type":"string","description":"part of a name"}},"required":["name"]}`),
		Handler: func(_ context.Context, call *tools.Call) (string, error) {
			name, err := call.Args.Required("name")
			if err != nil {
				return tools.ErrorResult("lookup: " + err.Error()), nil // the model reads it and tries again
			}
			var found []string
			for _, entry := range e.entries {
				if strings.Contains(strings.ToLower(entry.Name), strings.ToLower(name)) {
					found = append(found, entry.Name+": "+entry.Number)
				}
			}
			return fmt.Sprintf("%d entries\n%s", len(found), strings.Join(found, "\n")), nil
		},
	}}
}

var number = regexp.MustCompile(`\d{3}-\d{4}`)

// Respond asks again for a number if there is none in the answer. How often it did so is
// in the conversation: nothing is kept between calls.
func (e *phonebook) Respond(_ context.Context, _ env.Item, soFar *agentloop.Result, _ *toolcontext.Context) ([]chat.Message, error) {
	const again = "Answer with the number, such as 555-0100."
	asked := 0
	for _, m := range soFar.Messages {
		if m.Role() == chat.RoleUser && m.Text() == again {
			asked++
		}
	}
	if number.MatchString(soFar.FinalText()) || asked == e.replies {
		return nil, nil
	}
	return []chat.Message{chat.User(again)}, nil
}

func (e *phonebook) Reward(_ context.Context, item env.Item, result *agentloop.Result, _ *toolcontext.Context) (env.Score, error) {
	if number.FindString(result.FinalText()) == item.Value.(entry).Number {
		return env.Score{Value: 1}, nil
	}
	return env.Score{Value: 0}, nil
}

// OracleAnswer is the reference solution of an environment that is scored by answers.
func (e *phonebook) OracleAnswer(_ context.Context, item env.Item, _ *toolcontext.Context) (string, error) {
	return "It is " + item.Value.(entry).Number + ".", nil
}

func definition() env.Definition {
	return env.Define("phonebook", "numbers to be looked up with a tool",
		func(common *config.Env, _ *settings) {
			common.EnabledToolsets = []string{"phonebook"}
			common.MaxAgentTurns = 8
		},
		func(_ config.Env, own settings) (env.Environment, error) {
			return &phonebook{replies: own.Replies, entries: []entry{
				{"Ada Lovelace", "555-0115"}, {"Alan Turing", "555-0136"}, {"Grace Hopper", "555-0144"}, {"Barbara Liskov", "555-0168"},
			}}, nil
		})
}

func main() { cli.Main(definition()) }

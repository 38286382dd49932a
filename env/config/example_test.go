package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-env/hermes-env/env/config"
)

// An environment declares its own fields and reads them typed; mistakes are all
// reported at once.
func ExampleLoad() {
	type quiz struct {
		Topic string `yaml:"topic" default:"any" choices:"any,history,maths" help:"what is asked about"`
	}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "quiz.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			fmt.Println(err)
		}
	}
	options := config.Options{
		File:         file,
		Flags:        []config.Flag{{Name: "env.max_agent_turns", Value: "5"}},
		Environments: []config.Environment{{Name: "quiz", Own: func() any { return &quiz{} }}},
	}

	write("env: {topic: history}\nopenai: {base_url: 'http://127.0.0.1:8000/v1', model_name: m}\n")
	r, err := config.Load(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Own.(*quiz).Topic, r.Env.MaxAgentTurns, r.Origin("env.max_agent_turns"))

	write("env: {topic: histroy, group_sise: 2}\nopenai: {base_url: 'http://127.0.0.1:8000/v1'}\n")
	_, err = config.Load(options)
	fmt.Println(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))
	// Output:
	// history 5 --env.max_agent_turns
	// quiz.yaml:1:14: env.topic: want one of any, history, maths, got "histroy"; did you mean "history"?
	// quiz.yaml:1:23: env.group_sise: unknown key; did you mean "group_size"?
	// quiz.yaml:2:9: openai.model_name: missing; write the name the server knows the model by
}

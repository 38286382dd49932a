// Command arithmetic is an environment in one file, with all commands of hermes-env:
//
//	go run ./docs/examples/arithmetic evaluate --agent oracle
//	go run ./docs/examples/arithmetic evaluate --openai.base_url http://localhost:8000/v1 --openai.model_name my-model
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/cli"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
)

// settings are the environment's own fields of the env section.
type settings struct {
	Problems int `yaml:"problems" default:"5" min:"1" help:"number of problems"`
	Digits   int `yaml:"digits" default:"4" min:"1" max:"9" help:"digits of each factor"`
}

type problem struct{ A, B int }

type arithmetic struct {
	problems []problem
	next     int
}

func (e *arithmetic) Name() string                { return "arithmetic" }
func (e *arithmetic) Setup(context.Context) error { return nil }

func (e *arithmetic) NextItem(context.Context) (env.Item, error) {
	if e.next == len(e.problems) {
		return env.Item{}, io.EOF
	}
	p := e.problems[e.next]
	e.next++
	return env.NewItem(fmt.Sprintf("%d-times-%d", p.A, p.B), p)
}

func (e *arithmetic) FormatPrompt(item env.Item) ([]chat.Message, error) {
	p := item.Value.(problem)
	return []chat.Message{chat.User(fmt.Sprintf("Write the product of %d and %d to the file ~/answer.txt.", p.A, p.B))}, nil
}

func (e *arithmetic) Reward(ctx context.Context, item env.Item, _ *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
	answer, err := tc.ReadFile(ctx, "~/answer.txt")
	if errors.Is(err, fs.ErrNotExist) {
		return env.Score{Value: 0}, nil // the agent's doing; any other error is not, and leaves the rollout unscored
	}
	p := item.Value.(problem)
	if err == nil && strings.TrimSpace(string(answer)) == fmt.Sprint(p.A*p.B) {
		return env.Score{Value: 1}, nil
	}
	return env.Score{Value: 0}, err
}

// Oracle is optional: it makes --agent oracle work, which should score 1.
func (e *arithmetic) Oracle(ctx context.Context, item env.Item, tc *toolcontext.Context) error {
	p := item.Value.(problem)
	return tc.WriteFile(ctx, "~/answer.txt", []byte(fmt.Sprintln(p.A*p.B)))
}

func definition() env.Definition {
	return env.Define("arithmetic", "products of random numbers, written to a file",
		func(common *config.Env, _ *settings) { common.MaxAgentTurns = 5 },
		func(common config.Env, own settings) (env.Environment, error) {
			// The same seed gives the same problems, so that a run can be resumed.
			rng, e := rand.New(rand.NewPCG(uint64(common.Seed), 0)), &arithmetic{}
			limit := 1
			for range own.Digits {
				limit *= 10
			}
			for range own.Problems {
				e.problems = append(e.problems, problem{rng.IntN(limit), rng.IntN(limit)})
			}
			return e, nil
		})
}

func main() { cli.Main(definition()) }

package env_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
)

func TestTheThinkingPromptComesBeforeAllElseThatTheSystemMessageSays(t *testing.T) {
	on := config.Reasoning{ThinkingMode: true, CustomThinkingPrompt: "Think.\n"}
	for name, tt := range map[string]struct {
		reasoning config.Reasoning
		system    string // configured
		own       string // of the environment
		want      string
	}{
		"alone":                                   {reasoning: on, want: "Think.\n"},
		"before the configured system prompt":     {reasoning: on, system: "Be brief.", want: "Think.\n\nBe brief."},
		"before that of the environment":          {reasoning: on, system: "Be brief.", own: "You are an expert.", want: "Think.\n\nYou are an expert."},
		"not without thinking":                    {reasoning: config.Reasoning{CustomThinkingPrompt: "Think."}, system: "Be brief.", want: "Be brief."},
		"not where thinking has no text":          {reasoning: config.Reasoning{ThinkingMode: true}},
		"with an effort, which is thinking too":   {reasoning: config.Reasoning{ReasoningEffort: "low", CustomThinkingPrompt: "Think."}, want: "Think."},
		"not where there is nothing to be put in": {},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, modeltest.Always(modeltest.Text("x")))
			h.change = func(o *env.Options) { o.Config.Reasoning, o.Config.SystemPrompt = tt.reasoning, tt.system }
			e := &counting{items: 1}
			if tt.own != "" {
				e.prompt = func(env.Item) ([]chat.Message, error) {
					return []chat.Message{chat.System(tt.own), chat.User("hello")}, nil
				}
			}
			_, rollouts, err := h.run(t.Context(), config.Evaluate, e)
			require.NoError(t, err)
			first := rollouts[0].Messages[0]
			if tt.want == "" {
				require.Equal(t, chat.RoleUser, first.Role())
				return
			}
			require.Equal(t, chat.RoleSystem, first.Role())
			require.Equal(t, tt.want, first.Text())
			require.Equal(t, chat.RoleUser, rollouts[0].Messages[1].Role())
		})
	}
}

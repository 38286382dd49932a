package config

import (
	"fmt"
	"strings"
)

// Reasoning is the part of the env: section about how much the model is to think.
type Reasoning struct {
	ThinkingMode         bool   `yaml:"thinking_mode" default:"false" help:"ask the model to reason before it answers, with every chat request: reasoning_effort (medium unless set) of api.openai.com, the object reasoning of all other servers"`
	ReasoningEffort      string `yaml:"reasoning_effort" nullable:"true" choices:"none,minimal,low,medium,high,xhigh" help:"how much it is to reason; switches thinking_mode on"`
	MaxReasoningTokens   *int   `yaml:"max_reasoning_tokens" min:"1024" max:"32000" unit:"tokens" help:"most tokens of reasoning, for servers other than api.openai.com; switches thinking_mode on, and reasoning_effort wins over it where both are set"`
	CustomThinkingPrompt string `yaml:"custom_thinking_prompt" nullable:"true" help:"text at the beginning of the system message while thinking_mode is on; default is a text of hermes-env that asks for reasoning in think tags, null adds none"`
}

// Active says whether reasoning is asked for.
func (r Reasoning) Active() bool {
	return r.ThinkingMode || r.ReasoningEffort != "" || r.MaxReasoningTokens != nil
}

// Prompt returns the text for the system message, "" when there is none.
func (r Reasoning) Prompt() string {
	switch {
	case !r.Active():
		return ""
	case r.CustomThinkingPrompt == "default":
		return defaultThinkingPrompt
	}
	return r.CustomThinkingPrompt
}

const defaultThinkingPrompt = "Think the problem through before you answer. Write your reasoning between <think> and </think>: " +
	"take the time it needs, try more than one way, check each step, and correct yourself where you find a mistake. " +
	"After </think> give your answer or your next tool call."

// validateReasoning checks the reasoning fields against each other and the servers.
func (l *loader) validateReasoning() {
	r := &l.config.Env.Reasoning
	if r.CustomThinkingPrompt != "" && !r.Active() && l.ok("env.thinking_mode", "env.reasoning_effort", "env.max_reasoning_tokens") {
		l.reject("env.custom_thinking_prompt", "acts only with thinking_mode; set env.thinking_mode to true")
	}
	if !r.Active() || !l.ok("openai") {
		return
	}
	field := "env.thinking_mode"
	switch {
	case r.ReasoningEffort != "":
		field = "env.reasoning_effort"
	case r.MaxReasoningTokens != nil:
		field = "env.max_reasoning_tokens"
	}
	for i := range l.config.Servers {
		s := &l.config.Servers[i]
		switch {
		case s.ServerType != "openai" && !isEmbedded(s) && (r.CustomThinkingPrompt == "" || field != "env.thinking_mode"):
			l.reject(field, fmt.Sprintf("a server of type %s gets the text of its chat template, which has no place for it; set env.thinking_mode with env.custom_thinking_prompt, or the template's own switch in env.extra_body (chat_template_kwargs)", s.ServerType))
		case strings.Contains(s.BaseURL, openAIHost) && r.ReasoningEffort == "" && r.MaxReasoningTokens != nil:
			l.reject("env.max_reasoning_tokens", openAIHost+" has no such limit; use env.reasoning_effort")
		}
	}
	list, _ := members(l.config.Env.ExtraBody)
	for _, m := range list {
		if m.key == "reasoning" || m.key == "reasoning_effort" {
			l.reject("env.extra_body", fmt.Sprintf("%s is set by %s already; write it in one of the two", m.key, field))
		}
	}
}

// openAIHost is where the names and rules of OpenAI's own service hold.
const openAIHost = "api.openai.com"

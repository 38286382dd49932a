package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// originalEnv is an environment of the original framework that is not here.
type originalEnv struct {
	title   string
	names   []string // as users and files call it
	keys    []string // keys of the env: section that no other environment has
	instead string   // what can be used here, or ""
}

// originalEnvs lists the environments of hermes-agent that are not here.
func originalEnvs() []originalEnv {
	return []originalEnv{
		{title: "YC-Bench", names: []string{"yc-bench", "yc_bench_env", "ycbench"}, keys: []string{"survival_weight", "funds_weight"}},
		{title: "hermes-agent's SWE environment", names: []string{"hermes-swe", "hermes_swe_env", "swe", "swe-env"},
			instead: "the environment prompts runs such rows with a reward of type command or program"},
		{title: "TauBench", names: []string{"taubench", "tau-bench"}},
		{title: "hermes-agent's web research environment", names: []string{"web-research", "web_research_env"}, keys: []string{"efficiency_weight", "diversity_bonus"}},
		{title: "hermes-agent's environment for on-policy distillation", names: []string{"agentic-opd", "agentic_opd_env", "opd"}, keys: []string{"prm_votes", "hint_max_tokens"}},
	}
}

// absent says that the environment is not here.
func (o originalEnv) absent() string {
	if o.instead != "" {
		return fmt.Sprintf("%s, which is not available here (%s)", o.title, o.instead)
	}
	return o.title + ", which is not available here"
}

// originalEnvironment returns the absent environment with a name, or nil.
func originalEnvironment(name string) *originalEnv {
	return findOriginal(func(o originalEnv) bool {
		return slices.ContainsFunc(o.names, func(n string) bool { return sameName(n, name) })
	})
}

// originalEnvironmentWithKeys returns the absent environment that one of the keys belongs
// to, or nil.
func originalEnvironmentWithKeys(keys []string) *originalEnv {
	return findOriginal(func(o originalEnv) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return slices.Contains(o.keys, k) })
	})
}

func findOriginal(match func(originalEnv) bool) *originalEnv {
	list := originalEnvs()
	if i := slices.IndexFunc(list, match); i >= 0 {
		return &list[i]
	}
	return nil
}

// foreignFile says what a YAML file is that has none of the keys of a configuration, or
// returns "".
func foreignFile(root *yaml.Node) string {
	if root.Kind != yaml.MappingNode || len(root.Content) == 0 {
		return ""
	}
	for _, key := range []string{"environment", "agent", "env", "openai", "slurm", "testing"} {
		if lookup(root, key) != nil {
			return ""
		}
	}
	const keys = "a configuration has the keys environment, agent, env and openai, and this file has none of them"
	switch {
	case lookup(root, "summarization") != nil:
		return keys + "; it configures the compressor: pass it to the command compress"
	case lookup(root, "dataset") != nil:
		return keys + "; files of Atropos' dataset environment have a form of their own: write a file for the environment prompts (its dataset_name, prompt_field and reward), with the other fields below env"
	case lookup(root, "env_config") != nil || lookup(root, "server_configs") != nil:
		return keys + "; write the fields of env_config below env, and the servers below openai"
	}
	return keys
}

// withoutNull returns a mapping without a key whose value is null, so that the default
// counts.
func withoutNull(n *yaml.Node, key string) *yaml.Node {
	if v := lookup(n, key); v == nil || !isNull(v) {
		return n
	}
	out := *n
	out.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != key {
			out.Content = append(out.Content, n.Content[i], n.Content[i+1])
		}
	}
	return &out
}

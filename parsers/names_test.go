package parsers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names that vLLM and SGLang register, as of November 2026: vLLM at commit
// 138810056093, after version 0.31, and SGLang at commit 734cf3cf3b92. Names
// that only older or proposed versions have come last in each list.
var (
	vllmToolParsers = strings.Fields(`apertus cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4
		deepseek_v41 dots ernie45 functiongemma gemma4 gigachat3 glm45 glm47 openai granite granite-20b-fc granite4 hermes
		hunyuan_a13b hy_v3 hy_v4 inkling internlm jamba k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3_json llama4_json
		llama4_pythonic longcat mimo minicpm5 minimax_m2 minimax_m3 mistral muse_glimmer olmo3 phi4_mini_json plamo3
		poolside_v1 pythonic qwen3_coder qwen3_xml hf seed_oss step3 step3p5 xlam
		minimax solar_open2`)
	sglangToolParsers = strings.Fields(`apertus2509 cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 deepseekv41 dots
		glm glm45 glm47 gpt-oss k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3 mimo minicpm5 mistral muse poolside_v1 pythonic
		qwen qwen25 qwen3_coder spark25 step3 step3p5 minimax-m2 minimax-m3 nanbeige trinity interns1 hermes hunyuan
		gigachat3 gigachat35 gemma4 inkling iquest_q1`)
	vllmReasoningParsers = strings.Fields(`cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v4 deepseek_v41 ernie45
		gemma4 glm45 glm47 openai_gptoss granite granite_thinking_parser holo2 hunyuan_a13b hy_v3 hy_v4 inkling k2_horizon
		kimi_k2 kimi_k3 ling3 mimo minimax_m2_append_think minimax_m2 minimax_m3 mistral muse_glimmer nemotron_v3 olmo3 plamo3
		poolside_v1 qwen3 hf seed_oss step3 step3p5
		solar_open2`)
	sglangReasoningParsers = strings.Fields(`apertus2509 cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 deepseek-v41 dots gemma4
		gigachat35 glm45 gpt-oss granite_thinking_parser hunyuan inkling interns1 iquest_q1 k2_horizon kimi kimi_k2 kimi_k3 ling3
		mimo minimax minimax-append-think minimax-m3 mistral muse nanbeige nemotron_3 plamo3 poolside_v1 qwen3 qwen3-thinking
		step3 step3p5`)
)

// withoutFormat are the names that resolve to nothing, and what their error says.
var (
	withoutFormat    = map[string]string{"hf": "response template", "minimax": "MiniMax-M1 is not supported"}
	withoutReasoning = map[string]string{"hf": "response template", "iquest_q1": "not established"}
)

func TestLookup_KnowsNamesOfServers(t *testing.T) {
	for server, names := range map[string][]string{"vLLM": vllmToolParsers, "SGLang": sglangToolParsers} {
		for _, name := range names {
			f, err := Lookup(name)
			if why, absent := withoutFormat[name]; absent {
				require.ErrorContains(t, err, why, "%s of %s", name, server)
				require.ErrorContains(t, err, name)
				continue
			}
			require.NoError(t, err, "%s of %s", name, server)
			require.Contains(t, append(f.Aliases(), f.Name()), name)
		}
	}
}

func TestLookupReasoning_KnowsNamesOfServers(t *testing.T) {
	for server, names := range map[string][]string{"vLLM": vllmReasoningParsers, "SGLang": sglangReasoningParsers} {
		for _, name := range names {
			r, err := LookupReasoning(name)
			if why, absent := withoutReasoning[name]; absent {
				require.ErrorContains(t, err, why, "%s of %s", name, server)
				continue
			}
			require.NoError(t, err, "%s of %s", name, server)
			require.Contains(t, append(r.Aliases(), r.Name()), name)
		}
	}
	_, err := LookupReasoning("qwen-3")
	require.ErrorContains(t, err, `did you mean "qwen3"?`)
	require.ErrorContains(t, err, "deepseek_r1")
}

// TestLookup_NamesMeanTheSameFormat pairs names of the two servers that stand
// for one wire format.
func TestLookup_NamesMeanTheSameFormat(t *testing.T) {
	for name, want := range map[string]string{
		"qwen3_xml": "qwen3_coder", "step3p5": "qwen3_coder", "nanbeige": "qwen3_coder", "granite-20b-fc": "granite_20b_fc", "qwen25": "qwen",
		"deepseekv3": "deepseek_v3", "deepseekv31": "deepseek_v3_1", "deepseekv32": "deepseek_v3_2", "deepseekv4": "deepseek_v4", "deepseekv41": "deepseek_v4_1",
		"gpt-oss": "gpt_oss", "openai": "gpt_oss", "minimax-m2": "minimax_m2", "minimax-m3": "minimax_m3", "llama3": "llama3_json", "glm": "glm45", "ling3": "glm47",
		"trinity": "hermes", "interns1": "internlm", "apertus2509": "apertus", "cohere_command3": "cohere_command4", "muse": "muse_glimmer", "hunyuan": "hy_v3",
	} {
		f, err := Lookup(name)
		require.NoError(t, err)
		require.Equal(t, want, f.Name(), name)
	}
}

func TestAllReasoning_IsComplete(t *testing.T) {
	seen := map[string]bool{}
	var tags []TagPair
	for _, r := range AllReasoning() {
		require.NotEmpty(t, r.Description(), r.Name())
		require.True(t, r.split != nil || len(r.tags) > 0, "%s can't split anything", r.Name())
		for _, name := range append(r.Aliases(), r.Name()) {
			require.False(t, seen[name], "%s is there twice", name)
			seen[name] = true
		}
		tags = append(tags, r.tags...)
	}
	require.Subset(t, tags, ReasoningTags(), "every pair of tags has a name")
	require.ElementsMatch(t, ReasoningNames(), keysOf(seen))
}

func keysOf(m map[string]bool) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

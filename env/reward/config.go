package reward

import (
	"github.com/hermes-env/hermes-env/env/config"
)

// Types of parts.
const (
	TypeExact      = "exact"
	TypeNormalized = "normalized"
	TypeRegex      = "regex"
	TypeNumeric    = "numeric"
	TypeCommand    = "command"
	TypeProgram    = "program"
	TypeJudge      = "judge"
)

// What Config.OnPartError may say.
const (
	PartErrorFails = "fail"
	PartErrorSkips = "skip"
)

// Config is a reward as the reward: section has it: one Part, or a list of them that is added up.
type Config struct {
	Part
	Parts       []Part `yaml:"parts" help:"several rewards whose weighted sum is the score, in place of one type; each is written like the reward itself"`
	OnPartError string `yaml:"on_part_error" default:"fail" choices:"fail,skip" help:"what a part that can't tell does: fail leaves the rollout unscored, skip leaves the part out and scales the other weights up"`
}

// Part is one reward. Which fields count depends on its type.
type Part struct {
	Type   string  `yaml:"type" nullable:"true" help:"exact, normalized, regex or numeric compare the final answer with a reference; command runs in the sandbox, program on this machine; judge asks a model"`
	Name   string  `yaml:"name" nullable:"true" help:"name in the records; null is the type"`
	Weight float64 `yaml:"weight" default:"1" help:"what the part's score is multiplied with; may be negative"`

	ReferenceField   string `yaml:"reference_field" nullable:"true" help:"column with the right answer, or a list of right answers of which one must match; dots lead inside"`
	Extract          string `yaml:"extract" default:"whole" choices:"whole,last_line,regex,tag,boxed" help:"which part of the last message is the answer"`
	ExtractPattern   string `yaml:"extract_pattern" nullable:"true" help:"extract regex: expression whose last match, or its first group, is the answer; extract tag: name of the tag"`
	AnswerReasoning  string `yaml:"answer_reasoning" default:"auto" choices:"auto,drop,keep" help:"whether reasoning in tags (<think>…</think>) at the beginning of the last message belongs to the answer; auto drops it but for a pattern alone, which may ask for the tags"`
	ReferenceExtract string `yaml:"reference_extract" default:"whole" choices:"whole,last_line,regex,tag,boxed" help:"which part of the reference is compared"`
	ReferencePattern string `yaml:"reference_pattern" nullable:"true" help:"as extract_pattern, for the reference"`

	Pattern string `yaml:"pattern" nullable:"true" help:"type regex: expression the answer must match somewhere; with reference_field its first group is compared with the reference"`
	Compare string `yaml:"compare" default:"exact" choices:"exact,normalized,numeric" help:"type regex with reference_field: how the group is compared"`

	AbsoluteTolerance float64 `yaml:"absolute_tolerance" default:"0" min:"0" help:"numeric: difference that still counts as equal"`
	RelativeTolerance float64 `yaml:"relative_tolerance" default:"0" min:"0" max:"1" help:"numeric: difference that still counts as equal, as a share of the reference"`

	Script      string            `yaml:"script" nullable:"true" help:"type command: shell script, run in the rollout's sandbox after the agent's processes were ended; $REWARD_DIR holds answer.txt, row.json, messages.json and files"`
	Files       map[string]string `yaml:"files" help:"type command: files put into $REWARD_DIR before, each name with a file or folder of this machine"`
	Result      string            `yaml:"result" default:"exit_code" choices:"exit_code,number,json" help:"type command: where the score is: exit_code 0 is 1 and any other 0; number is the last line of the output; json is an object with score there"`
	Directory   string            `yaml:"directory" nullable:"true" help:"command: working directory in the sandbox; program: on this machine"`
	Environment map[string]string `yaml:"environment" help:"command and program: variables set for it; nothing else of this program's environment but PATH, HOME and the like reaches it"`
	Timeout     config.Seconds    `yaml:"timeout" default:"60" min:"0.001" affects:"no" help:"command and program: limit of one rollout's score; a judge has judge.timeout"`

	Program         []string `yaml:"program" help:"type program: program and arguments, started once and asked over standard input; see docs/rewards.md"`
	PassEnvironment []string `yaml:"pass_environment" affects:"no" help:"type program: names of variables of this program's environment that it may see"`
	Processes       int      `yaml:"processes" default:"1" min:"1" max:"256" affects:"no" help:"type program: processes started"`
	MaxInFlight     int      `yaml:"max_in_flight" default:"16" min:"1" max:"10000" affects:"no" help:"type program: requests one process has at a time; the program may ask for fewer"`

	Rubric         string             `yaml:"rubric" nullable:"true" help:"type judge: what is judged and what deserves which score; {{column}} inserts values of the row"`
	JudgePrompt    string             `yaml:"judge_prompt" nullable:"true" help:"type judge: the whole message to the judge in place of the built-in one, with {{@rubric}}, {{@prompt}}, {{@answer}}, {{@transcript}}, {{@reference}} and columns"`
	JudgeSees      string             `yaml:"judge_sees" default:"answer" choices:"answer,transcript" help:"type judge: the last message only, or the whole conversation with its tool calls"`
	JudgeModel     string             `yaml:"judge_model" nullable:"true" help:"type judge: model in place of judge.model_name"`
	Verdict        string             `yaml:"verdict" default:"json" choices:"json,regex,choice" help:"type judge: how its answer is read: json is an object with score, regex is a number in the first group of verdict_pattern, choice is one of the words in choices"`
	VerdictPattern string             `yaml:"verdict_pattern" nullable:"true" help:"type judge: expression for verdict regex; its last match counts"`
	Choices        map[string]float64 `yaml:"choices" help:"type judge: words for verdict choice and the score of each"`
	ScaleMin       float64            `yaml:"scale_min" default:"0" help:"type judge: score that becomes 0"`
	ScaleMax       float64            `yaml:"scale_max" default:"1" help:"type judge: score that becomes 1"`
	Votes          int                `yaml:"votes" default:"1" min:"1" max:"99" help:"type judge: times the judge is asked"`
	VoteRule       string             `yaml:"vote_rule" default:"mean" choices:"mean,majority" help:"type judge: mean of the votes, or the score most of them gave"`
	JudgeTemp      float64            `yaml:"judge_temperature" default:"0" min:"0" help:"type judge: sampling temperature"`
	JudgeMaxTokens int                `yaml:"judge_max_tokens" default:"4096" min:"1" unit:"tokens" help:"type judge: longest answer"`
	JudgeRetries   int                `yaml:"judge_retries" default:"1" min:"0" max:"20" affects:"no" help:"type judge: more questions after an answer that can't be read"`
	JudgeChars     int                `yaml:"judge_chars" default:"200000" min:"1000" unit:"characters" help:"type judge: longest transcript or answer shown; more is cut in the middle"`
}

// list returns the parts of a reward and the path of each below the section.
func (c Config) list() (parts []Part, paths []string) {
	if len(c.Parts) == 0 {
		if c.Type == "" {
			return nil, nil
		}
		return []Part{c.Part}, []string{""}
	}
	for i, p := range c.Parts {
		parts = append(parts, p)
		paths = append(paths, pathOf(i))
	}
	return parts, paths
}

// Empty says whether no reward is configured at all.
func (c Config) Empty() bool { return len(c.Parts) == 0 && c.Type == "" }

// UsesJudge says whether a part asks a model.
func (c Config) UsesJudge() bool { return c.has(TypeJudge) }

// NeedsSandbox says whether a part works in the rollout's sandbox.
func (c Config) NeedsSandbox() bool { return c.has(TypeCommand) }

// OnlyCompares says whether no part asks a model or runs a program.
func (c Config) OnlyCompares() bool {
	return !c.has(TypeCommand) && !c.has(TypeProgram) && !c.has(TypeJudge)
}

func (c Config) has(kind string) bool {
	parts, _ := c.list()
	for _, p := range parts {
		if p.Type == kind {
			return true
		}
	}
	return false
}

// name is what the part is called in records.
func (p Part) name() string {
	if p.Name != "" {
		return p.Name
	}
	return p.Type
}

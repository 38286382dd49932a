package batch

// Config are the fields of the env section that batch runs have beside those of every
// environment. They are filled from the flags of the original.
type Config struct {
	RunName              string `yaml:"run_name" nullable:"true" affects:"no" help:"name of the run, and of its folder"`
	DatasetFile          string `yaml:"dataset_file" nullable:"true" affects:"no" help:"JSONL file with one prompt per line"`
	BatchSize            int    `yaml:"prompts_per_file" default:"1" min:"1" unit:"prompts" affects:"no" help:"prompts per batch file"`
	MaxSamples           int    `yaml:"max_samples" default:"0" min:"0" unit:"prompts" affects:"no" help:"rows taken from the head of the file; 0 takes all"`
	MaxTokens            int    `yaml:"max_tokens" default:"0" min:"0" unit:"tokens" help:"longest completion of one model call, in place of max_token_length; 0 leaves it to the server"`
	SendTemperature      bool   `yaml:"send_temperature" default:"false" help:"send agent_temperature; otherwise the server chooses"`
	SystemPromptSHA256   string `yaml:"ephemeral_system_prompt_sha256" nullable:"true" help:"digest of the system prompt that is sent and not recorded"`
	PrefillSHA256        string `yaml:"prefill_messages_sha256" nullable:"true" help:"digest of the messages that are sent before each conversation and not recorded"`
	KeepWithoutReasoning bool   `yaml:"keep_without_reasoning" default:"false" help:"keep samples without reasoning in any turn"`
	IgnoreImages         bool   `yaml:"ignore_images" default:"false" help:"run rows that name an image where images mean nothing"`
}

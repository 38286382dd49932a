package prompts

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/env/dataset"
	"github.com/hermes-env/hermes-env/env/reward"
	"github.com/hermes-env/hermes-env/env/reward/rowtext"
)

// Config is the environment's own part of the env section.
type Config struct {
	DatasetName     string       `yaml:"dataset_name" nullable:"true" affects:"no" help:"file, glob or folder with rows, or a dataset of the Hugging Face hub (org/name); required"`
	DatasetSubset   string       `yaml:"dataset_subset" nullable:"true" help:"subset (configuration) of the dataset"`
	DatasetSplit    string       `yaml:"dataset_split" nullable:"true" help:"split of the dataset; null is train, or the only one there is"`
	DatasetRevision string       `yaml:"dataset_revision" nullable:"true" help:"branch, tag or commit of a dataset on the hub; null is the newest, and the commit is recorded"`
	DatasetFormat   string       `yaml:"dataset_format" default:"auto" choices:"auto,jsonl,json,csv,tsv,parquet,harbor" affects:"no" help:"format of the files; auto looks at names and contents"`
	DatasetFiles    config.Words `yaml:"dataset_files" affects:"no" help:"patterns of the files within the folder or dataset"`
	Columns         config.Words `yaml:"columns" help:"columns to read; null reads all. Only they count for the identity of a row"`
	Delimiter       string       `yaml:"delimiter" nullable:"true" help:"character between the fields of CSV files; null is a comma, or a tab for tsv"`
	TypedCSV        bool         `yaml:"typed_csv" default:"false" help:"make numbers, booleans and nulls of CSV cells that look like them, in place of text"`
	OnBadRow        string       `yaml:"on_bad_row" default:"fail" choices:"fail,skip" affects:"no" help:"what a row does that can't be read or has no prompt: fail ends the run, skip leaves the row out and counts it"`
	MaxRowBytes     int64        `yaml:"max_row_bytes" default:"16777216" min:"1" unit:"bytes" affects:"no" help:"largest row; a larger one is a bad row"`
	MaxPromptChars  int          `yaml:"max_prompt_chars" default:"0" min:"0" unit:"characters" affects:"no" help:"longest prompt; a row with a longer one is a bad row; 0 is no limit"`
	Offset          int64        `yaml:"offset" default:"0" min:"0" unit:"rows" help:"rows left out at the beginning"`
	MaxRows         int64        `yaml:"max_rows" default:"0" min:"0" unit:"rows" affects:"no" help:"rows taken at most; 0 takes all; a resumed run may raise it"`
	Shuffle         bool         `yaml:"shuffle" default:"false" help:"take the rows in an order drawn from seed and their contents, before offset and max_rows count"`
	Epochs          int          `yaml:"epochs" default:"1" min:"0" unit:"passes" mode:"process" affects:"no" help:"times the rows are gone through; 0 never ends before total_steps"`

	EvalDatasetName string `yaml:"eval_dataset_name" nullable:"true" mode:"evaluate" help:"dataset that evaluate takes in place of dataset_name"`
	EvalSplit       string `yaml:"eval_split" nullable:"true" mode:"evaluate" help:"split that evaluate takes in place of dataset_split"`

	PromptField    string `yaml:"prompt_field" default:"prompt" nullable:"true" help:"column with the prompt; dots lead inside"`
	PromptTemplate string `yaml:"prompt_template" nullable:"true" help:"prompt made from columns: {{column}} inserts one, in place of prompt_field"`
	MessagesField  string `yaml:"messages_field" nullable:"true" help:"column with chat messages, of which the last of the user is the prompt, in place of prompt_field"`
	SystemField    string `yaml:"system_field" nullable:"true" help:"column with the system message; a row without one gets system_prompt"`

	PrefillMessages     []json.RawMessage `yaml:"prefill_messages" type:"object" help:"messages put between the system message and the prompt: examples of what is wanted"`
	PrefillMessagesFile string            `yaml:"prefill_messages_file" nullable:"true" help:"JSON or JSON Lines file with such messages"`
	IDField             string            `yaml:"id_field" nullable:"true" help:"column with the name of each row; dots lead inside. null takes the column id if there is one; rows without a name are known by the digest of their content"`
	MetadataFields      config.Words      `yaml:"metadata_fields" help:"columns recorded beside each rollout"`

	ImageField        string            `yaml:"image_field" nullable:"true" help:"column with the container image of a row's sandbox; a row without one gets the backend's"`
	CwdField          string            `yaml:"cwd_field" nullable:"true" help:"column with the working directory in the sandbox"`
	SetupFiles        map[string]string `yaml:"setup_files" help:"files put into every sandbox, each path there with a file or folder of this machine"`
	FilesField        string            `yaml:"files_field" nullable:"true" help:"column with files for the sandbox: an object of paths and texts, or of {content}, {base64} or {path}"`
	FilesRoot         string            `yaml:"files_root" nullable:"true" help:"folder of this machine that {path} in files_field may name files of; null allows none"`
	SetupCommand      string            `yaml:"setup_command" nullable:"true" help:"shell script run in the fresh sandbox; it must end with exit code 0"`
	SetupCommandField string            `yaml:"setup_command_field" nullable:"true" help:"column with such a script, run after setup_command"`
	SetupTimeout      config.Seconds    `yaml:"setup_timeout" default:"300" min:"0.001" affects:"no" help:"limit of each script"`

	Reward reward.Config `yaml:"reward"`
	Judge  config.Server `yaml:"judge"`
}

// ValidateConfig finds what can't work before anything is read.
func (c *Config) ValidateConfig(all *config.Config) []error {
	var errs []error
	at := func(field, format string, args ...any) {
		errs = append(errs, &config.FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if strings.TrimSpace(c.DatasetName) == "" {
		at("dataset_name", "missing; name a file, a glob, a folder, or a dataset of the hub such as org/name")
	}
	if utf8.RuneCountInString(c.Delimiter) > 1 {
		at("delimiter", "want one character, got %q", c.Delimiter)
	}
	c.validatePrompt(at)
	if c.PrefillMessages != nil && c.PrefillMessagesFile != "" {
		at("prefill_messages_file", "can't be combined with prefill_messages")
	}
	if _, err := c.prefill(); err != nil && c.PrefillMessagesFile == "" {
		at("prefill_messages", "%v", err)
	} else if err != nil {
		at("prefill_messages_file", "%v", err)
	}
	c.validateSandbox(all.Env.TerminalBackend, at)
	if c.Reward.Empty() {
		at("reward", "missing; say how rollouts are scored, for example reward: {type: numeric, reference_field: answer} (docs/rewards.md)")
	}
	if field, message := c.Judge.CheckPrices("env.judge", all.Env.BudgetUSD > 0 && c.Reward.UsesJudge()); field != "" {
		at("judge."+field, "%s", message)
	}
	return append(errs, c.Reward.Problems("reward", c.Judge)...)
}

func (c *Config) validatePrompt(at func(field, format string, args ...any)) {
	if _, err := rowtext.Parse(c.PromptTemplate); err != nil {
		at("prompt_template", "%v", err)
	}
	given := 0
	for _, set := range []bool{c.PromptTemplate != "", c.MessagesField != "", c.PromptField != "" && c.PromptField != defaultPromptField} {
		if set {
			given++
		}
	}
	switch {
	case given > 1 && c.PromptTemplate != "":
		at("prompt_template", "can't be combined with prompt_field or messages_field; keep one of them")
	case given > 1:
		at("messages_field", "can't be combined with prompt_field; keep one of the two")
	case given == 0 && c.PromptField == "":
		at("prompt_field", "missing; name the column with the prompt, or set prompt_template or messages_field")
	}
}

const defaultPromptField = "prompt"

func (c *Config) validateSandbox(backend string, at func(field, format string, args ...any)) {
	if c.ImageField != "" && (backend == "local" || backend == "ssh") {
		at("image_field", "sandboxes of terminal_backend %s have no images; choose docker or singularity", backend)
	}
	if c.FilesRoot != "" && c.FilesField == "" {
		at("files_root", "counts only with files_field")
	}
	if _, err := readLocalFiles(c.SetupFiles); err != nil {
		at("setup_files", "%v", err)
	}
}

// options returns what the dataset is opened with.
func (c *Config) options(evaluate bool) dataset.Options {
	o := dataset.Options{
		Name: c.DatasetName, Subset: c.DatasetSubset, Split: c.DatasetSplit, Revision: c.DatasetRevision,
		Files: c.DatasetFiles, OnBadRow: c.OnBadRow, MaxRowBytes: c.MaxRowBytes, Columns: c.Columns, TypedCSV: c.TypedCSV,
	}
	if c.DatasetFormat != "auto" {
		o.Format = c.DatasetFormat
	}
	if c.Delimiter != "" {
		o.Delimiter, _ = utf8.DecodeRuneInString(c.Delimiter)
	}
	if evaluate && c.EvalDatasetName != "" {
		o.Name = c.EvalDatasetName
	}
	if evaluate && c.EvalSplit != "" {
		o.Split = c.EvalSplit
	}
	return o
}

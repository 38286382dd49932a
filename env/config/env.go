package config

import (
	"encoding/json"
	"time"
)

// Seconds is a length of time as users write it: a number of seconds, fractions allowed.
type Seconds float64

// Duration returns s as a time.Duration.
func (s Seconds) Duration() time.Duration {
	return time.Duration(float64(s) * float64(time.Second))
}

// Words is a list of words that may also be written as one text with commas between
// them, as the original framework has them: "fix-git,build-*".
type Words []string

// Mode is the command a configuration is resolved for.
type Mode string

// The commands that run rollouts.
const (
	Evaluate Mode = "evaluate"
	Process  Mode = "process"
	Serve    Mode = "serve"
)

// Env is the env: section, the same for every environment. An environment adds
// fields of its own to the section with a struct of its own, written the same way:
//
//	yaml      the key
//	help      one sentence for people, in lower case
//	default   the value when nobody gives one, written as on the command line
//	min, max  bounds of a number, or of the numbers in a list or map
//	not       a number that is refused although it lies between the bounds
//	choices   the words allowed, separated by commas
//	unit      what a number counts
//	nullable  "true" where null is allowed for text; it then means ""
//	type      "object" where a json.RawMessage must hold a JSON object
//	mode      the one command in which the field acts. Serve runs groups as process
//	          does and evaluates in between, so that all fields act in it
//	affects   "no" where changing the field can't change a result, so that a
//	          resumed run may change it (see Resolved.Digest)
type Env struct {
	GroupSize            int             `yaml:"group_size" default:"4" min:"1" unit:"rollouts" mode:"process" help:"rollouts of one item that form a group"`
	TotalSteps           int             `yaml:"total_steps" default:"1000" min:"-1" not:"0" unit:"groups" mode:"process" affects:"no" help:"groups to run; a resumed run may raise it. In serve the trainer's step after which to end, -1 for the number of steps it says itself, which is the default there"`
	Attempts             int             `yaml:"attempts" default:"1" min:"1" unit:"rollouts" mode:"evaluate" affects:"no" help:"attempts at each item, for pass@k; a resumed run may raise it"`
	MaxItems             int             `yaml:"max_items" default:"0" min:"0" unit:"items" affects:"no" help:"take the first items only; 0 takes all; a resumed run may raise it"`
	SampleItems          int             `yaml:"sample_items" default:"0" min:"0" unit:"items" help:"take so many items only, drawn at random by seed; 0 takes all. A larger sample has the items of a smaller one"`
	MaxNumWorkers        int             `yaml:"max_num_workers" default:"-1" min:"-1" not:"0" unit:"groups" mode:"process" affects:"no" help:"groups in flight; -1 means max_num_workers_per_node times the number of servers"`
	MaxNumWorkersPerNode int             `yaml:"max_num_workers_per_node" default:"8" min:"1" unit:"groups" mode:"process" affects:"no" help:"groups in flight per model server when max_num_workers is -1"`
	MaxEvalWorkers       int             `yaml:"max_eval_workers" default:"16" min:"1" unit:"rollouts" mode:"evaluate" affects:"no" help:"rollouts in flight"`
	Seed                 int64           `yaml:"seed" default:"0" help:"start of every random choice the harness makes; the same seed makes the same choices"`
	SystemPrompt         string          `yaml:"system_prompt" nullable:"true" help:"text of the system message; null sends none, tools never go in here"`
	MaxAgentTurns        int             `yaml:"max_agent_turns" default:"30" min:"1" unit:"model calls" help:"model calls a rollout may make"`
	MaxTokenLength       int             `yaml:"max_token_length" default:"2048" min:"1" unit:"tokens" help:"longest completion of one model call"`
	AgentTemperature     float64         `yaml:"agent_temperature" default:"1.0" min:"0" help:"sampling temperature"`
	ExtraBody            json.RawMessage `yaml:"extra_body" type:"object" help:"further fields of every chat request, sent as written; messages, model, tools, stream and n belong to the harness"`
	ToolCallParser       string          `yaml:"tool_call_parser" default:"hermes" help:"parser for tool calls that a server returns as plain text"`
	ParseToolCalls       string          `yaml:"parse_tool_calls" default:"auto" choices:"auto,always,never" help:"when tool_call_parser reads the text of answers: auto does so for servers of another type than openai, and elsewhere for calls of offered tools that the server left unparsed"`
	TokenizerName        string          `yaml:"tokenizer_name" nullable:"true" help:"tokenizer and chat template for servers that take token ids and name none themselves (openai.tokenizer_name): a model's folder, or its repository on the Hugging Face hub"`
	ParallelToolCalls    bool            `yaml:"parallel_tool_calls" default:"false" help:"run the tool calls of one turn side by side instead of in order; commands of the terminal tool wait for one another all the same, because they share a shell"`
	GraceTurn            bool            `yaml:"grace_turn" default:"false" help:"one last model call without tools when max_agent_turns is reached"`
	RolloutTimeout       Seconds         `yaml:"rollout_timeout" default:"0" min:"0" help:"wall clock the agent has for a rollout; 0 is no limit"`
	RolloutTokenLimit    int             `yaml:"rollout_token_limit" default:"0" min:"0" unit:"tokens" help:"prompt and completion tokens a rollout may use in all; 0 is no limit"`
	BudgetTokens         int             `yaml:"budget_tokens" default:"0" min:"0" unit:"tokens" affects:"no" help:"prompt and completion tokens the whole run may use, those of judges and of tries that failed included; once they are used up no rollout starts any more; 0 is no limit"`
	BudgetUSD            float64         `yaml:"budget_usd" default:"0" min:"0" max:"1000000000" unit:"USD" affects:"no" help:"money the whole run may spend, by the prices of the model servers (openai.price_input and so on); once it is spent no rollout starts any more; 0 is no limit"`
	BudgetTime           Seconds         `yaml:"budget_time" default:"0" min:"0" affects:"no" help:"wall clock of the whole run, all its sessions added up; once it is over no rollout starts any more; 0 is no limit"`

	EnabledToolsets        []string       `yaml:"enabled_toolsets" help:"toolsets the agent gets; null gives it every available tool"`
	DisabledToolsets       []string       `yaml:"disabled_toolsets" help:"toolsets taken away from those enabled or drawn"`
	Distribution           string         `yaml:"distribution" nullable:"true" help:"named distribution that toolsets are drawn from once per group; not together with enabled_toolsets. Toolsets that have no tools here are left out, with a warning"`
	ToolPoolSize           int            `yaml:"tool_pool_size" default:"128" min:"1" unit:"tool calls" affects:"no" help:"tool calls executing at once over all rollouts"`
	DefaultResultSizeChars int            `yaml:"default_result_size_chars" default:"100000" min:"1" unit:"characters" help:"a longer tool result is written to a file in the sandbox and replaced by a preview"`
	TurnBudgetChars        int            `yaml:"turn_budget_chars" default:"200000" min:"1" unit:"characters" help:"tool results of one turn together; the largest are written to files first"`
	PreviewSizeChars       int            `yaml:"preview_size_chars" default:"1500" min:"1" unit:"characters" help:"length of the preview that replaces a result"`
	ToolResultOverrides    map[string]int `yaml:"tool_result_overrides" min:"1" unit:"characters" help:"characters of a result per tool name in place of the default; read_file is never replaced and can't be named"`

	TerminalBackend      string  `yaml:"terminal_backend" default:"local" help:"where sandboxes run"`
	DockerImage          string  `yaml:"docker_image" nullable:"true" help:"image of docker sandboxes whose item names none"`
	ImagePull            string  `yaml:"image_pull" default:"missing" choices:"missing,always,never" affects:"no" help:"when images of docker sandboxes are pulled: always asks the registry once a run for a newer one"`
	MaxImagePulls        int     `yaml:"max_image_pulls" default:"3" min:"1" unit:"images" affects:"no" help:"images pulled at once"`
	MaxImageBuilds       int     `yaml:"max_image_builds" default:"2" min:"1" unit:"images" affects:"no" help:"images built at once"`
	ImageDiskBudgetGB    float64 `yaml:"image_disk_budget_gb" default:"0" min:"0" max:"1000000" unit:"GB" affects:"no" help:"disk that images may hold which the run itself pulls or builds; beyond it those that no attempt needs are removed; 0 keeps all"`
	ComposeAllowUnsafe   bool    `yaml:"compose_allow_unsafe" default:"false" help:"let compose files of items mount the machine's files, use its network and processes, and have privileges"`
	SandboxCapabilities  Words   `yaml:"sandbox_capabilities" help:"Linux capabilities of root in docker sandboxes: a set (restricted, engine, none) and names to add or drop, such as engine,+NET_ADMIN,-NET_RAW; null is restricted, and engine is the container engine's own default"`
	NoNewPrivileges      bool    `yaml:"no_new_privileges" default:"true" help:"keep programs in docker sandboxes from gaining privileges: sudo, su and other set-user-id programs then do nothing"`
	DiskBound            string  `yaml:"disk_bound" default:"auto" choices:"auto,watch" help:"what keeps docker sandboxes within their disk where the engine's storage can't: auto gives each a file system of its own (a loop device) if this program is root on the engine's machine, and else has the server in it watch; watch always has it watch"`
	SingularityImage     string  `yaml:"singularity_image" nullable:"true" help:"SIF file, directory or reference (docker://debian:12) of singularity sandboxes whose item names none"`
	SSHHost              string  `yaml:"ssh_host" nullable:"true" help:"machine of ssh sandboxes"`
	SSHPort              int     `yaml:"ssh_port" default:"22" min:"1" max:"65535" help:"port of its SSH server"`
	SSHUser              string  `yaml:"ssh_user" nullable:"true" help:"account there; null is the name of the user who runs this"`
	SSHKey               string  `yaml:"ssh_key" nullable:"true" affects:"no" help:"private key file; null tries the agent's keys and those in ~/.ssh"`
	SSHKnownHosts        string  `yaml:"ssh_known_hosts" nullable:"true" affects:"no" help:"file with the host's key, which has to be known; null is ~/.ssh/known_hosts and the system's"`
	TerminalTimeout      Seconds `yaml:"terminal_timeout" default:"120" min:"0.001" help:"limit of one command in the sandbox"`
	TerminalLifetime     Seconds `yaml:"terminal_lifetime" default:"3600" min:"0" affects:"no" help:"how long a sandbox outlives a harness that died or hangs without its machine noticing, and how long one lives that no rollout holds; a rollout holds its sandbox however long the model takes; 0 is for ever"`
	MaxStartingSandboxes int     `yaml:"max_starting_sandboxes" default:"0" min:"0" unit:"sandboxes" affects:"no" help:"sandboxes starting at once; 0 lets the harness choose"`

	Prefetch int `yaml:"prefetch" default:"2" min:"0" unit:"items" affects:"no" help:"items whose images are fetched or built while those before them run; 0 waits until they are needed"`

	VerifyTimeout  Seconds `yaml:"verify_timeout" default:"600" min:"0.001" affects:"no" help:"limit of scoring one rollout; one that exceeds it is not scored"`
	Retries        int     `yaml:"retries" default:"1" min:"0" affects:"no" help:"more tries of a rollout that failed for a reason that is not the agent's"`
	MaxUnscored    float64 `yaml:"max_unscored" default:"0.1" min:"0" max:"1" affects:"no" help:"share of rollouts that may stay unscored before the run ends with a warning and a non-zero exit code"`
	SkipUnsound    bool    `yaml:"skip_unsound" default:"false" help:"leave out items that the validate command found broken, trivial, flaky, forgeable or failing"`
	PassThreshold  float64 `yaml:"pass_threshold" default:"1.0" help:"score from which a rollout counts as passed"`
	OnTampering    string  `yaml:"on_tampering" default:"keep" choices:"keep,zero,unscored" help:"what becomes of the score of a rollout whose agent tampered with the verification, where the environment finds that out: keep leaves it, zero makes it 0, unscored takes it away; the command process makes it unscored and serve zero unless it is set"`
	InterruptGrace Seconds `yaml:"interrupt_grace" default:"10" min:"0" affects:"no" help:"time that running rollouts get to finish after the first Ctrl-C"`

	EnsureScoresAreNotSame bool     `yaml:"ensure_scores_are_not_same" default:"true" mode:"process" help:"leave out groups whose scores are all equal; the command process makes it false unless it is set"`
	PartialGroups          int      `yaml:"partial_groups" default:"0" min:"0" unit:"rollouts" mode:"process" help:"keep groups that have lost rollouts (no score, unknown tokens, too long, …) down to this many; 0 keeps whole groups only"`
	Advantages             string   `yaml:"advantages" default:"none" choices:"none,mean,mean_std" mode:"process" help:"advantages sent with groups in place of the trainer's own: the score less the mean of the group, mean_std also divided by its standard deviation"`
	MinTrainedTokens       int      `yaml:"min_trained_tokens" default:"0" min:"0" unit:"tokens" mode:"process" help:"fewest trained tokens of a rollout in a group, where its tokens are known; 0 is no minimum"`
	TruncatedRollouts      string   `yaml:"truncated_rollouts" default:"keep" choices:"keep,zero_advantage,drop" mode:"process" help:"what happens in groups to rollouts whose last answer was cut off at max_token_length: zero_advantage tells the trainer not to learn from them"`
	IncludeMessages        bool     `yaml:"include_messages" default:"false" mode:"process" help:"put the conversations into the saved groups; the command process makes it true unless it is set"`
	DataPathToSaveGroups   string   `yaml:"data_path_to_save_groups" nullable:"true" mode:"process" affects:"no" help:"JSONL file that scored groups are written to, one line per group; an existing file is never overwritten"`
	RolloutServerURL       string   `yaml:"rollout_server_url" default:"http://localhost:8000" mode:"serve" affects:"no" help:"API server that takes the groups for the trainer"`
	InferenceWeight        float64  `yaml:"inference_weight" default:"1" min:"-1" not:"0" mode:"serve" affects:"no" help:"this worker's weight among those of the trainer, which share the model servers; a negative one says nothing and counts as 1"`
	MinBatchAllocation     *float64 `yaml:"min_batch_allocation" min:"0" max:"1" mode:"serve" affects:"no" help:"share of every batch that is kept for groups of this worker; null is none"`
	MaxBatchesOffPolicy    int      `yaml:"max_batches_offpolicy" default:"3" min:"1" unit:"batches" mode:"serve" affects:"no" help:"batches that may wait for the trainer or be under way before no more groups are started"`
	BatchSize              int      `yaml:"batch_size" default:"-1" min:"-1" not:"0" unit:"sequences" mode:"serve" affects:"no" help:"sequences of a batch where the trainer doesn't say; -1 waits until it does"`
	StepsPerEval           int      `yaml:"steps_per_eval" default:"100" min:"-1" unit:"steps" mode:"serve" affects:"no" help:"steps of the trainer between evaluations; 0 and -1 evaluate never"`
	EvalAtStart            bool     `yaml:"eval_at_start" default:"false" mode:"serve" affects:"no" help:"evaluate before the first group as well"`
	EvalHandling           string   `yaml:"eval_handling" default:"STOP_TRAIN" choices:"STOP_TRAIN,LIMIT_TRAIN,NONE" mode:"serve" affects:"no" help:"what happens to new groups during an evaluation: none start, fewer do (eval_limit_ratio), or all"`
	EvalLimitRatio         float64  `yaml:"eval_limit_ratio" default:"0.5" min:"0" max:"1" mode:"serve" affects:"no" help:"share of max_num_workers that goes on during an evaluation with LIMIT_TRAIN"`
	SpoolGroups            int      `yaml:"spool_groups" default:"0" min:"0" unit:"groups" mode:"serve" affects:"no" help:"groups beyond max_batches_offpolicy that may be made while the API server is away; they are kept on disk and sent later"`
	RecordSegmentMB        int      `yaml:"record_segment_mb" default:"0" min:"0" unit:"MiB" mode:"serve" affects:"no" help:"size of rollouts.jsonl from which its rollouts move into a compressed segment in the run directory's folder archive; 0 keeps all in one file"`
	RecordKeepTime         Seconds  `yaml:"record_keep_time" default:"0" min:"0" mode:"serve" affects:"no" help:"age from which conversations in segments of the record are dropped; 0 keeps them"`
	RecordKeepMB           int      `yaml:"record_keep_mb" default:"0" min:"0" unit:"MiB" mode:"serve" affects:"no" help:"space that the conversations in segments of the record may take, compressed, before the oldest are dropped; 0 is no limit"`
	AllowPlaceholderTokens bool     `yaml:"allow_placeholder_tokens" default:"false" mode:"serve" affects:"no" help:"send groups of servers that report no tokens, with counting numbers in their place: for trainers that tokenize the messages themselves, and for nothing else"`
	WorkerTimeout          Seconds  `yaml:"worker_timeout" default:"0" min:"-1" mode:"process" help:"wall clock a group has from the start of its first rollout; one that takes longer is cancelled and its item is not tried again. 0 and -1 are no limit; the original had 600"`
	DataDirToSaveEvals     string   `yaml:"data_dir_to_save_evals" nullable:"true" mode:"evaluate" affects:"no" help:"directory that metrics.json and samples.jsonl are written to besides the run directory"`

	Tracking
	Reasoning
}

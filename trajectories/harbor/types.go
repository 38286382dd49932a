package harbor

import "encoding/json"

// The JSON documents of a job, as Harbor's own models have them. Members that are
// null there are written as null.

type trialResult struct {
	ID              string          `json:"id"`
	TaskName        string          `json:"task_name"`
	TrialName       string          `json:"trial_name"`
	TrialURI        string          `json:"trial_uri"`
	TaskID          taskID          `json:"task_id"`
	Source          *string         `json:"source"`
	TaskChecksum    string          `json:"task_checksum"`
	Config          trialConfig     `json:"config"`
	AgentInfo       agentInfo       `json:"agent_info"`
	AgentResult     *agentResult    `json:"agent_result"`
	VerifierResult  *verifierResult `json:"verifier_result"`
	ExceptionInfo   *exceptionInfo  `json:"exception_info"`
	StartedAt       string          `json:"started_at"`
	FinishedAt      string          `json:"finished_at"`
	EnvironmentTime *timing         `json:"environment_setup"`
	AgentSetupTime  *timing         `json:"agent_setup"`
	AgentTime       *timing         `json:"agent_execution"`
	VerifierTime    *timing         `json:"verifier"`
	StepResults     []stepResult    `json:"step_results"` // null for a task without steps
}

// stepResult is what a trial says of one step of its task.
type stepResult struct {
	StepName       string          `json:"step_name"`
	AgentResult    *agentResult    `json:"agent_result"`
	VerifierResult *verifierResult `json:"verifier_result"`
	ExceptionInfo  *exceptionInfo  `json:"exception_info"`
	AgentTime      *timing         `json:"agent_execution"`
	VerifierTime   *timing         `json:"verifier"`
}

type taskID struct {
	Path        string  `json:"path"`
	GitURL      *string `json:"git_url,omitempty"`
	GitCommitID *string `json:"git_commit_id,omitempty"`
}

type agentInfo struct {
	Name      string     `json:"name"`
	Version   string     `json:"version"`
	ModelInfo *modelInfo `json:"model_info"`
}

type modelInfo struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
}

type agentResult struct {
	InputTokens    *int64         `json:"n_input_tokens"`
	CacheTokens    *int64         `json:"n_cache_tokens"`
	OutputTokens   *int64         `json:"n_output_tokens"`
	CostUSD        *float64       `json:"cost_usd"`
	RolloutDetails *struct{}      `json:"rollout_details"`
	Metadata       *agentMetadata `json:"metadata"`
}

// agentMetadata is what this program knows of a trial beyond Harbor's members.
type agentMetadata struct {
	RolloutID  string `json:"rollout_id"`
	ItemID     string `json:"item_id"`
	Attempt    int    `json:"attempt"`
	Outcome    string `json:"outcome"`
	StopReason string `json:"stop_reason"`
	Turns      int    `json:"n_turns"`
}

type verifierResult struct {
	Rewards rewards `json:"rewards"`
}

// rewards keeps the order of the parts of a score.
type rewards []reward

type reward struct {
	name  string
	value float64
}

type exceptionInfo struct {
	Type       string `json:"exception_type"`
	Message    string `json:"exception_message"`
	Traceback  string `json:"exception_traceback"`
	OccurredAt string `json:"occurred_at"`
}

type timing struct {
	StartedAt  string `json:"started_at"`
	FinishedAt string `json:"finished_at"`
}

type taskConfig struct {
	Path        string  `json:"path"`
	GitURL      *string `json:"git_url"`
	GitCommitID *string `json:"git_commit_id"`
	Overwrite   bool    `json:"overwrite"`
	DownloadDir *string `json:"download_dir"`
	Source      *string `json:"source"`
}

type agentConfig struct {
	Name                 string          `json:"name"`
	ImportPath           *string         `json:"import_path"`
	ModelName            *string         `json:"model_name"`
	OverrideTimeout      *float64        `json:"override_timeout_sec"`
	OverrideSetupTimeout *float64        `json:"override_setup_timeout_sec"`
	MaxTimeout           *float64        `json:"max_timeout_sec"`
	Kwargs               json.RawMessage `json:"kwargs"`
}

type environmentConfig struct {
	Type              *string         `json:"type"`
	ImportPath        *string         `json:"import_path"`
	ForceBuild        bool            `json:"force_build"`
	Delete            bool            `json:"delete"`
	OverrideCPUs      *int64          `json:"override_cpus"`
	OverrideMemoryMB  *int64          `json:"override_memory_mb"`
	OverrideStorageMB *int64          `json:"override_storage_mb"`
	OverrideGPUs      *int64          `json:"override_gpus"`
	Kwargs            json.RawMessage `json:"kwargs"`
}

type verifierConfig struct {
	OverrideTimeout *float64 `json:"override_timeout_sec"`
	MaxTimeout      *float64 `json:"max_timeout_sec"`
	Disable         bool     `json:"disable"`
}

type trialConfig struct {
	Task                         taskConfig        `json:"task"`
	TrialName                    string            `json:"trial_name"`
	TrialsDir                    string            `json:"trials_dir"`
	TimeoutMultiplier            float64           `json:"timeout_multiplier"`
	AgentTimeoutMultiplier       *float64          `json:"agent_timeout_multiplier"`
	VerifierTimeoutMultiplier    *float64          `json:"verifier_timeout_multiplier"`
	AgentSetupTimeoutMultiplier  *float64          `json:"agent_setup_timeout_multiplier"`
	EnvironmentBuildTimeoutMulti *float64          `json:"environment_build_timeout_multiplier"`
	Agent                        agentConfig       `json:"agent"`
	Environment                  environmentConfig `json:"environment"`
	Verifier                     verifierConfig    `json:"verifier"`
	Artifacts                    []string          `json:"artifacts"`
	JobID                        string            `json:"job_id"`
}

type jobConfig struct {
	JobName                   string            `json:"job_name"`
	JobsDir                   string            `json:"jobs_dir"`
	Attempts                  int               `json:"n_attempts"`
	TimeoutMultiplier         float64           `json:"timeout_multiplier"`
	AgentTimeoutMultiplier    *float64          `json:"agent_timeout_multiplier"`
	VerifierTimeoutMultiplier *float64          `json:"verifier_timeout_multiplier"`
	Environment               environmentConfig `json:"environment"`
	Verifier                  verifierConfig    `json:"verifier"`
	Agents                    []agentConfig     `json:"agents"`
	Datasets                  []struct{}        `json:"datasets"`
	Tasks                     []taskConfig      `json:"tasks"`
}

type jobResult struct {
	ID         string   `json:"id"`
	StartedAt  string   `json:"started_at"`
	UpdatedAt  *string  `json:"updated_at"`
	FinishedAt *string  `json:"finished_at"`
	Trials     int      `json:"n_total_trials"`
	Stats      jobStats `json:"stats"`
}

type jobStats struct {
	Completed    int                   `json:"n_completed_trials"`
	Errored      int                   `json:"n_errored_trials"`
	Running      int                   `json:"n_running_trials"`
	Pending      int                   `json:"n_pending_trials"`
	Cancelled    int                   `json:"n_cancelled_trials"`
	Retries      int                   `json:"n_retries"`
	Evals        map[string]*evalStats `json:"evals"`
	InputTokens  int64                 `json:"n_input_tokens"`
	CacheTokens  int64                 `json:"n_cache_tokens"`
	OutputTokens int64                 `json:"n_output_tokens"`
	CostUSD      *float64              `json:"cost_usd"`
}

type evalStats struct {
	Trials     int                            `json:"n_trials"`
	Errors     int                            `json:"n_errors"`
	Metrics    []map[string]float64           `json:"metrics"`
	PassAtK    map[string]float64             `json:"pass_at_k"`
	Rewards    map[string]map[string][]string `json:"reward_stats"`
	Exceptions map[string][]string            `json:"exception_stats"`
}

package harbor

import (
	"encoding/json"
	"time"
)

// Defaults of task.toml, in Harbor's words.
const (
	DefaultSchemaVersion   = "1.1"
	DefaultVerifierTimeout = 600 * time.Second
	DefaultBuildTimeout    = 600 * time.Second
	DefaultCPUs            = 1
	DefaultMemoryMB        = 2048
	DefaultStorageMB       = 10240
)

// NetworkMode says what a container may reach.
type NetworkMode string

// The network modes of task.toml.
const (
	Public    NetworkMode = "public"
	NoNetwork NetworkMode = "no-network"
	Allowlist NetworkMode = "allowlist"
)

// Config is a task.toml with defaults filled in and deprecated spellings replaced.
type Config struct {
	// SchemaVersion is schema_version, or version in older files.
	SchemaVersion string
	// Source is where the task came from, in its author's words.
	Source string
	// Artifacts are kept from the container after the agent.
	Artifacts []Artifact
	// RewardStrategy says how the rewards of steps become one: "mean" or "final".
	RewardStrategy string
	// Package is the table [task]; nil when there is none.
	Package     *Package
	Metadata    Metadata
	Agent       Agent
	Verifier    Verifier
	Environment Environment
	// SolutionEnv is set for the reference solution, with templates (see Expand).
	SolutionEnv map[string]string
	// Steps are in the order they are run; empty for a task of one step.
	Steps []StepConfig

	given map[string]bool
}

// Gives reports whether task.toml itself has a key, such as "environment.memory_mb",
// as opposed to a default. Deprecated spellings count as the new ones.
func (c *Config) Gives(key string) bool { return c.given[key] }

// Package names a task in a registry.
type Package struct {
	// Name is "org/name".
	Name, Version, Description string
	Authors                    []Author
	Keywords                   []string
}

// Author is a person of [task].
type Author struct{ Name, Email string }

// Metadata is the free-form table [metadata]; what is of another type than expected here
// stays empty and is in Raw alone.
type Metadata struct {
	AuthorName, AuthorEmail string
	Difficulty, Category    string
	Tags                    []string
	// ExpertMinutes, JuniorMinutes and EstimatedDuration are the author's estimates; 0: none.
	ExpertMinutes, JuniorMinutes float64
	EstimatedDuration            time.Duration
	// KeepProcesses says which of the agent's processes go on while the verifier runs:
	// "always" (all), "services" or "never"; "auto" or empty if the task does not say
	// (keep_processes, of hermes-env; true and false are "always" and "never").
	KeepProcesses string
	// WorkDirectories are the directories in which an agent does its work, absolute
	// (work_directories, of hermes-env). Empty if the task does not say.
	WorkDirectories []string
	// VerifyIn is "same", "fresh" or "clean" if the task has to be verified in a container
	// of one kind (verify_in, of hermes-env).
	VerifyIn string
	// IsolateTests is false if the tests can't be isolated from the agent's code
	// (isolate_tests, of hermes-env); nil if the task does not say.
	IsolateTests *bool
	// TestsReadable says that the agent's code may read the files of the tests when they
	// execute it (tests_readable, of hermes-env).
	TestsReadable bool
	// Raw is the whole table as a JSON object, keys in the file's order.
	Raw json.RawMessage
}

// Agent is the table [agent], or [steps.agent] with the task's values filled in.
type Agent struct {
	// Timeout is 0 when the agent's time is not limited.
	Timeout time.Duration
	// User is a name or number; empty: the image's.
	User string
	// NetworkMode is empty when the environment's holds.
	NetworkMode  NetworkMode
	AllowedHosts []string
}

// Verifier is the table [verifier], or [steps.verifier] with the task's values filled in.
type Verifier struct {
	Timeout time.Duration
	// Env is set for the verifier, with templates (see Expand).
	Env map[string]string
	// User is a name or number; empty: the image's.
	User string
	// NetworkMode is empty when the environment's holds.
	NetworkMode  NetworkMode
	AllowedHosts []string
	// Separate asks for a container of the verifier's own, Environment describes it (nil: the
	// task's).
	Separate    bool
	Environment *Environment
	Collect     []Collect
}

// Collect is a command that prepares artifacts for a separate verifier.
type Collect struct {
	Command, Service, User string
	Timeout                time.Duration
}

// Environment is the table [environment].
type Environment struct {
	BuildTimeout time.Duration
	// DockerImage is a prebuilt image; empty: build the Dockerfile.
	DockerImage string
	CPUs        float64
	MemoryMB    int64
	StorageMB   int64
	GPUs        int
	GPUTypes    []string
	TPU         *TPU
	// NetworkMode is never empty: allow_internet and allowed_hosts are taken in.
	NetworkMode  NetworkMode
	AllowedHosts []string
	MCPServers   []MCPServer
	// Env is set in the container, with templates (see Expand).
	Env       map[string]string
	SkillsDir string
	// Workdir replaces the image's working directory; empty: keep it.
	Workdir string
	// OS is "linux" unless the task says otherwise.
	OS          string
	Healthcheck *Healthcheck
}

// TPU is an accelerator a task wants.
type TPU struct{ Type, Topology string }

// MCPServer is a tool server the agent may use.
type MCPServer struct {
	Name string
	// Transport is "sse", "streamable-http" (with URL) or "stdio" (with Command and Args).
	Transport    string
	URL, Command string
	Args         []string
}

// Healthcheck is run until it succeeds before the agent starts.
type Healthcheck struct {
	Command                                       string
	Interval, Timeout, StartPeriod, StartInterval time.Duration
	Retries                                       int
}

// Artifact is a path that is kept from the container.
type Artifact struct {
	Source, Destination, Service string
	Exclude                      []string
}

// StepConfig is one of [[steps]].
type StepConfig struct {
	// Name is the step's folder below steps/.
	Name     string
	Agent    Agent
	Verifier Verifier
	// MinReward ends the task when a reward of this step is lower; a plain number is "reward".
	MinReward   map[string]float64
	Healthcheck *Healthcheck
	Artifacts   []Artifact
}

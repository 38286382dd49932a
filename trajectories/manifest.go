package trajectories

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Names of the files in a run directory.
const (
	manifestFile     = "run.json"
	rolloutsFile     = "rollouts.jsonl"
	trajectoriesFile = "trajectories.jsonl"
	supersededFile   = "superseded.jsonl"
	samplesFile      = "samples.jsonl"
	metricsFile      = "metrics.json"
	groupsFile       = "groups.journal"
	lockFile         = "lock"
)

// schemaVersion is the version of the run directory's layout that this package
// writes, and the newest one it reads.
const schemaVersion = 1

// Status says where a run stands.
type Status string

// The states of a run. A run whose process was killed stays "running" until it is resumed.
const (
	StatusRunning     Status = "running"
	StatusDone        Status = "done"
	StatusInterrupted Status = "interrupted"
	StatusBudget      Status = "budget" // a budget was used up before the work was done
	StatusFailed      Status = "failed"
	statusKilled      Status = "killed" // only of a session: it left no word
)

// Info says what a run is. Command, Environment and Config are required.
type Info struct {
	Command      string          // "evaluate", "process" or "serve"
	Environment  string          // name of the environment
	Config       json.RawMessage // the resolved config, a JSON object without secrets
	ConfigDigest string          // digest of what must not change on resume; "" means ConfigDigest(Config)
	Affecting    json.RawMessage // the part of Config that can affect results, a JSON object; nil when that is not known
	Defaults     json.RawMessage // the same with every setting at its default; only for Resume
	// Upgrade returns a configuration that an earlier version recorded as it is written
	// now; nil leaves it. Only for Resume.
	Upgrade func(config json.RawMessage) json.RawMessage
	// AllowConfigChange lets Resume go on although settings changed that can affect
	// results; the change is recorded.
	AllowConfigChange bool
	// AllowMissing lets Resume go on although finished rollouts are gone from
	// rollouts.jsonl; they are recorded again.
	AllowMissing  bool
	Version       string           // of hermes-env
	DatasetDigest string           // digest of the dataset as a whole, "" when unknown
	Seeds         map[string]int64 // by what they are for
	Dataset       json.RawMessage  // what the dataset is, a JSON object; nil when there is none
	// Comparable says whether the results may be set beside others' of the same
	// benchmark, and Deviations why not; nil when there is no published protocol.
	Comparable *bool
	Deviations []string
	// RescoredFrom is the directory of the run whose rollouts are scored again; "" for
	// a run of its own.
	RescoredFrom string
	// Flags are flags of the command that aren't part of the configuration and that a
	// resume without a configuration of its own takes up, by name.
	Flags map[string]string
	Tools *chat.Toolset // definitions of every tool of the run's registry; on resume nil means as before

	// OmitEmptyThink leaves out the empty think block that trajectories.jsonl
	// otherwise puts into each gpt turn without reasoning, as published data has it.
	OmitEmptyThink bool
}

// Versions names the programs that made a run.
type Versions struct {
	HermesEnv string `json:"hermes_env"`
	Go        string `json:"go"`
}

// Session is one start of a run, the first or a resumed one.
type Session struct {
	StartedAt     string   `json:"started_at"`
	EndedAt       string   `json:"ended_at,omitempty"`
	LastRecordAt  string   `json:"last_record_at,omitempty"` // of one that was killed: the last sign of it
	Status        Status   `json:"status"`
	PID           int      `json:"pid"`
	Host          string   `json:"host"`
	Versions      Versions `json:"versions"`
	Rollouts      int      `json:"rollouts"`                 // in rollouts.jsonl when the session began
	ConfigChanges []string `json:"config_changes,omitempty"` // settings outside the config digest that differ from the run's
	Repairs       []string `json:"repairs,omitempty"`        // what had to be repaired when the session began
}

// Manifest is the content of run.json.
type Manifest struct {
	SchemaVersion  int               `json:"schema_version"`
	Command        string            `json:"command"`
	Environment    string            `json:"environment"`
	Status         Status            `json:"status"`
	Error          string            `json:"error,omitempty"`
	StartedAt      string            `json:"started_at"`
	EndedAt        string            `json:"ended_at,omitempty"`
	Versions       Versions          `json:"versions"`
	ConfigDigest   string            `json:"config_digest"`
	DatasetDigest  string            `json:"dataset_digest"`
	Dataset        json.RawMessage   `json:"dataset,omitempty"`
	Comparable     *bool             `json:"comparable,omitempty"`
	Deviations     []string          `json:"deviations,omitempty"` // from the published protocol, of any session
	RescoredFrom   string            `json:"rescored_from,omitempty"`
	Seeds          map[string]int64  `json:"seeds"`
	Flags          map[string]string `json:"flags,omitempty"` // of the latest session's command, beside the configuration
	OmitEmptyThink bool              `json:"omit_empty_think"`
	Config         json.RawMessage   `json:"config"`
	Affecting      json.RawMessage   `json:"affecting_config,omitempty"` // the part of Config that can affect results
	ConfigHistory  []ConfigChange    `json:"config_history,omitempty"`   // of a run that went on with other settings
	ToolNames      []string          `json:"tool_names"`                 // sorted
	Tools          json.RawMessage   `json:"tools"`                      // definitions as in a request's "tools" field
	RetiredTools   json.RawMessage   `json:"retired_tools,omitempty"`    // of earlier settings, in the same form
	Sessions       []Session         `json:"sessions"`
}

// Active returns how long the sessions of the run lasted, added up; the last one counts
// until it ended, or until now while it is under way. One that was killed counts until
// it recorded its last rollout.
func (m *Manifest) Active(now time.Time) time.Duration {
	var sum time.Duration
	for i, s := range m.Sessions {
		start, err := time.Parse(time.RFC3339Nano, s.StartedAt)
		if err != nil {
			continue
		}
		end := s.EndedAt
		if end == "" {
			end = s.LastRecordAt
		}
		last, err := time.Parse(time.RFC3339Nano, end)
		switch {
		case err == nil:
		case i == len(m.Sessions)-1 && s.Status == StatusRunning:
			last = now
		default:
			continue
		}
		sum += max(0, last.Sub(start))
	}
	return sum
}

func (i *Info) check() error {
	if i.Command != "evaluate" && i.Command != "process" && i.Command != "serve" {
		return fmt.Errorf("command is %q, want evaluate, process or serve", i.Command)
	}
	if i.Environment == "" {
		return errors.New("the environment has no name")
	}
	trimmed := bytes.TrimSpace(i.Config)
	if len(trimmed) == 0 || trimmed[0] != '{' || !json.Valid(trimmed) {
		return errors.New("the resolved config is not a JSON object")
	}
	return nil
}

func (i *Info) digest() string {
	if i.ConfigDigest != "" {
		return i.ConfigDigest
	}
	return ConfigDigest(i.Config)
}

func (i *Info) versions() Versions { return Versions{HermesEnv: i.Version, Go: runtime.Version()} }

func newManifest(info *Info, now time.Time) Manifest {
	seeds := info.Seeds
	if seeds == nil {
		seeds = map[string]int64{}
	}
	return Manifest{
		Flags:          info.Flags,
		SchemaVersion:  schemaVersion,
		Command:        info.Command,
		Environment:    info.Environment,
		Status:         StatusRunning,
		StartedAt:      now.UTC().Format(timeLayout),
		Versions:       info.versions(),
		ConfigDigest:   info.digest(),
		DatasetDigest:  info.DatasetDigest,
		Dataset:        info.Dataset,
		RescoredFrom:   info.RescoredFrom,
		Seeds:          seeds,
		OmitEmptyThink: info.OmitEmptyThink,
		Config:         info.Config,
		Affecting:      info.Affecting,
		ToolNames:      info.Tools.Names(),
		Tools:          info.Tools.JSON(),
	}
}

// judge records whether results can be compared with others'. A run that deviated
// in one of its sessions has deviated.
func (m *Manifest) judge(info *Info) {
	for _, d := range info.Deviations {
		if !slices.Contains(m.Deviations, d) {
			m.Deviations = append(m.Deviations, d)
		}
	}
	if info.Comparable != nil {
		comparable := *info.Comparable && len(m.Deviations) == 0
		m.Comparable = &comparable
	}
}

// toolset returns the definitions of every tool that a rollout of the run may have had.
func (m *Manifest) toolset() (*chat.Toolset, error) {
	type definition struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	var definitions []chat.ToolDefinition
	for _, raw := range []json.RawMessage{m.Tools, m.RetiredTools} {
		var list []definition
		if raw == nil {
			continue
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
		for _, t := range list {
			definitions = append(definitions, chat.ToolDefinition{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
		}
	}
	return chat.NewToolset(definitions...)
}

// readManifest reads run.json of a directory; a missing one gives fs.ErrNotExist.
func readManifest(dir string) (Manifest, error) {
	path := filepath.Join(dir, manifestFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if err := json.Unmarshal(content, &m); err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w: %w", path, ErrCorrupt, err)
	}
	switch {
	case m.SchemaVersion < 1:
		return Manifest{}, fmt.Errorf("read %s: %w: schema_version is missing", path, ErrCorrupt)
	case m.SchemaVersion > schemaVersion:
		return Manifest{}, fmt.Errorf("read %s: the run was made by a newer hermes-env (schema version %d, this one knows %d): update hermes-env", path, m.SchemaVersion, schemaVersion)
	}
	return m, nil
}

// write replaces run.json atomically and durably.
func (m *Manifest) write(dir string) error {
	encoded, err := chat.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode %s: %w", manifestFile, err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, encoded, "", "  "); err != nil {
		return fmt.Errorf("encode %s: %w", manifestFile, err)
	}
	indented.WriteByte('\n')
	err = writeAtomic(filepath.Join(dir, manifestFile), func(w io.Writer) error {
		_, err := w.Write(indented.Bytes())
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir, manifestFile), err)
	}
	return nil
}

// isMissing says that a path, or a directory above it, does not exist.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

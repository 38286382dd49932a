package harbor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/atif"
)

// Config says how to export.
type Config struct {
	Dir          string // the jobs directory; the job becomes a directory in it
	JobName      string // "" means Harbor's default, the time the run started
	AgentName    string // "" means hermes-env, or the run's agent where that is no model
	AgentVersion string // of this program
	Provider     string // of the model, "" when unknown
	Dataset      string // "" means the run's dataset, or its environment
	// PassAtK estimates the chance that one of k attempts passes, from n of which c
	// passed; required.
	PassAtK func(n, c, k int) float64
	// Cost returns what a rollout cost in USD, nil when unknown. A nil func: unknown.
	Cost func(*trajectories.Rollout) *float64
}

// Source is a run to export; *trajectories.Reader is one.
type Source interface {
	Manifest() trajectories.Manifest
	Each(visit func(*trajectories.Rollout) error) error
}

// Job is what was written.
type Job struct {
	Dir    string // of the job
	Trials int
	Tasks  map[string]int // completed trials with a reward by task, 0 where none has one
	Losses []atif.Loss    // what trajectories could not carry
}

type exporter struct {
	config   Config
	manifest trajectories.Manifest
	settings gjson.Result
	work     string // directory being written
	final    string // its name in the end
	job      *Job
	jobID    string
	agent    agentConfig
	result   jobResult
	tasks    []taskConfig
	passes   map[string]*taskScore
	order    []string
	rewards  float64 // sum
	attempts int
	losses   map[string]int
}

type taskScore struct{ attempts, passed int }

// Export writes the run as a job. Nothing is left behind when it fails.
func Export(ctx context.Context, run Source, config Config) (job *Job, err error) {
	e, err := newExporter(run.Manifest(), config)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(e.final); err == nil {
		return nil, fmt.Errorf("export to %s: it exists already; choose another job name or directory", e.final)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("export to %s: %w", e.final, err)
	}
	if err := os.MkdirAll(config.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("export to %s: %w", config.Dir, err)
	}
	if e.work, err = os.MkdirTemp(config.Dir, ".export-*"); err != nil {
		return nil, fmt.Errorf("export to %s: %w", config.Dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("export to %s: %w", e.final, err), os.RemoveAll(e.work))
		}
	}()
	if err := os.Chmod(e.work, 0o755); err != nil {
		return nil, err
	}
	if err := run.Each(func(r *trajectories.Rollout) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return e.trial(r)
	}); err != nil {
		return nil, err
	}
	if e.attempts == 0 {
		return nil, errors.New("the run has no rollouts")
	}
	if err := e.finish(); err != nil {
		return nil, err
	}
	return e.job, os.Rename(e.work, e.final)
}

func newExporter(m trajectories.Manifest, config Config) (*exporter, error) {
	started, err := time.Parse(time.RFC3339Nano, m.StartedAt)
	if err != nil {
		return nil, fmt.Errorf("export: the run's start %q is no time: %w", m.StartedAt, err)
	}
	if config.JobName == "" {
		config.JobName = jobName(started)
	}
	if err := checkJobName(config.JobName); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Join(config.Dir, config.JobName))
	if err != nil {
		return nil, err
	}
	e := &exporter{
		config: config, manifest: m, settings: gjson.ParseBytes(m.Config), final: dir, jobID: uuid(m.StartedAt + m.ConfigDigest + config.JobName),
		passes: map[string]*taskScore{}, losses: map[string]int{}, job: &Job{Dir: dir, Tasks: map[string]int{}},
	}
	if config.AgentName == "" {
		e.config.AgentName = "hermes-env"
		if agent := e.settings.Get("agent").String(); agent != "" && agent != "model" {
			e.config.AgentName = agent
		}
	}
	if config.Dataset == "" {
		e.config.Dataset = datasetName(m, e.settings)
	}
	e.agent = agentConfig{Name: e.config.AgentName, ModelName: e.modelName(), Kwargs: chat.Object{{Key: "run_config", Value: Redact(m.Config)}}.Append(nil)}
	e.result = jobResult{ID: e.jobID, StartedAt: stamp(started), Stats: jobStats{Evals: map[string]*evalStats{}}}
	return e, nil
}

// datasetName names the run's dataset: as its configuration does, else by the environment.
func datasetName(m trajectories.Manifest, settings gjson.Result) string {
	if name := settings.Get("env.dataset_name").String(); name != "" && settings.Get("env.tasks").String() == "" {
		return name[strings.LastIndexByte(name, '/')+1:]
	}
	return m.Environment
}

func (e *exporter) modelName() *string {
	if e.config.AgentName == "oracle" || e.config.AgentName == "nop" {
		return nil
	}
	name := e.settings.Get("openai.0.model_name").String()
	if name == "" {
		return nil
	}
	return &name
}

// trial writes the directory of one rollout and adds it to the job's statistics.
func (e *exporter) trial(r *trajectories.Rollout) error {
	name := TrialName(r.ItemID, r.ID)
	dir := filepath.Join(e.work, name)
	for _, sub := range []string{"agent", "verifier", "artifacts"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	result := e.trialResult(r, name)
	if err := writeJSON(filepath.Join(dir, "config.json"), result.Config); err != nil {
		return err
	}
	if err := e.trajectory(r, dir, result.AgentResult.CostUSD); err != nil {
		return err
	}
	if err := verifierFiles(result.VerifierResult, gjson.GetBytes(r.Metadata, "verifier"), stagesPrinted(r.Metadata), filepath.Join(dir, "verifier")); err != nil {
		return err
	}
	if err := e.stepDirs(steps(r), dir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "artifacts", "manifest.json"), []byte("[]\n"), 0o644); err != nil {
		return err
	}
	if x := result.ExceptionInfo; x != nil {
		if err := os.WriteFile(filepath.Join(dir, "exception.txt"), []byte(x.Traceback), 0o644); err != nil {
			return err
		}
	}
	log := fmt.Sprintf("rollout %s of item %q, attempt %d: %s, stopped by %s after %d turns\n", r.ID, r.ItemID, r.Attempt, r.Outcome, r.StopReason, r.TurnsUsed)
	if err := os.WriteFile(filepath.Join(dir, "trial.log"), []byte(log), 0o644); err != nil {
		return err
	}
	e.count(r, name, result)
	return writeJSON(filepath.Join(dir, "result.json"), result)
}

func (e *exporter) trialResult(r *trajectories.Rollout, name string) *trialResult {
	task := taskName(r)
	source := e.config.Dataset
	out := &trialResult{
		ID: uuid(r.ID + e.jobID), TaskName: task, TrialName: name, TrialURI: "file://" + filepath.ToSlash(filepath.Join(e.final, name)),
		TaskID: taskID{Path: task}, Source: &source, TaskChecksum: strings.TrimPrefix(r.ItemDigest, "sha256:"),
		AgentInfo: agentInfo{Name: e.config.AgentName, Version: e.config.AgentVersion},
		StartedAt: stamp(r.StartedAt), FinishedAt: stamp(r.FinishedAt), ExceptionInfo: exception(r),
	}
	if model := e.agent.ModelName; model != nil {
		out.AgentInfo.ModelInfo = &modelInfo{Name: *model, Provider: e.provider(*model)}
	}
	out.EnvironmentTime, out.AgentTime, out.VerifierTime = phases(r)
	out.StepResults = stepResults(steps(r), r.StartedAt.Add(time.Duration(r.Timings.Sandbox*float64(time.Second))))
	usage := r.Usage
	out.AgentResult = &agentResult{CostUSD: e.cost(r), Metadata: metadataOf(r)}
	if r.TurnsUsed > 0 {
		out.AgentResult.InputTokens, out.AgentResult.CacheTokens, out.AgentResult.OutputTokens = &usage.PromptTokens, &usage.CachedTokens, &usage.CompletionTokens
	}
	if r.Score != nil {
		list := rewards{{"reward", *r.Score}}
		for _, p := range r.ScoreParts {
			if p.Name != "reward" {
				list = append(list, reward{p.Name, p.Value})
			}
		}
		out.VerifierResult = &verifierResult{Rewards: list}
	}
	out.Config = trialConfig{
		Task: taskConfig{Path: task, Source: &source}, TrialName: name, TrialsDir: filepath.ToSlash(filepath.Join(e.config.Dir, e.config.JobName)), TimeoutMultiplier: 1,
		AgentTimeoutMultiplier: e.multiplier("env.agent_timeout_multiplier"), VerifierTimeoutMultiplier: e.multiplier("env.verifier_timeout_multiplier"),
		Agent: e.agentConfig(), Environment: e.environment(), Verifier: e.verifier(), Artifacts: []string{}, JobID: e.jobID,
	}
	return out
}

func metadataOf(r *trajectories.Rollout) *agentMetadata {
	return &agentMetadata{r.ID, r.ItemID, r.Attempt, string(r.Outcome), r.StopReason, r.TurnsUsed}
}

// provider names whose model it is. Some versions of Harbor refuse a model without.
func (e *exporter) provider(model string) string {
	if e.config.Provider != "" {
		return e.config.Provider
	}
	if org, _, found := strings.Cut(model, "/"); found && org != "" {
		return org
	}
	return "unknown"
}

func taskName(r *trajectories.Rollout) string {
	if name := gjson.GetBytes(r.Metadata, "task_name").String(); name != "" {
		return name
	}
	return r.ItemID
}

func (e *exporter) cost(r *trajectories.Rollout) *float64 {
	if e.config.Cost == nil {
		return nil
	}
	return e.config.Cost(r)
}

// trajectory writes agent/trajectory.json and the images it refers to.
func (e *exporter) trajectory(r *trajectories.Rollout, dir string, cost *float64) error {
	doc, losses, err := atif.FromRollout(r, atif.Config{
		AgentName: e.config.AgentName, AgentVersion: e.config.AgentVersion, ToolDefinitions: e.manifest.Tools, CostUSD: cost,
		SaveImage: func(name, _ string, data []byte) (string, error) {
			path := filepath.Join(dir, "agent", "images", name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return "", err
			}
			return "images/" + name, os.WriteFile(path, data, 0o644)
		},
	})
	if err != nil {
		return err
	}
	for _, l := range losses {
		e.losses[l.What] += l.Count
	}
	raw, err := doc.JSON()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "agent", "trajectory.json"), raw, 0o644)
}

// verifierFiles writes what the verifier left: its reward and, where the record
// kept them, its output (else printed) and its report of single tests.
func verifierFiles(result *verifierResult, report gjson.Result, printed []byte, dir string) error {
	files := map[string][]byte{}
	if result != nil {
		files["reward.txt"] = append(strconv.AppendFloat(nil, result.Rewards[0].value, 'g', -1, 64), '\n')
		if len(result.Rewards) > 1 {
			raw, err := result.Rewards.MarshalJSON()
			if err != nil {
				return err
			}
			files["reward.json"] = append(raw, '\n')
		}
	}
	if out := report.Get("test_stdout"); out.Type == gjson.String {
		printed = []byte(out.Str)
	}
	if len(printed) > 0 || report.Get("test_stdout").Exists() {
		files["test-stdout.txt"] = printed
	}
	if ctrf := report.Get("ctrf"); ctrf.IsObject() {
		files["ctrf.json"] = []byte(ctrf.Raw + "\n")
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// stagesPrinted joins what the tests of the stages printed, each under its name.
func stagesPrinted(metadata json.RawMessage) []byte {
	var all []byte
	for _, stage := range gjson.GetBytes(metadata, "stages").Array() {
		if out := stage.Get("verifier.test_stdout"); out.Type == gjson.String {
			all = fmt.Appendf(all, "==> %s <==\n%s\n", stage.Get("name").String(), strings.TrimSuffix(out.Str, "\n"))
		}
	}
	return all
}

// MarshalJSON writes an object with floats, in order.
func (r rewards) MarshalJSON() ([]byte, error) {
	object := chat.Object{}
	for _, part := range r {
		object.Set(part.name, json.RawMessage(pythonFloat(part.value)))
	}
	return object.Append(nil), nil
}

// pythonFloat writes a number as Python's repr of a float: with a point or an exponent.
func pythonFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

func writeJSON(path string, v any) error {
	raw, err := chat.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "    "); err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	out.WriteByte('\n')
	return os.WriteFile(path, out.Bytes(), 0o644)
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories/compress"
)

// compressConfigFile is where the settings are looked for when no file is named.
const compressConfigFile = "configs/trajectory_compression.yaml"

type compressCommand struct {
	Input         string   `name:"input" placeholder:"PATH" help:"JSONL file of ShareGPT rows, or a folder of such files."`
	Output        string   `name:"output" placeholder:"PATH" help:"File or folder to write [INPUT_compressed]."`
	File          string   `name:"config" short:"c" placeholder:"FILE" help:"YAML file of settings [configs/trajectory_compression.yaml where there is one]."`
	Target        *int     `name:"target_max_tokens" aliases:"target-max-tokens" placeholder:"N" help:"Tokens a trajectory may have, in place of the file's."`
	Tokenizer     string   `name:"tokenizer" placeholder:"NAME" help:"Folder with tokenizer.json, a model in the cache of the Hugging Face hub, or chars/4, which takes four characters for a token."`
	SamplePercent *float64 `name:"sample_percent" aliases:"sample-percent" placeholder:"P" help:"Take only P percent of the rows of each file, chosen at random."`
	Seed          int64    `name:"seed" default:"42" help:"Seed of the sample [42]."`
	DryRun        rawBool  `name:"dry_run" aliases:"dry-run" help:"Say what would be compressed; ask no model and write nothing."`
	JSON          bool     `name:"json" help:"Print the metrics as JSON."`
	profileFlags
}

// compressJob is one run of the compressor.
type compressJob struct {
	*session
	*compressCommand
	settings compress.Config
	dry      bool
	counter  compress.Counter
	counting string // what tokens are counted with
	machine  *compress.Compressor
	out      printer
}

// compressFile is one file to compress.
type compressFile struct{ in, out string }

// Run runs the command.
func (c *compressCommand) Run(s *session) error {
	j := &compressJob{session: s, compressCommand: c, out: newPrinter(io.Discard, s.app.Stderr, false, s.app.Getenv)}
	if err := j.prepare(); err != nil {
		return fail(ExitUsage, err)
	}
	files, metrics, err := j.files()
	if err != nil {
		return fail(ExitUsage, err)
	}
	client, closeClient, err := j.client()
	if err != nil {
		return fail(ExitUsage, err)
	}
	defer closeClient()
	if j.machine, err = compress.New(j.settings, j.counter, client); err != nil {
		return fail(ExitUsage, err)
	}
	ctx, _, release := interruptible(s.ctx, s.app.Signals, 0, j.out)
	defer release()
	return j.run(ctx, files, metrics)
}

// prepare reads the settings and finds what counts tokens.
func (j *compressJob) prepare() (err error) {
	if j.dry, err = j.DryRun.on("dry_run"); err != nil {
		return err
	}
	if j.Input == "" {
		return errors.New("--input is missing: give a JSONL file of trajectories, or a folder of such files")
	}
	if p := j.SamplePercent; p != nil && !(*p > 0 && *p <= 100) {
		return fmt.Errorf("--sample_percent is %v: want more than 0 and at most 100", *p)
	}
	j.settings = compress.Defaults()
	file := j.File
	if file == "" {
		if isFile(compressConfigFile) {
			file = compressConfigFile
		} else {
			j.out.Warn("no --config and no " + compressConfigFile + " here: the built-in settings are used")
		}
	}
	if file != "" {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return fmt.Errorf("read the settings: %w", err)
		}
		if j.settings, err = compress.ParseConfig(text); err != nil {
			return fmt.Errorf("settings in %s: %w", file, err)
		}
	}
	if j.Target != nil {
		j.settings.Compression.TargetMaxTokens = *j.Target
	}
	if err := j.settings.Check(); err != nil {
		return err
	}
	return j.findCounter()
}

// run compresses the files one after the other and writes the metrics of all.
func (j *compressJob) run(ctx context.Context, files []compressFile, metricsFile string) error {
	whole := &compress.Metrics{Started: j.app.now()}
	var failed error
	for _, f := range files {
		m, err := j.one(ctx, f)
		whole.Add(m)
		if err != nil {
			failed = err
			break
		}
	}
	whole.Ended = j.app.now()
	whole.Tokenizer, whole.Estimated = j.counting, j.counter == compress.Counter(compress.Estimate{})
	if failed != nil {
		j.out.Note("what was summarised is kept; run the same command again to go on")
		return j.failure(failed)
	}
	if j.settings.Metrics.Enabled && !j.dry {
		if err := j.writeMetrics(metricsFile, whole); err != nil {
			return fail(ExitStore, err)
		}
	}
	if err := j.print(files, metricsFile, whole); err != nil {
		return err
	}
	if whole.Failed > 0 {
		return fail(ExitBelow, fmt.Errorf("%d trajectories could not be summarised and stand as they were; the same command tries them again", whole.Failed))
	}
	return nil
}

// failure gives what ended a run its exit code.
func (j *compressJob) failure(err error) error {
	var refused *model.Error
	var path *fs.PathError
	switch {
	case errors.As(err, &refused):
		return fail(ExitModel, err)
	case errors.As(err, &path):
		return fail(ExitStore, err)
	}
	return err
}

func (j *compressJob) one(ctx context.Context, f compressFile) (*compress.Metrics, error) {
	options := compress.FileOptions{In: f.in, Out: f.out, Warn: j.out.Warn}
	rows := -1
	if j.SamplePercent != nil || j.live() {
		var err error
		if rows, err = compress.CountRows(f.in); err != nil {
			return &compress.Metrics{}, fmt.Errorf("count the rows of %s: %w", f.in, err)
		}
	}
	if p := j.SamplePercent; p != nil {
		options.Keep = compress.Sample(rows, *p, j.Seed)
		rows = max(1, int(float64(rows)**p/100))
	}
	if !j.dry {
		if err := os.MkdirAll(filepath.Dir(f.out), 0o755); err != nil {
			return &compress.Metrics{}, fmt.Errorf("make the output folder: %w", err)
		}
	}
	if j.live() {
		j.out.Planned(rows)
		options.Done = func() { j.out.Skipped(1) }
		defer j.out.End()
	}
	return j.machine.File(ctx, options)
}

// live says whether there is a terminal to show progress on.
func (j *compressJob) live() bool {
	p, ok := j.out.(*textPrinter)
	return ok && p.live
}

// leftAside are files of run directories that hold no ShareGPT rows.
var leftAside = []string{"rollouts.jsonl", "superseded.jsonl", "samples.jsonl"}

// files lists what is to be compressed, and names the file for the metrics.
func (j *compressJob) files() (files []compressFile, metrics string, err error) {
	info, err := os.Stat(j.Input)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("--input %s does not exist", j.Input)
	}
	if err != nil {
		return nil, "", fmt.Errorf("look at --input: %w", err)
	}
	suffix := j.settings.Output.OutputSuffix
	if !info.IsDir() {
		out := j.Output
		if out == "" {
			out = stem(j.Input) + suffix + ".jsonl"
		}
		return []compressFile{{j.Input, out}}, stem(out) + "_metrics.json", nil
	}
	out := j.Output
	if out == "" {
		absolute, err := filepath.Abs(j.Input)
		if err != nil {
			return nil, "", err
		}
		out = filepath.Join(filepath.Dir(absolute), filepath.Base(absolute)+suffix)
		if !filepath.IsAbs(j.Input) {
			out = filepath.Clean(j.Input) + suffix
		}
	}
	if isFile(out) {
		return nil, "", fmt.Errorf("--output %s is a file, and the input is a folder: name a folder", out)
	}
	found, err := filepath.Glob(filepath.Join(escapeGlob(j.Input), "*.jsonl"))
	if err != nil {
		return nil, "", fmt.Errorf("list the files of %s: %w", j.Input, err)
	}
	merged := slices.Contains(found, filepath.Join(j.Input, "trajectories.jsonl"))
	var left []string
	for _, path := range found {
		name := filepath.Base(path)
		if slices.Contains(leftAside, name) || merged && strings.HasPrefix(name, "batch_") {
			left = append(left, name)
			continue
		}
		files = append(files, compressFile{path, filepath.Join(out, name)})
	}
	if len(left) > 0 {
		if more := len(left) - 4; more > 0 {
			left = append(left[:4], fmt.Sprintf("%d more", more))
		}
		j.out.Note(fmt.Sprintf("left aside in %s: %s (their rows are in trajectories.jsonl, or are none)", j.Input, strings.Join(left, ", ")))
	}
	if len(files) == 0 {
		return nil, "", fmt.Errorf("there is no *.jsonl with trajectories in %s", j.Input)
	}
	return files, filepath.Join(out, j.settings.Metrics.OutputFile), nil
}

func stem(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) }

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// client connects to the model that writes the summaries; nil for a dry run.
func (j *compressJob) client() (model.Client, func(), error) {
	none := func() {}
	if j.dry {
		return nil, none, nil
	}
	s := j.settings.Summarization
	address, err := url.Parse(s.BaseURL)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, none, fmt.Errorf("summarization.base_url is %q: want an address with http:// or https://", s.BaseURL)
	}
	key, source := j.key(s.APIKeyEnv)
	if key == "" && !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, address.Hostname()) {
		return nil, none, fmt.Errorf("no key for %s: set %s in the environment or in .env, or name another variable with summarization.api_key_env", address.Hostname(), s.APIKeyEnv)
	}
	pool, err := model.ForServers([]model.Server{{
		BaseURL: s.BaseURL, Model: s.Model, APIKey: key, KeySource: source,
		MaxConcurrent: j.settings.Processing.MaxConcurrentRequests,
	}}, model.PoolConfig{})
	if err != nil {
		return nil, none, err
	}
	return model.Retry(pool, model.RetryPolicy{
		MaxAttempts: s.MaxRetries,
		BaseDelay:   max(time.Millisecond, time.Duration(s.RetryDelay*float64(time.Second))),
		MaxDelay:    30 * time.Second,
		OnRetry:     j.out.ModelRetry,
	}), pool.CloseIdleConnections, nil
}

// key looks a key up in the environment and in .env.
func (j *compressJob) key(variable string) (key, source string) {
	if key, ok := j.getenv(variable); ok {
		return key, "environment variable " + variable
	}
	text, err := os.ReadFile(".env")
	if err != nil {
		return "", ""
	}
	vars, _ := config.ParseDotenv(text)
	for _, v := range vars {
		if v.Name == variable {
			key, source = v.Value, fmt.Sprintf(".env:%d", v.Line)
		}
	}
	return key, source
}

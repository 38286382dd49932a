package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/batch"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/parsers"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/singularity"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// The defaults of the original batch runner.
const (
	batchModel   = "anthropic/claude-sonnet-4.6"
	openRouterV1 = "https://openrouter.ai/api/v1"
)

// batchCommand has the flags of the original batch runner, under their names and with
// dashes for underscores.
type batchCommand struct {
	DatasetFile  string  `name:"dataset_file" aliases:"dataset-file" placeholder:"FILE" help:"JSONL file: one object with a prompt, and if wanted image (or docker_image) and cwd, per line."`
	BatchSize    int     `name:"batch_size" aliases:"batch-size" placeholder:"N" help:"Prompts per batch file, at least 1."`
	RunName      string  `name:"run_name" aliases:"run-name" placeholder:"NAME" help:"Name of the run; results go to data/NAME."`
	DataDir      string  `name:"data_dir" aliases:"data-dir" default:"data" placeholder:"DIR" help:"Folder of all runs [data]."`
	Distribution string  `name:"distribution" default:"default" placeholder:"NAME" help:"Toolset distribution that each prompt's tools are drawn from [default]."`
	Model        string  `name:"model" placeholder:"NAME" help:"Model [anthropic/claude-sonnet-4.6]."`
	APIKey       string  `name:"api_key" aliases:"api-key" placeholder:"KEY" help:"Key of the model server; better kept in OPENROUTER_API_KEY or .env."`
	BaseURL      string  `name:"base_url" aliases:"base-url" placeholder:"URL" help:"Address of the model server [OpenRouter]."`
	MaxTurns     int     `name:"max_turns" aliases:"max-turns" placeholder:"N" help:"Model calls per prompt [10]."`
	NumWorkers   int     `name:"num_workers" aliases:"num-workers" placeholder:"N" help:"Prompts worked on at once [4]."`
	Resume       rawBool `name:"resume" help:"Go on with the run: prompts that were run are found by their content and kept."`
	AllowMissing rawBool `name:"allow_missing_rollouts" aliases:"allow-missing-rollouts" help:"With --resume: go on although finished rollouts are gone from rollouts.jsonl. They run again."`
	AllowChange  rawBool `name:"allow_config_change" aliases:"allow-config-change" help:"With --resume: go on although settings changed that can affect results. The run is marked as mixed from both."`
	Verbose      rawBool `name:"verbose" help:"Name each finished prompt by its beginning."`
	LogPrefix    int     `name:"log_prefix_chars" aliases:"log-prefix-chars" default:"100" placeholder:"N" help:"Characters of a prompt that --verbose shows [100]."`
	List         rawBool `name:"list_distributions" aliases:"list-distributions" help:"List the toolset distributions and end."`

	EphemeralSystemPrompt string  `name:"ephemeral_system_prompt" aliases:"ephemeral-system-prompt" placeholder:"TEXT" help:"System prompt that is sent and never stored."`
	PrefillFile           string  `name:"prefill_messages_file" aliases:"prefill-messages-file" placeholder:"FILE" help:"JSON array of messages that are sent before every conversation and never stored."`
	ProvidersAllowed      string  `name:"providers_allowed" aliases:"providers-allowed" placeholder:"A,B" help:"Providers OpenRouter may use."`
	ProvidersIgnored      string  `name:"providers_ignored" aliases:"providers-ignored" placeholder:"A,B" help:"Providers OpenRouter must not use."`
	ProvidersOrder        string  `name:"providers_order" aliases:"providers-order" placeholder:"A,B" help:"Providers OpenRouter tries first."`
	ProviderSort          string  `name:"provider_sort" aliases:"provider-sort" placeholder:"WORD" help:"What OpenRouter sorts providers by: price, throughput or latency."`
	MaxTokens             int     `name:"max_tokens" aliases:"max-tokens" placeholder:"N" help:"Longest completion of one model call [the server's]."`
	ReasoningEffort       string  `name:"reasoning_effort" aliases:"reasoning-effort" placeholder:"WORD" help:"none, minimal, low, medium, high, xhigh, max or ultra."`
	ReasoningDisabled     rawBool `name:"reasoning_disabled" aliases:"reasoning-disabled" help:"Ask for no reasoning, whatever --reasoning_effort says."`
	MaxSamples            int     `name:"max_samples" aliases:"max-samples,limit" placeholder:"N" help:"Take only the first N prompts."`

	TerminalEnv  string  `name:"terminal-env" aliases:"terminal_env" placeholder:"NAME" help:"Where sandboxes run: local, docker, ssh or singularity [TERMINAL_ENV, else local]."`
	Keep         rawBool `name:"keep_without_reasoning" aliases:"keep-without-reasoning" help:"Keep samples without reasoning in any turn, which the original discards."`
	IgnoreImages rawBool `name:"ignore_images" aliases:"ignore-images" help:"Run prompts that name an image although sandboxes are not made from images."`
	JSON         bool    `name:"json" help:"Write events and the summary to standard output as JSON, one object per line."`
	File         string  `name:"config" short:"c" placeholder:"FILE" help:"YAML file with further settings of the sections env and openai."`
	kong.Plugins

	flags *configFlags
	profileFlags
}

// on says whether a flag that may be given without a value is set.
func (f *rawBool) on(name string) (bool, error) {
	if !f.set {
		return false, nil
	}
	switch strings.ToLower(f.text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0", "none":
		return false, nil
	}
	return false, fmt.Errorf("--%s is %q: want true or false", name, f.text)
}

// batchSwitches are the flags without values, read.
type batchSwitches struct {
	resume, allowChange, allowMissing, verbose, list, noReasoning, keep, ignoreImages bool
}

func (c *batchCommand) switches() (s batchSwitches, err error) {
	for _, f := range []struct {
		flag *rawBool
		name string
		to   *bool
	}{
		{&c.Resume, "resume", &s.resume}, {&c.AllowChange, "allow_config_change", &s.allowChange}, {&c.AllowMissing, "allow_missing_rollouts", &s.allowMissing},
		{&c.Verbose, "verbose", &s.verbose}, {&c.List, "list_distributions", &s.list},
		{&c.ReasoningDisabled, "reasoning_disabled", &s.noReasoning}, {&c.Keep, "keep_without_reasoning", &s.keep},
		{&c.IgnoreImages, "ignore_images", &s.ignoreImages},
	} {
		on, wrong := f.flag.on(f.name)
		*f.to, err = on, errors.Join(err, wrong)
	}
	return s, err
}

// check reports everything that is wrong with the flags at once.
func (c *batchCommand) check() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.DatasetFile == "" {
		wrong("--dataset_file is missing: give a JSONL file with one prompt per line")
	}
	if c.BatchSize < 1 {
		wrong("--batch_size is missing or below 1: give the number of prompts per batch file")
	}
	switch {
	case c.RunName == "":
		wrong("--run_name is missing: results go to %s/NAME", c.DataDir)
	case c.RunName != filepath.Base(c.RunName) || c.RunName == "." || c.RunName == ".." || strings.ContainsAny(c.RunName, "/\\\x00"):
		wrong("--run_name is %q: want a plain name; the folder above it is --data_dir", c.RunName)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"max_turns", c.MaxTurns}, {"num_workers", c.NumWorkers}, {"max_samples", c.MaxSamples}, {"max_tokens", c.MaxTokens}, {"log_prefix_chars", c.LogPrefix}} {
		if n.value < 0 {
			wrong("--%s is %d: want a positive number", n.name, n.value)
		}
	}
	if _, err := tools.DistributionShares(c.Distribution); err != nil {
		problems = append(problems, fmt.Errorf("--distribution: %w", err))
	}
	return errors.Join(problems...)
}

// words splits a list with commas; parentheses and quotes are those of a Python tuple.
func words(text string) []string {
	var list []string
	for _, w := range strings.Split(strings.Trim(strings.TrimSpace(text), "()[]"), ",") {
		if w = strings.Trim(strings.TrimSpace(w), `'"`); w != "" && !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return list
}

// Run runs the command.
func (c *batchCommand) Run(s *session) error {
	on, err := c.switches()
	if err != nil {
		return fail(ExitUsage, err)
	}
	if on.list {
		return s.listDistributions()
	}
	if err := c.check(); err != nil {
		return fail(ExitUsage, err)
	}
	b := &batchJob{command: c, on: on}
	if err := b.load(s); err != nil {
		return fail(ExitUsage, err)
	}
	return b.run()
}

func (s *session) listDistributions() error {
	for _, name := range tools.Distributions() {
		shares, err := tools.DistributionShares(name)
		if err != nil {
			return err
		}
		var parts []string
		for _, share := range shares {
			parts = append(parts, fmt.Sprintf("%s %d%%", share.Toolset, share.Percent))
		}
		if _, err := fmt.Fprintf(s.app.Stdout, "%-16s %s\n", name, strings.Join(parts, ", ")); err != nil {
			return err
		}
	}
	return nil
}

// load resolves the configuration of the run.
func (b *batchJob) load(s *session) error {
	c := b.command
	if c.PrefillFile != "" {
		var err error
		if b.ephemeral.Prefill, err = batch.ReadPrefill(c.PrefillFile); err != nil {
			return err
		}
	}
	b.ephemeral.SystemPrompt = c.EphemeralSystemPrompt
	routing := batch.Routing{
		Allowed: words(c.ProvidersAllowed), Ignored: words(c.ProvidersIgnored), Order: words(c.ProvidersOrder),
		Sort: c.ProviderSort, ReasoningEffort: c.ReasoningEffort, ReasoningDisabled: b.on.noReasoning,
	}
	fields, err := routing.Fields()
	if err != nil {
		return err
	}
	flags, err := b.configFlags(s)
	if err != nil {
		return err
	}
	cfg, err := c.resolve(s, flags)
	if err != nil {
		return err
	}
	// What the flags ask of the router is part of extra_body, where the record of the
	// run has it; the configuration's own extra_body stays.
	more := flags
	if len(fields) > 0 {
		body, err := chat.ParseObject(orEmpty(cfg.Env.ExtraBody))
		if err != nil {
			return fmt.Errorf("env.extra_body: %w", err)
		}
		for _, f := range fields {
			body.Set(f.Key, f.Value)
		}
		more = append(more, config.Flag{Name: "env.extra_body", Value: string(body.Append(nil))})
	}
	if o := cfg.Origin("env.agent_temperature"); o.Kind == config.FromFlag || o.Kind == config.FromFile {
		more = append(more, config.Flag{Name: "env.send_temperature", Value: "true"})
	}
	if len(more) > len(flags) {
		if cfg, err = c.resolve(s, more); err != nil {
			return err
		}
	}
	own := cfg.Own.(*batch.Config)
	b.ephemeral.MaxTokens, b.ephemeral.KeepTemperature = own.MaxTokens, own.SendTemperature
	b.dir = filepath.Join(c.DataDir, c.RunName)
	if env.SubsetOf(cfg.Env).Bound() > 0 {
		return errors.New("env.max_items and env.sample_items have no effect on batch, which numbers the prompts of its file: use --max_samples N (or --limit N)")
	}
	b.job = &job{session: s, flags: &runFlags{RunDir: b.dir}, mode: config.Process, cfg: cfg}
	b.job.out = b.newPrinter(s)
	for _, w := range cfg.Warnings {
		b.job.out.Warn(w)
	}
	if b.job.registry, err = tools.NewRegistry(tools.Builtin()...); err != nil {
		return err
	}
	if err := b.job.registry.Check(b.job.selection()); err != nil {
		return fmt.Errorf("--distribution: %w", err)
	}
	return nil
}

func orEmpty(raw []byte) []byte {
	if len(raw) == 0 || string(raw) == "null" {
		return []byte("{}")
	}
	return raw
}

func (c *batchCommand) resolve(s *session, flags []config.Flag) (*config.Resolved, error) {
	return config.Load(config.Options{
		Mode:         config.Process,
		File:         c.File,
		Flags:        flags,
		Environments: batchEnvironments(),
		Parsers:      parsers.Names(), AbsentParsers: parsers.Absent(),
		ServerTypes: serverTypes(), EmbeddedServers: []string{replayScheme},
		Backends:  backends(),
		LookupEnv: s.app.Getenv,
	})
}

// batchEnvironments describes the one environment of batch runs to the configuration.
func batchEnvironments() []config.Environment {
	return []config.Environment{{Name: batch.Name, Own: func() any { return new(batch.Config) }}}
}

// configFlags translates the flags of the original into those of the configuration.
func (b *batchJob) configFlags(s *session) ([]config.Flag, error) {
	c := b.command
	var flags []config.Flag
	set := func(name, value string) { flags = append(flags, config.Flag{Name: name, Value: value}) }
	number := func(name string, given, usual int) {
		if given == 0 && c.File == "" {
			given = usual
		}
		if given > 0 {
			set(name, strconv.Itoa(given))
		}
	}
	text := func(name, given, usual string) {
		if given == "" && c.File == "" {
			given = usual
		}
		if given != "" {
			set(name, given)
		}
	}
	backend, err := c.backend(s)
	if err != nil {
		return nil, err
	}
	if backend != "" {
		set("env.terminal_backend", backend)
	}
	if image, ok := s.getenv("TERMINAL_DOCKER_IMAGE"); ok && backend == docker.Name {
		set("env.docker_image", image)
	}
	if image, ok := s.getenv("TERMINAL_SINGULARITY_IMAGE"); ok && backend == singularity.Name {
		set("env.singularity_image", image)
	}
	flags = append(flags, c.flags.given()...)
	set("environment", batch.Name)
	text("openai.base_url", c.BaseURL, openRouterV1)
	text("openai.model_name", c.Model, batchModel)
	text("openai.api_key", c.APIKey, "")
	number("env.max_agent_turns", c.MaxTurns, 10)
	number("env.max_num_workers", c.NumWorkers, 4)
	set("env.group_size", "1")
	set("env.distribution", c.Distribution)
	set("env.ensure_scores_are_not_same", "false")
	set("env.run_name", c.RunName)
	set("env.dataset_file", c.DatasetFile)
	set("env.prompts_per_file", strconv.Itoa(c.BatchSize))
	number("env.max_samples", c.MaxSamples, 0)
	number("env.max_tokens", c.MaxTokens, 0)
	if c.EphemeralSystemPrompt != "" {
		set("env.ephemeral_system_prompt_sha256", digestOf([]byte(c.EphemeralSystemPrompt)))
	}
	if len(b.ephemeral.Prefill) > 0 {
		set("env.prefill_messages_sha256", digestOf(chat.AppendMessages(nil, b.ephemeral.Prefill)))
	}
	if b.on.keep {
		set("env.keep_without_reasoning", "true")
	}
	if b.on.ignoreImages {
		set("env.ignore_images", "true")
	}
	return flags, nil
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// getenv returns a variable that is set to something.
func (s *session) getenv(name string) (string, bool) {
	if s.app.Getenv == nil {
		return "", false
	}
	v, ok := s.app.Getenv(name)
	return v, ok && v != ""
}

// backend is where sandboxes run, "" where neither a flag nor the environment says.
func (c *batchCommand) backend(s *session) (string, error) {
	name, source := c.TerminalEnv, "--terminal-env"
	if name == "" {
		var ok bool
		if name, ok = s.getenv("TERMINAL_ENV"); !ok {
			return "", nil
		}
		source = "TERMINAL_ENV"
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if !slices.Contains(backends(), name) {
		return "", fmt.Errorf("%s is %q: this program has the backends %s", source, name, strings.Join(backends(), ", "))
	}
	return name, nil
}

// fromImages says whether a backend makes its sandboxes from images.
func fromImages(backend string) bool { return backend == docker.Name || backend == singularity.Name }

// checkImages refuses to run on a machine what is meant to run in an image.
func (b *batchJob) checkImages(p *batch.Prompts) error {
	backend := b.cfg.Env.TerminalBackend
	if fromImages(backend) {
		return nil
	}
	if p.Images > 0 {
		text := fmt.Sprintf("%d prompts name an image (the first on line %d of %s), and sandboxes of the backend %s are not made from images", p.Images, p.FirstImage, b.command.DatasetFile, backend)
		if !b.cfg.Own.(*batch.Config).IgnoreImages {
			where := ""
			if backend == local.Name {
				where = " on this machine"
			}
			return fmt.Errorf("%s: use --terminal-env docker, or run them%s all the same with --ignore_images", text, where)
		}
		b.out.Warn(text + "; images are ignored")
	}
	if p.DirsAlone > 0 {
		b.out.Warn(fmt.Sprintf("cwd is ignored in %d prompts: it means a folder in an image", p.DirsAlone))
	}
	return nil
}

// ensureDir makes the folder of the run.
func ensureDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the run: %w (choose another one with --data_dir)", err)
	}
	return nil
}

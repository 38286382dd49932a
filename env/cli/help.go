package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/hermes-env/hermes-env/env"
)

// allFieldsFlag shows every field in the help of a command.
const allFieldsFlag = "--help-all"

// commonFields are the fields of the configuration that the help of a command shows; the
// others are shown on demand.
func commonFields(command string) []string {
	list := []string{
		"env.seed", "env.system_prompt", "env.max_agent_turns", "env.max_token_length", "env.agent_temperature", "env.rollout_timeout", "env.budget_usd",
		"env.enabled_toolsets", "env.tool_call_parser", "env.terminal_backend", "env.terminal_timeout", "env.docker_image",
		"env.dataset_name", "env.tasks", "env.task_filter",
		"openai.base_url", "openai.model_name", "openai.server_type", "openai.api_key_env",
	}
	switch command {
	case "serve":
		return append(list, "env.group_size", "env.total_steps", "env.max_num_workers", "env.rollout_server_url", "env.tokenizer_name")
	case "process":
		return append(list, "env.group_size", "env.total_steps", "env.max_num_workers", "env.data_path_to_save_groups")
	case "batch":
		return list
	}
	return append(list, "env.attempts", "env.max_eval_workers")
}

// rewriteArgs turns what users type out of habit into what there is: help, --version,
// --help-all. all reports whether help shows every field.
func rewriteArgs(args []string) (rewritten []string, all bool) {
	rewritten = slices.Clone(args)
	if len(rewritten) == 0 {
		return []string{"--help"}, false
	}
	switch rewritten[0] {
	case "help":
		rewritten = append(rewritten[1:], "--help")
	case "--version", "-V":
		rewritten[0] = "version"
	}
	for i, arg := range rewritten {
		if arg == "--" {
			break
		}
		if arg == allFieldsFlag {
			rewritten[i], all = "--help", true
		}
	}
	return rewritten, all
}

// helpPrinter prints help with the fields that people use most, or with all.
func (a *App) helpPrinter(all bool) kong.HelpPrinter {
	return func(options kong.HelpOptions, ctx *kong.Context) error {
		hidden := 0
		if node := ctx.Selected(); node != nil && !all {
			hidden = a.hideFields(node)
		}
		if err := kong.DefaultHelpPrinter(options, ctx); err != nil || hidden == 0 {
			return err
		}
		_, err := fmt.Fprintf(ctx.Stdout, "\nThere are %d more fields: %s %s %s shows all, %s envs NAME those of an environment.\n",
			hidden, ctx.Model.Name, ctx.Selected().Path(), allFieldsFlag, ctx.Model.Name)
		return err
	}
}

// hideFields hides the fields that are rarely set and returns how many there are. A
// program with one environment shows the environment's own.
func (a *App) hideFields(node *kong.Node) (hidden int) {
	shown := commonFields(node.Name)
	if list := a.configEnvironments(); len(list) == 1 {
		if fields, err := list[0].Fields(); err == nil {
			for _, f := range fields {
				if f.Own {
					shown = append(shown, f.Flag())
				}
			}
		}
	}
	for _, f := range node.Flags {
		if strings.Contains(f.Name, ".") && !f.Hidden && !slices.Contains(shown, f.Name) {
			f.Hidden = true
			hidden++
		}
	}
	return hidden
}

// isDataFile reports whether a file is a data set by its name.
func isDataFile(name string) bool {
	name = strings.ToLower(name)
	for _, packed := range []string{".gz", ".zst", ".bz2", ".xz"} {
		name = strings.TrimSuffix(name, packed)
	}
	return slices.Contains([]string{".jsonl", ".ndjson", ".parquet", ".csv", ".tsv", ".arrow"}, filepath.Ext(name))
}

// parseHint says what was probably meant by an argument that a command doesn't take.
func (a *App) parseHint(args []string, err error) string {
	argument, ok := strings.CutPrefix(err.Error(), "unexpected argument ")
	if !ok || len(args) == 0 {
		return ""
	}
	argument, _, _ = strings.Cut(argument, ",") // kong may add a suggestion
	switch args[0] {
	case "evaluate", "process", "serve", "validate", "config", "doctor", "rescore":
	default:
		return ""
	}
	switch info, err := os.Stat(argument); {
	case err == nil && info.IsDir() && hasRun(argument):
		return "; to go on with a run: --resume " + shellWord(argument)
	case isDataFile(argument):
		prompts := ""
		if slices.ContainsFunc(a.Environments, func(d env.Definition) bool { return d.Name == "prompts" }) {
			prompts = "--environment prompts "
		}
		return "; a data set is named by a field: " + prompts + "--env.dataset_name " + shellWord(argument)
	case err == nil && !info.IsDir(), slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(argument))):
		return "; a configuration file is named by a flag: --config " + shellWord(argument)
	case slices.ContainsFunc(a.Environments, func(d env.Definition) bool { return d.Name == argument || slices.Contains(d.Aliases, argument) }):
		return "; an environment is named by a flag: --environment " + shellWord(argument)
	}
	return ""
}

package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// reject records that a field breaks a rule that tags can't say, unless something
// is wrong with it already.
func (l *loader) reject(field, message string) {
	if !l.report.broken[field] {
		l.report.at(l.origins[field], field, message)
	}
}

// ok reports whether none of the fields has a problem already.
func (l *loader) ok(fields ...string) bool {
	return !slices.ContainsFunc(fields, func(f string) bool { return l.report.broken[f] })
}

func (l *loader) validate() {
	e := &l.config.Env
	if e.Distribution != "" && l.origins["env.enabled_toolsets"].Kind == FromEnvironment {
		e.EnabledToolsets = nil // as in the original, what is asked for wins over the environment's default
		l.origins["env.enabled_toolsets"] = l.origins["env.distribution"]
	}
	if e.Distribution != "" && e.EnabledToolsets != nil && l.ok("env.distribution", "env.enabled_toolsets") {
		l.reject("env.distribution", fmt.Sprintf("can't be combined with env.enabled_toolsets (%s); set one of the two to null", l.origins["env.enabled_toolsets"]))
	}
	if l.Mode != Evaluate && e.EnsureScoresAreNotSame && e.GroupSize == 1 && l.ok("env.group_size") {
		l.reject("env.ensure_scores_are_not_same", fmt.Sprintf("with group_size 1 (%s) every group would be left out; set it to false, or group_size to 2 or more", l.origins["env.group_size"]))
	}
	if e.MaxItems > 0 && e.SampleItems > 0 && l.ok("env.max_items", "env.sample_items") {
		l.reject("env.sample_items", fmt.Sprintf("can't be combined with env.max_items (%s); set one of the two to 0", l.origins["env.max_items"]))
	}
	if l.Mode != Evaluate && e.PartialGroups > e.GroupSize && l.ok("env.group_size", "env.partial_groups") {
		l.reject("env.partial_groups", fmt.Sprintf("%d rollouts are more than a whole group has (group_size %d, %s)", e.PartialGroups, e.GroupSize, l.origins["env.group_size"]))
	}
	if l.Mode == Process && e.TotalSteps < 0 && l.ok("env.total_steps") {
		l.reject("env.total_steps", "want a number of groups, at least 1; -1 means the trainer's number of steps, and there is a trainer in serve only")
	}
	if e.PreviewSizeChars > e.DefaultResultSizeChars && l.ok("env.default_result_size_chars") {
		l.reject("env.preview_size_chars", fmt.Sprintf("%d is more than default_result_size_chars %d (%s), so a preview would be longer than what it replaces",
			e.PreviewSizeChars, e.DefaultResultSizeChars, l.origins["env.default_result_size_chars"]))
	}
	if _, ok := e.ToolResultOverrides["read_file"]; ok {
		l.reject("env.tool_result_overrides", "read_file can't be named: its results are never replaced, because reading the file again would only be replaced again")
	}
	l.validateWord("env.terminal_backend", e.TerminalBackend, l.Backends, []string{"local", "docker", "modal", "ssh", "singularity", "daytona", "koyeb", "vercel_sandbox", "kubernetes"}, "docker")
	if why := l.AbsentParsers[e.ToolCallParser]; why != "" {
		l.reject("env.tool_call_parser", fmt.Sprintf("there is no parser %q: %s", e.ToolCallParser, why))
	} else if l.Parsers != nil {
		l.validateParser(e.ToolCallParser)
	} else if e.ToolCallParser == "" {
		l.reject("env.tool_call_parser", "want the name of a parser, got nothing")
	}
	if list, ok := members(e.ExtraBody); ok {
		for _, m := range list {
			switch m.key {
			case "messages", "model", "tools", "stream", "n":
				l.reject("env.extra_body", fmt.Sprintf("%s belongs to the harness and can't be set here", m.key))
			}
		}
	}
	for _, names := range []struct {
		field string
		list  []string
	}{{"env.enabled_toolsets", e.EnabledToolsets}, {"env.disabled_toolsets", e.DisabledToolsets}} {
		for i, n := range names.list {
			switch {
			case strings.TrimSpace(n) == "":
				l.reject(names.field, fmt.Sprintf("entry %d is empty", i+1))
			case slices.Contains(names.list[:i], n):
				l.reject(names.field, fmt.Sprintf("%s is listed twice", textutil.Quote(n, maxQuoted)))
			}
		}
	}
	l.validateReasoning()
	l.validateOwn()
	for i := range l.config.Servers {
		path := "openai"
		if len(l.config.Servers) > 1 {
			path = fmt.Sprintf("openai[%d]", i)
		}
		l.validatePrices(&l.config.Servers[i], path)
	}
	l.warnOfModels()
	if l.config.Agent == AgentModel && len(l.config.Servers) == 0 && l.ok("openai", "agent") && !l.unread() {
		l.report.at(Origin{}, "openai", "no model server; add an openai section with base_url and model_name to the config file, "+
			"or pass --openai.base_url and --openai.model_name (or --agent oracle to run the reference solutions)")
	}
}

// warnOfModels warns if the servers have different models: each rollout's requests may go
// to any of them.
func (l *loader) warnOfModels() {
	for i, s := range l.config.Servers {
		if first := l.config.Servers[0].ModelName; s.ModelName != first && s.ModelName != "" && first != "" {
			path := fmt.Sprintf("openai[%d].model_name", i)
			l.report.warn(l.origins[path], path, fmt.Sprintf("%s is another model than %s: any of the servers may answer, even within a rollout, and records name all of them", textutil.Quote(s.ModelName, maxQuoted), textutil.Quote(first, maxQuoted)))
			return
		}
	}
}

// validatePrices checks that prices come together, and that there are some where a
// budget needs them.
func (l *loader) validatePrices(s *Server, path string) {
	field, message := s.CheckPrices(path, l.config.Env.BudgetUSD > 0 && l.config.Agent == AgentModel)
	if field == "" || !l.ok("env.budget_usd", path+".price_input", path+".price_output") {
		return
	}
	if l.origins[path+"."+field].Kind == FromDefault && s.PriceInput == nil && s.PriceOutput == nil {
		l.report.at(l.origins["env.budget_usd"], path+"."+field, message) // whoever set the budget has to say more
		return
	}
	l.reject(path+"."+field, message)
}

func (l *loader) validateOwn() {
	v, ok := l.config.Own.(Validator)
	if !ok || len(l.report.problems) > 0 {
		return // rules between fields make no sense before each of them does
	}
	for _, err := range v.ValidateConfig(&l.config) {
		if fe, ok := errors.AsType[*FieldError](err); ok {
			l.rejectOwn("env."+fe.Field, fe.Message)
		} else if err != nil {
			l.report.at(Origin{}, "env", err.Error())
		}
	}
}

// rejectOwn is reject for a field that may lie in an object or list nobody gave it in:
// it is then placed at the nearest thing around it that was given.
func (l *loader) rejectOwn(field, message string) {
	if l.report.broken[field] {
		return
	}
	for at := field; at != "env"; at = at[:strings.LastIndexAny(at, ".[")] {
		if o, ok := l.origins[at]; ok && o.Kind != FromDefault {
			l.report.at(o, field, message)
			return
		}
	}
	l.report.at(l.origins[field], field, message)
}

// validateParser rejects an unknown parser. There are too many to list them here.
func (l *loader) validateParser(name string) {
	if slices.Contains(l.Parsers, name) {
		return
	}
	meant := ""
	if n := textutil.Nearest(name, l.Parsers); n != "" {
		meant = fmt.Sprintf("; did you mean %q?", n)
	}
	l.reject("env.tool_call_parser", fmt.Sprintf("no such parser %s%s (the command parsers lists them)", textutil.Quote(name, maxQuoted), meant))
}

// validateWord checks a word against what the program has. planned are words of the
// original framework; instead is what to use in their place, if the program has it.
func (l *loader) validateWord(field, word string, have, planned []string, instead string) {
	if slices.Contains(have, word) {
		return
	}
	message := fmt.Sprintf("no such value %s; there is %s", textutil.Quote(word, maxQuoted), strings.Join(have, ", "))
	if slices.Contains(planned, word) {
		message = fmt.Sprintf("%q is not available in this build; there is %s", word, strings.Join(have, ", "))
		if slices.Contains(have, instead) {
			message = fmt.Sprintf("%q is not available in this build; change it to %s, or pass --%s %s (there are %s)", word, instead, field, instead, strings.Join(have, ", "))
		}
	} else if n := textutil.Nearest(word, have); n != "" {
		message = fmt.Sprintf("no such value %s; did you mean %q?", textutil.Quote(word, maxQuoted), n)
	}
	l.reject(field, message)
}

func (l *loader) validateServer(s *Server, node *yaml.Node, path string) {
	if m := checkBaseURL(s.BaseURL, l.EmbeddedServers); m != "" {
		l.reject(path+".base_url", m)
	}
	if strings.TrimSpace(s.ModelName) == "" && l.ok(path+".model_name") {
		o := l.origins[path+".model_name"]
		if o.Kind == FromDefault && node != nil {
			o = l.fileOrigin().at(node)
		}
		l.report.at(o, path+".model_name", "missing; write the name the server knows the model by")
	}
	l.validateWord(path+".server_type", s.ServerType, l.ServerTypes, []string{"openai", "vllm", "sglang", "trl"}, "")
	if s.APIKeyEnv != "" && !variableName(s.APIKeyEnv) {
		l.reject(path+".api_key_env", fmt.Sprintf("want the name of an environment variable without $, got %d characters that are none", len(s.APIKeyEnv)))
	}
	if l.origins[path+".api_key"].Kind == FromFlag && s.APIKey.IsSet() && s.APIKey.text[0] != '$' {
		l.report.warn(l.origins[path+".api_key"], "openai.api_key", "other users of this machine can see the command line; name a variable with --openai.api_key_env")
	}
}

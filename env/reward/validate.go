package reward

import (
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/env/reward/rowtext"
)

func pathOf(i int) string { return fmt.Sprintf("parts[%d]", i) }

// Problems returns everything that is wrong with the configuration, each a *config.FieldError below section, which is the
// name of the reward: section; the judge's server is the section judge.
func (c Config) Problems(section string, judge config.Server) []error {
	v := &validation{section: section}
	if c.Type != "" && len(c.Parts) > 0 {
		v.at("", "type", "can't be combined with parts; write the reward of type %s into the list", c.Type)
		return v.errs
	}
	parts, paths := c.list()
	names := map[string]bool{}
	weights := 0.0
	for i, p := range parts {
		v.part(p, paths[i])
		if p.Type != "" && names[p.name()] {
			v.at(paths[i], anchor(p.Name != "", "name", "type"), "two parts are called %q; give them names", p.name())
		}
		names[p.name()] = true
		weights += max(p.Weight, -p.Weight)
	}
	if len(parts) > 0 && weights == 0 {
		v.at(paths[0], "weight", "every weight is 0, so the score would always be 0")
	}
	if c.UsesJudge() {
		v.judgeServer(judge, parts)
	}
	return v.errs
}

type validation struct {
	section string
	errs    []error
}

// at records a problem with a field of a part.
func (v *validation) at(path, field, format string, args ...any) {
	name := v.section
	if path != "" {
		name += "." + path
	}
	v.errs = append(v.errs, &config.FieldError{Field: name + "." + field, Message: fmt.Sprintf(format, args...)})
}

func anchor(ok bool, field, otherwise string) string {
	if ok {
		return field
	}
	return otherwise
}

func (v *validation) part(p Part, path string) {
	if strings.ContainsAny(p.Name, "\n\r\t") {
		v.at(path, "name", "want one line of text")
	}
	for _, f := range fieldsOfTypes() {
		if f.set(p) && !strings.Contains(" "+f.types+" ", " "+p.Type+" ") {
			v.at(path, f.name, "has no meaning for a reward of type %s; it belongs to %s", orNone(p.Type), strings.ReplaceAll(f.types, " ", ", "))
		}
	}
	switch p.Type {
	case TypeExact, TypeNormalized, TypeNumeric:
		if p.ReferenceField == "" {
			v.at(path, "type", "%s compares with a reference: set reference_field to the column that holds it", p.Type)
		}
		v.extractors(p, path)
	case TypeRegex:
		if _, err := compile(p.Pattern); err != nil {
			v.at(path, anchor(p.Pattern != "", "pattern", "type"), "pattern: %v", err)
		} else if re, err := compile(p.Pattern); err == nil && p.ReferenceField != "" && re.NumSubexp() == 0 {
			v.at(path, "pattern", "with reference_field it needs a group in parentheses, which is compared with the reference")
		}
		v.extractors(p, path)
	case TypeCommand:
		if strings.TrimSpace(p.Script) == "" {
			v.at(path, "type", "command runs a script: set script")
		} else if _, err := newCommand(p); err != nil {
			v.at(path, "files", "%v", err)
		}
	case TypeProgram:
		if len(p.Program) == 0 || strings.TrimSpace(p.Program[0]) == "" {
			v.at(path, "type", "program runs a program: set program to a list of its name and arguments")
		}
	case TypeJudge:
		v.judge(p, path)
	case "":
		v.at(path, "type", "missing; there are exact, normalized, regex, numeric, command, program, judge")
	default:
		v.at(path, "type", "no such reward %q; there are exact, normalized, regex, numeric, command, program, judge", p.Type)
	}
}

func orNone(kind string) string {
	if kind == "" {
		return "none"
	}
	return kind
}

// typedField is a field that only some types read.
type typedField struct {
	name, types string
	set         func(Part) bool
}

// fieldsOfTypes lists the fields whose presence is a mistake in parts of other types.
func fieldsOfTypes() []typedField {
	const matching = "exact normalized regex numeric"
	return []typedField{
		{"reference_field", matching + " judge", func(p Part) bool { return p.ReferenceField != "" }},
		{"extract", matching, func(p Part) bool { return p.Extract != "whole" && p.Extract != "" }},
		{"extract_pattern", matching, func(p Part) bool { return p.ExtractPattern != "" }},
		{"answer_reasoning", matching, func(p Part) bool { return p.AnswerReasoning != "auto" && p.AnswerReasoning != "" }},
		{"reference_extract", matching, func(p Part) bool { return p.ReferenceExtract != "whole" && p.ReferenceExtract != "" }},
		{"reference_pattern", matching, func(p Part) bool { return p.ReferencePattern != "" }},
		{"pattern", "regex", func(p Part) bool { return p.Pattern != "" }},
		{"absolute_tolerance", "numeric regex", func(p Part) bool { return p.AbsoluteTolerance != 0 }},
		{"relative_tolerance", "numeric regex", func(p Part) bool { return p.RelativeTolerance != 0 }},
		{"script", "command", func(p Part) bool { return p.Script != "" }},
		{"files", "command", func(p Part) bool { return len(p.Files) > 0 }},
		{"directory", "command program", func(p Part) bool { return p.Directory != "" }},
		{"environment", "command program", func(p Part) bool { return len(p.Environment) > 0 }},
		{"program", "program", func(p Part) bool { return len(p.Program) > 0 }},
		{"pass_environment", "program", func(p Part) bool { return len(p.PassEnvironment) > 0 }},
		{"rubric", "judge", func(p Part) bool { return p.Rubric != "" }},
		{"judge_prompt", "judge", func(p Part) bool { return p.JudgePrompt != "" }},
		{"judge_model", "judge", func(p Part) bool { return p.JudgeModel != "" }},
		{"verdict_pattern", "judge", func(p Part) bool { return p.VerdictPattern != "" }},
		{"choices", "judge", func(p Part) bool { return len(p.Choices) > 0 }},
	}
}

func (v *validation) extractors(p Part, path string) {
	for _, e := range []struct{ how, pattern, field, patternField string }{
		{p.Extract, p.ExtractPattern, "extract", "extract_pattern"},
		{p.ReferenceExtract, p.ReferencePattern, "reference_extract", "reference_pattern"},
	} {
		if _, err := newExtractor(e.how, e.pattern); err != nil {
			v.at(path, anchor(e.pattern != "", e.patternField, e.field), "%s: %v", e.how, err)
		} else if e.pattern != "" && e.how != "regex" && e.how != "tag" {
			v.at(path, e.patternField, "has no meaning with %s %s; set %s to regex or tag", e.field, e.how, e.field)
		}
	}
}

func (v *validation) judge(p Part, path string) {
	if strings.TrimSpace(p.Rubric) == "" && p.JudgePrompt == "" {
		v.at(path, "type", "judge needs a rubric")
	}
	if _, err := rowtext.Parse(p.Rubric); err != nil {
		v.at(path, "rubric", "%v", err)
	}
	if t, err := rowtext.Parse(p.JudgePrompt, specials()...); err != nil {
		v.at(path, "judge_prompt", "%v", err)
	} else if p.JudgePrompt != "" {
		if !t.Uses("answer") && !t.Uses("transcript") {
			v.at(path, "judge_prompt", "shows the judge nothing of what the model did; insert {{@answer}} or {{@transcript}}")
		}
		if p.Rubric != "" && !t.Uses("rubric") {
			v.at(path, "judge_prompt", "does not insert the rubric; add {{@rubric}}, or remove rubric")
		}
		if t.Uses("reference") && p.ReferenceField == "" {
			v.at(path, "judge_prompt", "inserts {{@reference}}, but reference_field is not set")
		}
	}
	if p.ScaleMin >= p.ScaleMax {
		v.at(path, "scale_max", "must be more than scale_min %s", formatFloat(p.ScaleMin))
	}
	switch p.Verdict {
	case "regex":
		if re, err := compile(p.VerdictPattern); err != nil {
			v.at(path, anchor(p.VerdictPattern != "", "verdict_pattern", "verdict"), "verdict_pattern: %v", err)
		} else if re.NumSubexp() == 0 {
			v.at(path, "verdict_pattern", "needs a group in parentheses around the number")
		}
	case "choice":
		if len(p.Choices) == 0 {
			v.at(path, "verdict", "choice needs choices: an object of words and their scores")
		}
		seen := map[string]bool{}
		for word, score := range p.Choices {
			folded := strings.ToLower(strings.TrimSpace(word))
			switch {
			case folded == "" || seen[folded]:
				v.at(path, "choices", "%q is empty, or there twice but for its case", word)
			case score < p.ScaleMin || score > p.ScaleMax:
				v.at(path, "choices", "the score %s of %q is not between scale_min %s and scale_max %s", formatFloat(score), word, formatFloat(p.ScaleMin), formatFloat(p.ScaleMax))
			}
			seen[folded] = true
		}
	}
	if p.Verdict != "choice" && len(p.Choices) > 0 {
		v.at(path, "choices", "counts only with verdict: choice")
	}
	if p.Verdict != "regex" && p.VerdictPattern != "" {
		v.at(path, "verdict_pattern", "counts only with verdict: regex")
	}
}

// judgeServer checks the section of the judge's server.
func (v *validation) judgeServer(s config.Server, parts []Part) {
	at := func(field, format string, args ...any) {
		v.errs = append(v.errs, &config.FieldError{Field: "judge." + field, Message: fmt.Sprintf(format, args...)})
	}
	switch {
	case s.BaseURL == "":
		at("base_url", "a reward of type judge asks a model: add a judge section with base_url and model_name to env")
	default:
		if m := s.CheckAddress("replay"); m != "" {
			at("base_url", "%s", m)
		}
		if strings.TrimSpace(s.ModelName) != "" {
			return
		}
		for _, p := range parts {
			if p.Type == TypeJudge && p.JudgeModel == "" {
				at("model_name", "missing; write the name the server knows the judge by")
				return
			}
		}
	}
}

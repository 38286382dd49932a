package atif

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Options says how strict Validate is.
type Options struct {
	// Strict also reports members the format does not have, as Harbor's own models do.
	Strict bool
}

// Problem is one thing that is wrong with a document.
type Problem struct {
	Path    string // for example steps[3].tool_calls[0].arguments; "" is the document
	Message string
}

// String returns "path: message".
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Error is returned for a document with problems.
type Error struct{ Problems []Problem }

// Error names the first problems and the number of the others.
func (e *Error) Error() string {
	const shown = 5
	var lines []string
	for _, p := range e.Problems[:min(shown, len(e.Problems))] {
		lines = append(lines, p.String())
	}
	if more := len(e.Problems) - shown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return "not a valid ATIF trajectory: " + strings.Join(lines, "; ")
}

// maxProblems bounds the list of one document.
const maxProblems = 100

// maxNesting bounds subagents in subagents.
const maxNesting = 16

// Validate returns what is wrong with a document of any version 1.x, in the order
// of the document; nothing means that it is valid.
func Validate(raw []byte, options Options) []Problem {
	if !json.Valid(raw) {
		return []Problem{{Message: "not valid JSON"}}
	}
	v := &validator{options: options}
	v.trajectory("", gjson.ParseBytes(raw), 0)
	return v.problems
}

type validator struct {
	options  Options
	problems []Problem
	version  int // of the document at hand: the x of 1.x
}

func (v *validator) report(path, format string, args ...any) {
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, Problem{Path: strings.TrimPrefix(path, "."), Message: fmt.Sprintf(format, args...)})
	}
}

// kind is what the value of a member must be.
type kind int

const (
	isText kind = iota
	isInteger
	isCount // an integer from 0
	isNumber
	isTruth
	isObject
	isArray
	isContent
	isEffort // a text or a number
	isIntegers
	isNumbers
)

func (k kind) String() string {
	return [...]string{"a string", "an integer", "an integer from 0", "a number", "true or false", "an object", "an array",
		"a string or an array of parts", "a string or a number", "an array of integers", "an array of numbers"}[k]
}

func (k kind) matches(r gjson.Result) bool {
	switch k {
	case isText:
		return r.Type == gjson.String
	case isInteger:
		_, err := strconv.ParseInt(r.Raw, 10, 64)
		return r.Type == gjson.Number && err == nil
	case isCount:
		return isInteger.matches(r) && r.Num >= 0
	case isNumber:
		return r.Type == gjson.Number
	case isTruth:
		return r.IsBool()
	case isObject:
		return r.IsObject()
	case isArray:
		return r.IsArray()
	case isContent:
		return r.Type == gjson.String || r.IsArray()
	case isEffort:
		return r.Type == gjson.String || r.Type == gjson.Number
	}
	element := isInteger
	if k == isNumbers {
		element = isNumber
	}
	return r.IsArray() && !slices.ContainsFunc(r.Array(), func(e gjson.Result) bool { return !element.matches(e) })
}

// member describes one member of an object.
type member struct {
	name     string
	kind     kind
	required bool
}

func trajectoryMembers() []member {
	return []member{{"schema_version", isText, true}, {"session_id", isText, false}, {"trajectory_id", isText, false}, {"agent", isObject, true},
		{"steps", isArray, true}, {"notes", isText, false}, {"final_metrics", isObject, false}, {"continued_trajectory_ref", isText, false},
		{"extra", isObject, false}, {"subagent_trajectories", isArray, false}}
}

func agentMembers() []member {
	return []member{{"name", isText, true}, {"version", isText, true}, {"model_name", isText, false}, {"tool_definitions", isArray, false}, {"extra", isObject, false}}
}

func stepMembers() []member {
	return []member{{"step_id", isInteger, true}, {"timestamp", isText, false}, {"source", isText, true}, {"model_name", isText, false},
		{"reasoning_effort", isEffort, false}, {"message", isContent, true}, {"reasoning_content", isText, false}, {"tool_calls", isArray, false},
		{"observation", isObject, false}, {"metrics", isObject, false}, {"is_copied_context", isTruth, false}, {"llm_call_count", isCount, false}, {"extra", isObject, false}}
}

func metricsMembers() []member {
	return []member{{"prompt_tokens", isInteger, false}, {"completion_tokens", isInteger, false}, {"cached_tokens", isInteger, false}, {"cost_usd", isNumber, false},
		{"prompt_token_ids", isIntegers, false}, {"completion_token_ids", isIntegers, false}, {"logprobs", isNumbers, false}, {"extra", isObject, false}}
}

func finalMembers() []member {
	return []member{{"total_prompt_tokens", isInteger, false}, {"total_completion_tokens", isInteger, false}, {"total_cached_tokens", isInteger, false},
		{"total_cost_usd", isNumber, false}, {"total_steps", isCount, false}, {"extra", isObject, false}}
}

func callMembers() []member {
	return []member{{"tool_call_id", isText, true}, {"function_name", isText, true}, {"arguments", isObject, true}, {"extra", isObject, false}}
}

func resultMembers() []member {
	return []member{{"source_call_id", isText, false}, {"content", isContent, false}, {"subagent_trajectory_ref", isArray, false}, {"extra", isObject, false}}
}

func refMembers() []member {
	return []member{{"trajectory_id", isText, false}, {"session_id", isText, false}, {"trajectory_path", isText, false}, {"extra", isObject, false}}
}

// object checks the members of an object. null stands for a member left out.
func (v *validator) object(path string, r gjson.Result, members []member) bool {
	if !r.IsObject() {
		v.report(path, "want an object")
		return false
	}
	good := true
	seen := make(map[string]bool)
	r.ForEach(func(key, value gjson.Result) bool {
		i := slices.IndexFunc(members, func(m member) bool { return m.name == key.String() })
		switch {
		case i < 0 && v.options.Strict:
			v.report(path+"."+key.String(), "the format has no such member")
			return true
		case i < 0:
			return true
		case seen[key.String()]:
			v.report(path+"."+key.String(), "given twice")
			good = false
		case value.Type == gjson.Null && !members[i].required:
			return true
		case !members[i].kind.matches(value):
			v.report(path+"."+key.String(), "want %s", members[i].kind)
			good = false
		}
		seen[key.String()] = true
		return true
	})
	for _, m := range members {
		if m.required && !seen[m.name] {
			v.report(path+"."+m.name, "missing")
			good = false
		}
	}
	return good
}

func (v *validator) trajectory(path string, r gjson.Result, depth int) {
	if depth > maxNesting {
		v.report(path, "subagents are nested more than %d deep", maxNesting)
		return
	}
	if !v.object(path, r, trajectoryMembers()) {
		return
	}
	minor, ok := strings.CutPrefix(r.Get("schema_version").Str, "ATIF-v1.")
	version, err := strconv.Atoi(minor)
	if !ok || err != nil || version < 0 {
		v.report(path+".schema_version", "%q is not a version ATIF-v1.x", r.Get("schema_version").Str)
		return
	}
	v.version = version
	if version < 7 && depth == 0 && r.Get("session_id").Type != gjson.String {
		v.report(path+".session_id", "missing (optional only since version 1.7)")
	}
	v.object(path+".agent", r.Get("agent"), agentMembers())
	for i, d := range r.Get("agent.tool_definitions").Array() {
		if !d.IsObject() {
			v.report(fmt.Sprintf("%s.agent.tool_definitions[%d]", path, i), "want an object")
		}
	}
	if f := r.Get("final_metrics"); f.IsObject() {
		v.object(path+".final_metrics", f, finalMembers())
	}
	steps := r.Get("steps").Array()
	if len(steps) == 0 {
		v.report(path+".steps", "want at least one step")
	}
	for i, s := range steps {
		v.step(fmt.Sprintf("%s.steps[%d]", path, i), s, i+1)
	}
	ids := make(map[string]bool)
	for i, sub := range r.Get("subagent_trajectories").Array() {
		at := fmt.Sprintf("%s.subagent_trajectories[%d]", path, i)
		switch id := sub.Get("trajectory_id"); {
		case id.Type != gjson.String:
			v.report(at+".trajectory_id", "missing: embedded trajectories need one")
		case ids[id.Str]:
			v.report(at+".trajectory_id", "%q is not unique", id.Str)
		default:
			ids[id.Str] = true
		}
		v.trajectory(at, sub, depth+1)
	}
	v.version = version
}

func (v *validator) step(path string, s gjson.Result, number int) {
	if !v.object(path, s, stepMembers()) {
		return
	}
	if id := s.Get("step_id").Int(); id != int64(number) {
		v.report(path+".step_id", "is %d, want %d: steps are numbered from 1 without gaps", id, number)
	}
	source := Source(s.Get("source").Str)
	switch source {
	case SourceAgent:
		if s.Get("llm_call_count").Type == gjson.Number && s.Get("llm_call_count").Int() == 0 {
			for _, name := range []string{"metrics", "reasoning_content"} {
				if isSet(s.Get(name)) {
					v.report(path+"."+name, "belongs to a model call, but llm_call_count is 0")
				}
			}
		}
	case SourceSystem, SourceUser:
		for _, name := range []string{"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"} {
			if isSet(s.Get(name)) {
				v.report(path+"."+name, "belongs to agent steps only, this one's source is %s", source)
			}
		}
	default:
		v.report(path+".source", "%q is none of system, user, agent", string(source))
	}
	if t := s.Get("timestamp"); t.Type == gjson.String && !isTimestamp(t.Str) {
		v.report(path+".timestamp", "%q is not an ISO 8601 time", t.Str)
	}
	v.content(path+".message", s.Get("message"))
	if m := s.Get("metrics"); m.IsObject() {
		v.object(path+".metrics", m, metricsMembers())
	}
	calls := make(map[string]bool)
	for i, c := range s.Get("tool_calls").Array() {
		at := fmt.Sprintf("%s.tool_calls[%d]", path, i)
		if !v.object(at, c, callMembers()) {
			continue
		}
		id := c.Get("tool_call_id").Str
		if calls[id] {
			v.report(at+".tool_call_id", "%q is not unique in the step", id)
		}
		calls[id] = true
	}
	if o := s.Get("observation"); o.IsObject() {
		v.observation(path+".observation", o, calls)
	}
}

func (v *validator) observation(path string, o gjson.Result, calls map[string]bool) {
	if !v.object(path, o, []member{{"results", isArray, true}}) {
		return
	}
	for i, r := range o.Get("results").Array() {
		at := fmt.Sprintf("%s.results[%d]", path, i)
		if !v.object(at, r, resultMembers()) {
			continue
		}
		if id := r.Get("source_call_id"); id.Type == gjson.String && !calls[id.Str] {
			v.report(at+".source_call_id", "%q is no call of this step", id.Str)
		}
		v.content(at+".content", r.Get("content"))
		for j, ref := range r.Get("subagent_trajectory_ref").Array() {
			where := fmt.Sprintf("%s.subagent_trajectory_ref[%d]", at, j)
			if v.object(where, ref, refMembers()) && v.version >= 7 && !isSet(ref.Get("trajectory_id")) && !isSet(ref.Get("trajectory_path")) {
				v.report(where, "neither trajectory_id nor trajectory_path is given")
			}
		}
	}
}

func (v *validator) content(path string, c gjson.Result) {
	if !c.IsArray() {
		return
	}
	if v.version < 6 {
		v.report(path, "lists of parts exist since version 1.6")
	}
	for i, p := range c.Array() {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !v.object(at, p, []member{{"type", isText, true}, {"text", isText, false}, {"source", isObject, false}}) {
			continue
		}
		text, source := p.Get("text"), p.Get("source")
		switch p.Get("type").Str {
		case "text":
			if !isSet(text) || isSet(source) {
				v.report(at, "a text part has text and no source")
			}
		case "image":
			if isSet(text) || !isSet(source) {
				v.report(at, "an image part has a source and no text")
				continue
			}
			if v.object(at+".source", source, []member{{"media_type", isText, true}, {"path", isText, true}}) && !knownMediaType(source.Get("media_type").Str) {
				v.report(at+".source.media_type", "%q is no image type of the format", source.Get("media_type").Str)
			}
		default:
			v.report(at+".type", "%q is neither text nor image", p.Get("type").Str)
		}
	}
}

func isSet(r gjson.Result) bool { return r.Exists() && r.Type != gjson.Null }

func isTimestamp(s string) bool {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02"} {
		if _, err := time.Parse(layout, s); err == nil {
			return true
		}
	}
	return false
}

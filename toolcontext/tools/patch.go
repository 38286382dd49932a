package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/tools/difflib"
	"github.com/hermes-env/hermes-env/toolcontext/tools/fuzzymatch"
)

// Patch returns the patch tool: it replaces a text inside a file, found even where
// the model's copy of it is a little off.
func Patch() Tool {
	return Tool{
		Name:    "patch",
		Toolset: "file",
		Description: "Make a change inside a file of the sandbox: find old_string and replace it by new_string. Use this instead of sed or awk. " +
			"Small differences in white space, indentation, escapes or typography are tolerated. Returns a unified diff. " +
			"old_string must be unique in the file unless replace_all is true: include the lines around it.",
		Parameters: []byte(`{"type":"object","properties":{` +
			`"mode":{"type":"string","enum":["replace"],"default":"replace","description":"replace: find a text and replace it"},` +
			`"path":{"type":"string","description":"Path of the file to change"},` +
			`"old_string":{"type":"string","description":"Text to find, with enough of its surroundings to be unique"},` +
			`"new_string":{"type":"string","description":"Text to put in its place; empty to delete it"},` +
			`"replace_all":{"type":"boolean","default":false,"description":"Replace every occurrence instead of requiring a unique one"}` +
			`},"required":["mode"]}`),
		Handler: runPatch,
	}
}

type patchResult struct {
	Success       bool     `json:"success"`
	NoChange      bool     `json:"no_change,omitempty"`
	Note          string   `json:"note,omitempty"`
	Diff          string   `json:"diff,omitempty"`
	FilesModified []string `json:"files_modified,omitempty"`
	Strategy      string   `json:"strategy,omitempty"` // how an inexact old_string was found
	Replacements  int      `json:"replacements,omitempty"`
	ResolvedPath  string   `json:"resolved_path,omitempty"`
	Error         string   `json:"error,omitempty"`
	Hint          string   `json:"_hint,omitempty"`
}

// patchFailures is how many failures in a row on one file make the hint insist.
const patchFailures = 3

func patchFailed(format string, args ...any) string {
	return encode(patchResult{Error: fmt.Sprintf(format, args...)})
}

func runPatch(ctx context.Context, call *Call) (string, error) {
	mode, ok, err := call.Args.String("mode")
	if err != nil {
		return patchFailed("%v", err), nil
	}
	// The V4A format joins here as a second mode.
	if ok && mode != "" && mode != "replace" {
		return patchFailed("mode %q is not available here; use mode \"replace\" with path, old_string and new_string", mode), nil
	}
	var text [3]string
	for i, argument := range []string{"path", "old_string", "new_string"} {
		if text[i], err = call.Args.Required(argument); err != nil {
			return patchFailed("%v; replace mode needs path, old_string and new_string", err), nil
		}
	}
	name, old, updated := text[0], text[1], text[2]
	all, err := call.Args.Bool("replace_all")
	if err != nil {
		return patchFailed("%v", err), nil
	}
	if name == "" {
		return patchFailed("path is empty; give the path of the file to change"), nil
	}
	resolved, err := call.State.Resolve(ctx, name)
	if err != nil {
		return patchError(err)
	}
	content, err := call.State.loadText(ctx, resolved)
	if err != nil {
		return patchError(err)
	}
	return call.State.replaceIn(ctx, name, resolved, content, old, updated, all)
}

// patchError turns an error of a file operation into a failed patch, unless the sandbox failed.
func patchError(err error) (string, error) {
	var broken *InfrastructureError
	if errors.As(err, &broken) {
		return "", err
	}
	return patchFailed("%v", err), nil
}

func (s *State) replaceIn(ctx context.Context, name, resolved, content, old, updated string, all bool) (string, error) {
	file := unwrap(content)
	if file.crlf {
		old, updated = strings.ReplaceAll(old, "\r\n", "\n"), strings.ReplaceAll(updated, "\r\n", "\n")
	}
	replaced, err := fuzzymatch.Replace(file.text, old, updated, all)
	if err != nil {
		return encode(patchResult{Error: fmt.Sprintf("%s: %v", resolved, err), Hint: s.patchHint(resolved, err)}), nil
	}
	s.patched(resolved)
	if replaced.AlreadyApplied || replaced.Content == file.text {
		return encode(patchResult{Success: true, NoChange: true, ResolvedPath: resolved,
			Note: "The file already contains new_string and not old_string; nothing was changed."}), nil
	}
	w, err := s.writeWhole(ctx, resolved, []byte(file.wrap(replaced.Content)))
	if err != nil {
		return patchError(err)
	}
	label := strings.TrimPrefix(name, "/")
	result := patchResult{
		Success:       true,
		Diff:          difflib.Unified(file.text, replaced.Content, "a/"+label, "b/"+label, 3),
		FilesModified: []string{w.target},
		ResolvedPath:  w.target,
	}
	if replaced.Strategy != fuzzymatch.Exact {
		result.Strategy = string(replaced.Strategy)
	}
	if replaced.Count > 1 {
		result.Replacements = replaced.Count
	}
	return encode(result), nil
}

// patchHint counts a failure and says what to do next.
func (s *State) patchHint(path string, err error) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures == nil {
		s.failures = make(map[string]int)
	}
	s.failures[path]++
	switch n := s.failures[path]; {
	case n >= patchFailures:
		return fmt.Sprintf("This is failure %d in a row on this file. Stop guessing: read the file again with read_file, then copy old_string from it, or write the whole file with write_file.", n)
	case errors.Is(err, fuzzymatch.ErrNotFound):
		return "Use read_file to see what the file says now, or search_files to find the text."
	}
	return ""
}

func (s *State) patched(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failures, path)
}

// wrapped is a text file without what surrounds its text: a byte order mark and,
// when every line has one, carriage returns.
type wrapped struct {
	text string
	mark bool
	crlf bool
}

func unwrap(content string) wrapped {
	text, mark := strings.CutPrefix(content, string(byteOrderMark))
	w := wrapped{text: text, mark: mark}
	if n := strings.Count(text, "\n"); n > 0 && strings.Count(text, "\r\n") == n && strings.Count(text, "\r") == n {
		w.crlf, w.text = true, strings.ReplaceAll(text, "\r\n", "\n")
	}
	return w
}

func (w wrapped) wrap(text string) string {
	if w.crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if w.mark {
		text = string(byteOrderMark) + text
	}
	return text
}

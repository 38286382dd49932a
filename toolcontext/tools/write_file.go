package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
)

// WriteFile returns the write_file tool: it creates or replaces a whole file.
func WriteFile() Tool {
	return Tool{
		Name:    "write_file",
		Toolset: "file",
		Description: "Write content to a file of the sandbox, replacing what was there. Use this instead of echo or a here-document. " +
			"Parent directories are created. The content is written exactly as given; for a change inside a file use patch.",
		Parameters: []byte(`{"type":"object","properties":{` +
			`"path":{"type":"string","description":"Path of the file to write (created when missing, replaced otherwise)"},` +
			`"content":{"type":"string","description":"The whole content of the file"}` +
			`},"required":["path","content"]}`),
		Handler: runWriteFile,
	}
}

type writeResult struct {
	BytesWritten  int      `json:"bytes_written"`
	DirsCreated   bool     `json:"dirs_created"`
	Verified      bool     `json:"verified,omitempty"`
	ResolvedPath  string   `json:"resolved_path"`
	FilesModified []string `json:"files_modified"`
}

func runWriteFile(ctx context.Context, call *Call) (string, error) {
	name, err := call.Args.Required("path")
	if err != nil {
		return ErrorResult("write_file: " + err.Error()), nil
	}
	if name == "" {
		return ErrorResult("write_file: path is empty; give the path of the file to write"), nil
	}
	content, err := call.Args.Required("content")
	if err != nil {
		return ErrorResult("write_file: " + err.Error() + ". Send the whole content of the file in one call"), nil
	}
	if problem := notContent(content); problem != "" {
		return ErrorResult("write_file: " + problem), nil
	}
	resolved, err := call.State.Resolve(ctx, name)
	if err != nil {
		return fileResult(err)
	}
	encoded, err := call.State.likeExisting(ctx, resolved, content)
	if err != nil {
		return fileResult(err)
	}
	w, err := call.State.writeWhole(ctx, resolved, encoded)
	if err != nil {
		return fileResult(err)
	}
	return encode(writeResult{
		BytesWritten: len(encoded), DirsCreated: w.dirsCreated, Verified: w.verified,
		ResolvedPath: w.target, FilesModified: []string{w.target},
	}), nil
}

// lineNumber returns N of a line that begins with "N|", blanks before it aside.
func lineNumber(line string) (int, bool) {
	digits, _, ok := strings.Cut(strings.TrimLeft(line, " \t"), "|")
	if !ok || len(digits) == 0 || len(digits) > 9 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// notContent recognises text that came from read_file and not from a file: a
// model that writes it back would destroy the file.
func notContent(content string) string {
	if strings.TrimSpace(content) == unchangedNote {
		return "the content is read_file's note that a file has not changed, not the content of a file"
	}
	lines, numbered, consecutive, last := 0, 0, true, 0
	for line := range strings.SplitSeq(strings.TrimSuffix(content, "\n"), "\n") {
		lines++
		n, ok := lineNumber(line)
		if !ok {
			continue
		}
		consecutive = consecutive && (numbered == 0 || n == last+1)
		numbered, last = numbered+1, n
	}
	if numbered >= 2 && consecutive && numbered*10 >= lines*6 {
		return "the content carries read_file's line numbers (N|text); send the text without them"
	}
	return ""
}

// lookScript prints the beginning of a regular file, and nothing for any other path.
const lookScript = `if [ -f "$1" ] && [ -r "$1" ]; then head -c 65536 "$1"; fi
`

var byteOrderMark = []byte("\xef\xbb\xbf")

// likeExisting gives content the byte order mark and the line ends of the file it
// replaces, so that rewriting a Windows file keeps it one.
func (s *State) likeExisting(ctx context.Context, name, content string) ([]byte, error) {
	out, err := s.shell(ctx, "", lookScript, nil, s.options.FileTimeout, 64<<10, name)
	if err != nil {
		return nil, err
	}
	existing := unwrap(string(out.stdout[:bytes.LastIndexByte(out.stdout, '\n')+1]))
	if existing.crlf && !strings.Contains(content, "\r\n") {
		content = strings.ReplaceAll(content, "\n", "\r\n")
	}
	if bytes.HasPrefix(out.stdout, byteOrderMark) && !strings.HasPrefix(content, string(byteOrderMark)) {
		content = string(byteOrderMark) + content
	}
	return []byte(content), nil
}

var errTooLarge = errors.New("the file is too large to edit")

// loadText returns the content of a file for editing.
func (s *State) loadText(ctx context.Context, name string) (string, error) {
	info, content, err := s.readWhole(ctx, name, maxWholeFile)
	switch {
	case err != nil:
		return "", err
	case info.kind != RegularFile:
		return "", &fileError{info.kind.describe(name)}
	case content == nil:
		return "", fmt.Errorf("%w: %d bytes, at most %d; use a program in the terminal", errTooLarge, info.size, maxWholeFile)
	case bytes.IndexByte(content, 0) >= 0:
		return "", &fileError{name + " is a binary file"}
	}
	return string(content), nil
}

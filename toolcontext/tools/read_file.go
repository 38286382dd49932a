package tools

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	defaultReadLines = 500
	maxReadLines     = 2000
	maxLineChars     = 2000
)

// ReadFile returns the read_file tool: a page of numbered lines of a text file.
func ReadFile() Tool {
	return Tool{
		Name:    "read_file",
		Toolset: "file",
		Description: "Read a text file of the sandbox as numbered lines (N|text). Use this instead of cat, head or tail. " +
			"Large files are read page by page with offset and limit; lines over 2,000 characters are cut. " +
			"A missing file gets suggestions of similar names. Notebooks (.ipynb), .docx and .xlsx are shown as text; images and other binary files can't be read.",
		Parameters: []byte(`{"type":"object","properties":{` +
			`"path":{"type":"string","description":"Path of the file (absolute, relative or ~/path)"},` +
			`"offset":{"type":"integer","minimum":1,"default":1,"description":"Line to start from, counted from 1 (default 1)"},` +
			`"limit":{"type":"integer","default":500,"maximum":2000,"description":"Number of lines to read (default 500, at most 2000)"}` +
			`},"required":["path"]}`),
		Handler:        runReadFile,
		MaxResultChars: NoLimit, // spilling a page to a file would send the model in circles
	}
}

type readResult struct {
	Content      string   `json:"content"`
	TotalLines   int      `json:"total_lines"`
	FileSize     int      `json:"file_size"`
	Truncated    bool     `json:"truncated"`
	Hint         string   `json:"hint,omitempty"`
	IsBinary     bool     `json:"is_binary"`
	IsImage      bool     `json:"is_image"`
	SimilarFiles []string `json:"similar_files,omitempty"`
	Error        string   `json:"error,omitempty"`
	Warning      string   `json:"_warning,omitempty"`
}

type readRefusal struct {
	Error      string `json:"error"`
	Path       string `json:"path"`
	TotalLines int    `json:"total_lines"`
	FileSize   int    `json:"file_size"`
}

type readUnchanged struct {
	Status          string `json:"status"`
	Message         string `json:"message"`
	Path            string `json:"path"`
	Dedup           bool   `json:"dedup"`
	ContentReturned bool   `json:"content_returned"`
}

type readBlocked struct {
	Error       string `json:"error"`
	Path        string `json:"path"`
	AlreadyRead int    `json:"already_read"`
}

// unchangedNote is also what write_file refuses to write back into a file.
const unchangedNote = "The file has not changed since you last read this page. The content above in this conversation is still right; use it instead of reading again."

func runReadFile(ctx context.Context, call *Call) (string, error) {
	name, err := call.Args.Required("path")
	if err != nil {
		return ErrorResult(err.Error()), nil
	}
	if name == "" {
		return ErrorResult("path is empty; give the path of the file to read"), nil
	}
	start := clampArgument(call.Args, "offset", 1, 1, 1<<31)
	limit := clampArgument(call.Args, "limit", defaultReadLines, 1, maxReadLines)
	resolved, err := call.State.Resolve(ctx, name)
	if err != nil {
		return fileResult(err)
	}
	info, sample, page, err := call.State.readPage(ctx, resolved, start, limit)
	if err != nil {
		return fileResult(fmt.Errorf("read %s: %w", resolved, err))
	}
	if info.kind == MissingFile {
		return call.State.missing(ctx, resolved, start, limit)
	}
	if info.kind != RegularFile {
		return encode(readResult{Error: info.kind.describe(resolved)}), nil
	}
	return call.State.showPage(ctx, resolved, info, sample, page, start, limit)
}

// fileResult turns an error of a file operation into a result, unless the sandbox failed.
func fileResult(err error) (string, error) {
	var broken *InfrastructureError
	if errors.As(err, &broken) {
		return "", err
	}
	return ErrorResult(err.Error()), nil
}

// clampArgument reads an integer that is never rejected: what is no number is the
// fallback, what is out of range its nearest bound.
func clampArgument(args Arguments, name string, fallback, low, high int) int {
	value, err := args.Int(name, fallback)
	if err != nil {
		value = fallback
	}
	return max(low, min(high, value))
}

func (s *State) showPage(ctx context.Context, name string, info fileInfo, sample, page []byte, start, limit int) (string, error) {
	result := readResult{TotalLines: info.lines, FileSize: info.size}
	if isImage(name) {
		result.IsImage, result.IsBinary = true, true
		result.Hint = "This is an image; its content can't be shown as text."
		return encode(result), nil
	}
	if extract := extractorFor(name); extract != nil && info.size <= maxWholeFile {
		_, whole, err := s.readWhole(ctx, name, maxWholeFile)
		if err != nil {
			return fileResult(fmt.Errorf("read %s: %w", name, err))
		}
		// A document that can't be read is shown as what it is: text or a binary file.
		if text, err := extract(whole); err == nil {
			return s.converted(name, result, text, start, limit)
		}
	}
	if order := utf16Order(sample); order != nil && info.size <= maxWholeFile {
		_, whole, err := s.readWhole(ctx, name, maxWholeFile)
		if err != nil {
			return fileResult(fmt.Errorf("read %s: %w", name, err))
		}
		if text := decodeUTF16(whole, order); !strings.ContainsRune(text, 0) {
			return s.converted(name, result, text, start, limit)
		}
	}
	if isBinary(sample) || hasBinaryName(name) {
		result.IsBinary = true
		result.Error = fmt.Sprintf("%s is a binary file and can't be shown as text; inspect it with a program in the terminal", name)
		return encode(result), nil
	}
	text := string(page)
	if !info.finalNewline && info.size > maxPlainPage && start+limit-1 > info.lines {
		text = strings.TrimSuffix(text, "\n") // the line cutter ends every line
	}
	return s.numbered(name, result, text, info, start, limit)
}

// converted shapes a page of text that is not in the file in this form.
func (s *State) converted(name string, result readResult, text string, start, limit int) (string, error) {
	result.TotalLines = strings.Count(text, "\n")
	info := fileInfo{size: len(text), lines: result.TotalLines, finalNewline: strings.HasSuffix(text, "\n")}
	return s.numbered(name, result, pageOf(text, start, limit), info, start, limit)
}

// numbered shapes a page. A page keeps its final newline and is then split, so an
// empty numbered line ends every page but the last of a file without one: models
// trained with hermes-agent know it that way.
func (s *State) numbered(name string, result readResult, text string, info fileInfo, start, limit int) (string, error) {
	visible := info.lines
	if !info.finalNewline && info.size > 0 {
		visible++
	}
	if text != "" {
		result.Content = numberLines(text, start)
	}
	end := start + limit - 1
	switch {
	case visible > end:
		result.Truncated = true
		result.Hint = fmt.Sprintf("Use offset=%d to continue reading (showing lines %d-%d of %d)", end+1, start, end, visible)
	case text == "" && info.size > 0:
		result.Hint = fmt.Sprintf("offset %d is past the end of the file, which has %d lines", start, visible)
	}
	if n := utf8.RuneCountInString(result.Content); n > s.options.MaxReadChars {
		return encode(readRefusal{
			Error: fmt.Sprintf("The page has %d characters, more than the %d that can be shown. Use offset and limit to read a smaller part (the file has %d lines).", n, s.options.MaxReadChars, visible),
			Path:  name, TotalLines: result.TotalLines, FileSize: result.FileSize,
		}), nil
	}
	return s.guarded(name, result, start, limit), nil
}

// guarded applies the rules against reading in circles.
func (s *State) guarded(name string, result readResult, start, limit int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.AllowRepeatedReads || s.detached {
		return encode(result)
	}
	switch hits := s.reads.seen(pageKey{name, start, limit}, result.Content); {
	case hits == 1:
		return encode(readUnchanged{Status: "unchanged", Message: unchangedNote, Path: name, Dedup: true})
	case hits > 1:
		return encode(readBlocked{
			Error: fmt.Sprintf("BLOCKED: you have read this page of %s %d times and it has not changed. Stop reading it and go on with the task.", name, hits+1),
			Path:  name, AlreadyRead: hits + 1,
		})
	}
	switch n := s.reads.repeated(fmt.Sprintf("read_file %q %d %d", name, start, limit)); {
	case n >= blockAfter:
		return encode(readBlocked{
			Error: fmt.Sprintf("BLOCKED: you have made this read %d times in a row. Go on with what you have.", n),
			Path:  name, AlreadyRead: n,
		})
	case n >= warnAfter:
		result.Warning = fmt.Sprintf("You have made this read %d times in a row. Use what you already know.", n)
	}
	return encode(result)
}

func numberLines(text string, start int) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/8)
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%d|", start+i)
		short := cutChars(line, maxLineChars)
		b.WriteString(short)
		if len(short) < len(line) {
			b.WriteString("... [truncated]")
		}
	}
	return b.String()
}

// pageOf returns count lines of text from line start on, the last with its newline.
func pageOf(text string, start, count int) string {
	for ; start > 1; start-- {
		_, rest, ok := strings.Cut(text, "\n")
		if !ok {
			return ""
		}
		text = rest
	}
	end := 0
	for ; count > 0 && end < len(text); count-- {
		i := strings.IndexByte(text[end:], '\n')
		if i < 0 {
			return text
		}
		end += i + 1
	}
	return text[:end]
}

func isImage(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico":
		return true
	}
	return false
}

// hasBinaryName says whether the extension promises content that is no text even
// where its first bytes look like some.
func hasBinaryName(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".zip", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".tgz", ".jar", ".whl",
		".exe", ".dll", ".so", ".dylib", ".o", ".a", ".class", ".pyc", ".wasm",
		".pdf", ".docx", ".xlsx", ".pptx", ".doc", ".xls", ".ppt",
		".mp3", ".mp4", ".wav", ".ogg", ".flac", ".avi", ".mov", ".mkv", ".webm",
		".ttf", ".otf", ".woff", ".woff2", ".sqlite", ".sqlite3", ".npy", ".npz", ".pkl", ".parquet":
		return true
	}
	return false
}

// isBinary says whether the beginning of a file holds a NUL or is no UTF-8, a
// character cut at the end of the sample aside.
func isBinary(sample []byte) bool {
	if bytes.IndexByte(sample, 0) >= 0 {
		return true
	}
	for i := 0; i < len(sample); {
		r, size := utf8.DecodeRune(sample[i:])
		if r == utf8.RuneError && size == 1 {
			return utf8.FullRune(sample[i:]) || len(sample) < sampleBytes
		}
		i += size
	}
	return false
}

// utf16Order returns the byte order that a UTF-16 byte order mark announces, or nil.
func utf16Order(sample []byte) binary.ByteOrder {
	switch {
	case bytes.HasPrefix(sample, []byte{0xff, 0xfe}):
		return binary.LittleEndian
	case bytes.HasPrefix(sample, []byte{0xfe, 0xff}):
		return binary.BigEndian
	}
	return nil
}

func decodeUTF16(raw []byte, order binary.ByteOrder) string {
	units := make([]uint16, 0, len(raw)/2)
	for i := 2; i+1 < len(raw); i += 2 {
		units = append(units, order.Uint16(raw[i:]))
	}
	return string(utf16.Decode(units))
}

package tools

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

const (
	// maxWholeFile is the size up to which a file is taken into memory whole.
	maxWholeFile = 10 << 20
	// maxPlainPage is the file size up to which a page is read without cutting long lines in the sandbox.
	maxPlainPage = 4 << 20
	// maxPageBytes bounds a page read from a bigger file: 2,000 lines of maxLineBytes.
	maxPageBytes = 20 << 20
	// maxLineBytes holds the 2,000 characters shown of a line, and one more.
	maxLineBytes = 4*maxLineChars + 1
	sampleBytes  = 1000
)

// fileKind is what a path leads to.
type fileKind string

const (
	regularFile fileKind = "file"
	missingFile fileKind = "missing"
	directory   fileKind = "directory"
	specialFile fileKind = "special"
	deniedFile  fileKind = "denied"
)

// describe explains why a path can't be read as a file.
func (k fileKind) describe(name string) string {
	switch k {
	case directory:
		return name + " is a directory, not a file"
	case specialFile:
		return name + " is not a regular file"
	case deniedFile:
		return "Permission denied: " + name
	}
	return "File not found: " + name
}

// kindScript prints what $1 is when it is no readable regular file, and ends.
const kindScript = `p=$1
if [ -d "$p" ]; then echo directory; exit 0; fi
if [ ! -e "$p" ]; then echo missing; exit 0; fi
if [ ! -f "$p" ]; then echo special; exit 0; fi
if [ ! -r "$p" ]; then echo denied; exit 0; fi
`

// fileInfo is the header line of a file script.
type fileInfo struct {
	kind         fileKind
	size, lines  int  // lines as wc -l counts them
	finalNewline bool // the last byte is a newline
}

// headerScript prints "file SIZE LINES FINAL", where FINAL is 1 for a last newline.
const headerScript = kindScript + `size=$(wc -c < "$p") && lines=$(wc -l < "$p") || exit 1
final=0; [ "$size" -gt 0 ] && [ -z "$(tail -c 1 "$p")" ] && final=1
printf 'file %d %d %d\n' "$size" "$lines" "$final"
`

// pageScript prints the header, the first bytes of the file and then the lines
// $2 to $3, cut to $5 bytes each when the file is bigger than $4.
const pageScript = headerScript + `head -c 1000 "$p"
if [ "$size" -le "$4" ]; then tail -n "+$2" "$p" | head -n "$3"
else tail -n "+$2" "$p" | head -n "$3" | LC_ALL=C cut -b "1-$5"; fi
`

// wholeScript prints the header and, up to $2 bytes, the file.
const wholeScript = headerScript + `[ "$size" -gt "$2" ] || cat "$p"
`

// header splits the output of a file script after its first line.
func header(out output) (fileInfo, []byte, error) {
	line, rest, ok := bytes.Cut(out.stdout, []byte{'\n'})
	fields := strings.Fields(string(line))
	if !ok || out.timedOut || len(fields) == 0 {
		return fileInfo{}, nil, out.complaint()
	}
	info := fileInfo{kind: fileKind(fields[0])}
	if info.kind != regularFile {
		return info, nil, nil
	}
	if len(fields) != 4 {
		return fileInfo{}, nil, out.complaint()
	}
	var err1, err2 error
	info.size, err1 = strconv.Atoi(fields[1])
	info.lines, err2 = strconv.Atoi(fields[2])
	info.finalNewline = fields[3] == "1"
	return info, rest, errors.Join(err1, err2)
}

// readPage returns the first bytes of a file and count lines from line start on.
func (s *State) readPage(ctx context.Context, name string, start, count int) (info fileInfo, sample, page []byte, err error) {
	out, err := s.shell(ctx, "", pageScript, nil, s.options.FileTimeout, maxPageBytes, name,
		strconv.Itoa(start), strconv.Itoa(count), strconv.Itoa(maxPlainPage), strconv.Itoa(maxLineBytes))
	if err != nil {
		return fileInfo{}, nil, nil, err
	}
	info, rest, err := header(out)
	if err != nil || info.kind != regularFile {
		return info, nil, nil, err
	}
	if out.cut {
		return info, nil, nil, errors.New("the page is too large to read; ask for fewer lines")
	}
	n := min(sampleBytes, info.size, len(rest))
	return info, rest[:n], rest[n:], nil
}

// ReadBytes returns the exact content of a regular file of at most limit bytes in
// the sandbox. The error wraps fs.ErrNotExist when there is none, and is an
// *InfrastructureError when the sandbox failed.
func (s *State) ReadBytes(ctx context.Context, name string, limit int) ([]byte, error) {
	resolved, err := s.Resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	info, content, err := s.readWhole(ctx, resolved, limit)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", resolved, err)
	case info.kind == missingFile:
		return nil, fmt.Errorf("read %s: %w", resolved, fs.ErrNotExist)
	case info.kind != regularFile:
		return nil, fmt.Errorf("read %s: it is not a readable regular file (%s)", resolved, info.kind)
	case content == nil:
		return nil, fmt.Errorf("read %s: it has %d bytes, more than the limit of %d", resolved, info.size, limit)
	}
	return content, nil
}

// readWhole returns the content of a regular file, nil when it has more than limit bytes.
func (s *State) readWhole(ctx context.Context, name string, limit int) (fileInfo, []byte, error) {
	// The capture keeps 40 % and 60 % apart; room for the header line and then some.
	out, err := s.shell(ctx, "", wholeScript, nil, s.options.FileTimeout, limit+4096, name, strconv.Itoa(limit))
	if err != nil {
		return fileInfo{}, nil, err
	}
	info, content, err := header(out)
	if err != nil || info.kind != regularFile || info.size > limit {
		return info, nil, err
	}
	if out.exit != 0 {
		return info, nil, out.complaint()
	}
	if out.cut || len(content) != info.size {
		return info, nil, errors.New("it changed while it was read")
	}
	if content == nil {
		content = []byte{}
	}
	return info, content, nil
}

// writeScript writes stdin to $1 through a temporary file beside it, $2 being a
// name nobody else uses and $3 the number of bytes. Links are followed to the file
// they lead to; mode and owner of an existing file stay. It prints one line per
// fact: "error TEXT", or "dirs 0|1", "sum SHA256" where a tool for it exists, "path TARGET".
const writeScript = `t=$1; n=0; tmp=
fail() { printf 'error %s\n' "$1"; [ -z "$tmp" ] || rm -f "$tmp"; exit 0; }
while [ -L "$t" ]; do
  n=$((n+1)); [ "$n" -le 40 ] || fail "too many levels of links"
  l=$(readlink "$t" && printf x) || fail "the link cannot be read"
  l=${l%?x}
  case $l in /*) t=$l ;; *) d=${t%/*}; t=$d/$l ;; esac
done
[ ! -d "$t" ] || fail "it is a directory"
if [ -e "$t" ]; then
  [ -f "$t" ] || fail "it is not a regular file"
  [ -w "$t" ] || fail "permission denied"
fi
d=${t%/*}; [ -n "$d" ] || d=/
made=0
if [ ! -d "$d" ]; then
  e=$(mkdir -p "$d" 2>&1) || fail "cannot create the directory: $e"
  made=1
fi
tmp=$d/$2
if [ -e "$t" ]; then e=$(cp -p "$t" "$tmp" 2>&1) || fail "cannot write beside it: $e"
else e=$( (set -C; : > "$tmp") 2>&1) || fail "cannot write beside it: $e"; fi
e=$( { cat > "$tmp"; } 2>&1) || fail "cannot write: $e"
got=$(wc -c < "$tmp")
[ "$got" -eq "$3" ] || fail "only $got of $3 bytes arrived"
e=$(mv -f "$tmp" "$t" 2>&1) || fail "cannot replace it: $e"
tmp=
printf 'dirs %s\n' "$made"
if sum=$(sha256sum "$t" 2>/dev/null) || sum=$(shasum -a 256 "$t" 2>/dev/null); then
  sum=${sum#\\}; printf 'sum %s\n' "${sum%% *}"
fi
d=$(cd "$d" && pwd -P) || d=
printf 'path %s/%s\n' "${d%/}" "${t##*/}"
`

// written is what a write did.
type written struct {
	target      string // the file written, links resolved
	dirsCreated bool
	verified    bool // the file was read back and is what was written
}

// fileError is a refusal or a failure that the model is told; the sandbox is fine.
type fileError struct{ message string }

func (e *fileError) Error() string { return e.message }

// writeWhole replaces a file atomically. Failures inside the sandbox are a *fileError.
func (s *State) writeWhole(ctx context.Context, name string, content []byte) (written, error) {
	out, err := s.shell(ctx, "", writeScript, content, s.options.FileTimeout, 64<<10, name, scratchName(), strconv.Itoa(len(content)))
	if err != nil {
		return written{}, err
	}
	if out.timedOut || out.exit != 0 {
		return written{}, &fileError{fmt.Sprintf("Failed to write %s: %v", name, out.complaint())}
	}
	var w written
	rest := strings.TrimSuffix(string(out.stdout), "\n")
	for rest != "" {
		line, more, _ := strings.Cut(rest, "\n")
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "error":
			value = strings.Join(strings.Fields(strings.ToValidUTF8(rest[len("error "):], "\uFFFD")), " ")
			return written{}, &fileError{fmt.Sprintf("Failed to write %s: %s", name, cutChars(value, 300))}
		case "dirs":
			w.dirsCreated = value == "1"
		case "sum":
			sum := sha256.Sum256(content)
			if value != hex.EncodeToString(sum[:]) {
				return written{}, &fileError{fmt.Sprintf("Failed to write %s: the file read back differs from what was written", name)}
			}
			w.verified = true
		case "path":
			w.target = path.Clean(rest[len("path "):])
			more = ""
		}
		rest = more
	}
	if w.target == "" {
		return written{}, &fileError{fmt.Sprintf("Failed to write %s: %v", name, out.complaint())}
	}
	s.mu.Lock()
	s.reads.forget(name)
	s.reads.forget(w.target)
	s.mu.Unlock()
	return w, nil
}

// WriteBytes replaces or creates a file in the sandbox with exactly this content,
// making its directories, and returns the absolute path written.
func (s *State) WriteBytes(ctx context.Context, name string, content []byte) (string, error) {
	resolved, err := s.Resolve(ctx, name)
	if err != nil {
		return "", err
	}
	w, err := s.writeWhole(ctx, resolved, content)
	return w.target, err
}

// scratchName returns a file name that nobody else uses.
func scratchName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return ".hermes-tmp-" + hex.EncodeToString(b[:])
}

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
	// maxWholePage is the file size up to which a page is cut out here and not in the sandbox.
	maxWholePage = 256 << 10
	// maxPlainPage is the file size up to which a page is read without cutting long lines in the sandbox.
	maxPlainPage = 4 << 20
	// maxPageBytes bounds a page read from a bigger file: 2,000 lines of maxLineBytes.
	maxPageBytes = 20 << 20
	// maxLineBytes holds the 2,000 characters shown of a line, and one more.
	maxLineBytes = 4*maxLineChars + 1
	sampleBytes  = 1000
)

// FileKind is what a path leads to.
type FileKind string

// What a path can lead to.
const (
	RegularFile FileKind = "file"
	MissingFile FileKind = "missing"
	Directory   FileKind = "directory"
	SpecialFile FileKind = "special" // a pipe, a device, a socket
	DeniedFile  FileKind = "denied"  // a file that may not be read
)

// describe explains why a path can't be read as a file.
func (k FileKind) describe(name string) string {
	switch k {
	case Directory:
		return name + " is a directory, not a file"
	case SpecialFile:
		return name + " is not a regular file"
	case DeniedFile:
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

// fileInfo is what is known of a file after a script has looked at it.
type fileInfo struct {
	kind         FileKind
	size, lines  int  // lines as wc -l counts them
	finalNewline bool // the last byte is a newline
}

// pageScript prints "whole SIZE" and the file when it has at most $4 bytes. Of a
// bigger one it prints "page SIZE LINES FINAL" (FINAL is 1 for a last newline), its
// first 1,000 bytes and $3 lines from line $2 on, cut to $6 bytes each when the
// file has more than $5 bytes. Processes are what a script costs, so small files
// take the short way.
const pageScript = kindScript + `size=$(wc -c < "$p") || exit 1
if [ "$size" -le "$4" ]; then printf 'whole %d\n' "$size"; cat "$p"; exit; fi
lines=$(wc -l < "$p") || exit 1
final=0; [ -n "$(tail -c 1 "$p")" ] || final=1
printf 'page %d %d %d\n' "$size" "$lines" "$final"
head -c 1000 "$p"
if [ "$size" -le "$5" ]; then tail -n "+$2" "$p" | head -n "$3"
else tail -n "+$2" "$p" | head -n "$3" | LC_ALL=C cut -b "1-$6"; fi
`

// wholeScript prints "whole SIZE" and, up to $2 bytes, the file.
const wholeScript = kindScript + `size=$(wc -c < "$p") || exit 1
printf 'whole %d\n' "$size"
[ "$size" -gt "$2" ] || cat "$p"
`

// header splits the output of a file script after its first line. whole says that
// the rest is the file and not a part of it.
func header(out output) (info fileInfo, whole bool, rest []byte, err error) {
	line, rest, ok := bytes.Cut(out.stdout, []byte{'\n'})
	fields := strings.Fields(string(line))
	if !ok || out.timedOut || len(fields) == 0 {
		return info, false, nil, out.complaint()
	}
	numbers := make([]int, 3)
	for i, field := range fields[1:] {
		if i == len(numbers) {
			return info, false, nil, out.complaint()
		}
		if numbers[i], err = strconv.Atoi(field); err != nil {
			return info, false, nil, out.complaint()
		}
	}
	switch kind := FileKind(fields[0]); kind {
	case MissingFile, Directory, SpecialFile, DeniedFile:
		return fileInfo{kind: kind}, false, nil, nil
	}
	info = fileInfo{kind: RegularFile, size: numbers[0], lines: numbers[1], finalNewline: numbers[2] == 1}
	return info, fields[0] == "whole", rest, nil
}

// readPage returns the first bytes of a file and count lines from line start on.
func (s *State) readPage(ctx context.Context, name string, start, count int) (info fileInfo, sample, page []byte, err error) {
	out, err := s.shell(ctx, "", pageScript, nil, s.options.FileTimeout, maxPageBytes, name, strconv.Itoa(start),
		strconv.Itoa(count), strconv.Itoa(maxWholePage), strconv.Itoa(maxPlainPage), strconv.Itoa(maxLineBytes))
	if err != nil {
		return fileInfo{}, nil, nil, err
	}
	info, whole, rest, err := header(out)
	if err != nil || info.kind != RegularFile {
		return info, nil, nil, err
	}
	if out.cut {
		return info, nil, nil, errors.New("the page is too large to read; ask for fewer lines")
	}
	n := min(sampleBytes, len(rest))
	if whole {
		text := string(rest)
		info.size, info.lines, info.finalNewline = len(text), strings.Count(text, "\n"), strings.HasSuffix(text, "\n")
		return info, rest[:n], []byte(pageOf(text, start, count)), nil
	}
	return info, rest[:n], rest[n:], nil
}

// Kind says what an absolute path in the sandbox leads to, links followed.
func (s *State) Kind(ctx context.Context, name string) (FileKind, error) {
	out, err := s.shell(ctx, "", kindScript+"echo file\n", nil, s.options.FileTimeout, 4096, name)
	if err != nil {
		return "", err
	}
	info, _, _, err := header(out)
	return info.kind, err
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
	case info.kind == MissingFile:
		return nil, fmt.Errorf("read %s: %w", resolved, fs.ErrNotExist)
	case info.kind != RegularFile:
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
	info, _, content, err := header(out)
	if err != nil || info.kind != RegularFile || info.size > limit {
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
// name nobody else uses, $3 the number of bytes and $4 their SHA-256. Links are
// followed to the file they lead to; mode and owner of an existing file stay. What
// arrived is read back and compared before it replaces anything. A file that can't be
// replaced, as a mount point or in a directory that is not writable, is overwritten in
// place. It prints one line per fact: "error TEXT", or "dirs 0|1", "verified" where a program could compare
// more than the size, "path TARGET".
const writeScript = `t=$1; n=0; tmp=; away=; e=
trap '[ -z "$tmp" ] || rm -f "$tmp"; exit 1' HUP INT TERM
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
if [ -e "$t" ]; then
  e=$(cp -p "$t" "$tmp" 2>&1) || {
    rm -f "$tmp"
    away=1
    tmp=${TMPDIR:-/tmp}/$2
    cp -p "$t" "$tmp" 2>/dev/null || fail "cannot write beside it: $e"
  }
else e=$( (set -C; : > "$tmp") 2>&1) || fail "cannot write beside it: $e"; fi
e=$( { cat > "$tmp"; } 2>&1) || fail "cannot write: $e"
if sum=$(sha256sum < "$tmp" 2>/dev/null) || sum=$(shasum -a 256 < "$tmp" 2>/dev/null); then
  [ "${sum%% *}" = "$4" ] || fail "what was read back differs from what was written"
  echo verified
else
  got=$(wc -c < "$tmp")
  [ "$got" -eq "$3" ] || fail "only $got of $3 bytes arrived"
fi
if [ -n "$away" ] || ! e=$(mv -f "$tmp" "$t" 2>&1); then
  # A file that is a mount point can be written but not replaced.
  [ -f "$t" ] || fail "cannot replace it: $e"
  e=$( { cat "$tmp" > "$t"; } 2>&1) || fail "cannot write: $e"
  [ "$(wc -c < "$t")" -eq "$3" ] || fail "what was read back differs from what was written"
  rm -f "$tmp"
fi
tmp=
printf 'dirs %s\n' "$made"
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
	sum := sha256.Sum256(content)
	out, err := s.shell(ctx, "", writeScript, content, s.options.FileTimeout, 64<<10, name, scratchName(),
		strconv.Itoa(len(content)), hex.EncodeToString(sum[:]))
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
		case "verified":
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

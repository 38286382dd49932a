package toolcontext

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Transfer says what an upload or a download has moved.
type Transfer struct {
	Files int   // regular files
	Bytes int64 // of their content
	// Skipped are entries that a download left out because they are links that
	// leave the directory; the first 100 of them, and how many there were.
	Skipped      []SkippedEntry
	SkippedTotal int
}

// SkippedEntry is an entry that was left out.
type SkippedEntry struct {
	Name   string // relative to the directory
	Reason error
}

// maxSkipped is how many left out entries are named.
const maxSkipped = 100

func (t *Transfer) skip(name string, reason error) {
	if t.SkippedTotal++; len(t.Skipped) < maxSkipped {
		t.Skipped = append(t.Skipped, SkippedEntry{name, reason})
	}
}

// errStopped is what the writing end of a pipe gets when nobody reads any more.
var errStopped = errors.New("the other end stopped reading")

// copyBuffer is the size of the pieces content is copied in.
const copyBuffer = 256 << 10

// relay copies the entries of an archive below the directory top to another one,
// as entries relative to top: neither top itself nor anything that makes an archive
// reader act on more than names, contents, modes and times. It counts what it
// moves. Errors of reading and of writing are told apart.
func relay(from *tar.Reader, top string, w io.Writer, moved *Transfer) (readErr, writeErr error) {
	to := tar.NewWriter(w)
	buffer := make([]byte, copyBuffer)
	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil, to.Close()
		}
		if err != nil {
			return err, nil
		}
		name, err := below(top, h.Name)
		if err != nil {
			return err, nil
		}
		if name == "" {
			continue
		}
		size := h.Size
		if h.Typeflag != tar.TypeReg {
			size = 0 // nothing else has content that is moved
		}
		err = to.WriteHeader(&tar.Header{
			Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Size: size,
			Mode: h.Mode & 0o777, ModTime: h.ModTime.Truncate(time.Second),
		})
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		source := &watchedReader{r: from}
		n, err := io.CopyBuffer(struct{ io.Writer }{to}, source, buffer)
		if source.err != nil {
			return source.err, nil
		}
		if err != nil {
			return nil, err
		}
		moved.Files++
		moved.Bytes += n
	}
}

// below returns an entry's name relative to the archive's directory, "" for that
// directory itself. What is left of a hostile name stays as hostile as it was.
func below(top, name string) (string, error) {
	top = strings.TrimSuffix(top, "/")
	switch rest, ok := strings.CutPrefix(name, top+"/"); {
	case ok:
		return rest, nil
	case name == top:
		return "", nil
	case top == ".":
		return name, nil
	}
	return "", fmt.Errorf("%w: the entry %q does not lie in the directory %q that was asked for", sandbox.ErrUnsafeArchive, name, top)
}

// watchedReader remembers why reading failed.
type watchedReader struct {
	r   io.Reader
	err error
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		w.err = err
	}
	return n, err
}

package docker

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// traceID marks the messages of a build in which BuildKit reports its progress.
const traceID = "moby.buildkit.trace"

// buildTrace turns BuildKit's reports, protocol buffers of its control API, into lines
// like those of the classic builder.
type buildTrace struct {
	begun map[string]bool // steps announced
	ended map[string]bool
}

func newBuildTrace() *buildTrace {
	return &buildTrace{begun: map[string]bool{}, ended: map[string]bool{}}
}

// Field numbers of BuildKit's StatusResponse, Vertex and VertexLog.
const (
	statusVertex  = 1
	statusLog     = 3
	vertexDigest  = 1
	vertexName    = 3
	vertexCached  = 4
	vertexStarted = 5
	vertexError   = 7
	logMessage    = 4
)

// maxTraceLine bounds a line; commands may print anything.
const maxTraceLine = 2000

// lines returns what a report says that is new. A report that can't be read says nothing.
func (t *buildTrace) lines(aux json.RawMessage) (lines []string) {
	var report []byte
	if json.Unmarshal(aux, &report) != nil { // base64 in a JSON string
		return nil
	}
	eachField(report, func(number protowire.Number, content []byte, _ uint64) {
		switch number {
		case statusVertex:
			lines = append(lines, t.vertex(content)...)
		case statusLog:
			eachField(content, func(number protowire.Number, content []byte, _ uint64) {
				if number != logMessage {
					return
				}
				for line := range strings.Lines(string(content)) {
					lines = append(lines, cut(strings.TrimRight(line, "\r\n")))
				}
			})
		}
	})
	return lines
}

// vertex returns the lines for a step that has begun, was found in the cache or failed.
func (t *buildTrace) vertex(content []byte) (lines []string) {
	var digest, name, problem string
	var started, cached bool
	eachField(content, func(number protowire.Number, content []byte, value uint64) {
		switch number {
		case vertexDigest:
			digest = string(content)
		case vertexName:
			name = cut(string(content))
		case vertexCached:
			cached = value != 0
		case vertexStarted:
			started = true
		case vertexError:
			problem = cut(string(content))
		}
	})
	if started && !t.begun[digest] {
		t.begun[digest] = true
		if cached {
			name += " (cached)"
		}
		lines = append(lines, name)
	}
	if problem != "" && !t.ended[digest] {
		t.ended[digest] = true
		lines = append(lines, "failed: "+problem)
	}
	return lines
}

func cut(line string) string {
	if len(line) > maxTraceLine {
		line = line[:maxTraceLine] + "…"
	}
	return strings.ToValidUTF8(line, "�")
}

// eachField calls do for each field of a message: with the content of one that has a
// length, or the value of a plain number. It ends at the first byte that is no field.
func eachField(message []byte, do func(number protowire.Number, content []byte, value uint64)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		switch kind {
		case protowire.BytesType:
			content, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return
			}
			do(number, content, 0)
			message = message[n:]
		case protowire.VarintType:
			value, n := protowire.ConsumeVarint(message)
			if n < 0 {
				return
			}
			do(number, nil, value)
			message = message[n:]
		default:
			n := protowire.ConsumeFieldValue(number, kind, message)
			if n < 0 {
				return
			}
			message = message[n:]
		}
	}
}

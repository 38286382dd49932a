package parsers

import (
	"io"
)

// Format is one tool-call format: how it is read and how it is written. Formats
// come from [Lookup] or [All]; they are immutable and safe for concurrent use.
type Format struct {
	name        string
	aliases     []string
	description string
	models      string
	ids         idStyle
	random      io.Reader
	machine     func() machine
	render      renderFunc
	results     func([]Result) []string
	// valueText writes a value the way the format does, where it has no types;
	// nil where values are JSON.
	valueText func(value string) string
	// split takes off the reasoning and the markup of the answer, where a format
	// has other markup for them than tags.
	split func(text string) (reasoning, rest string)
	// frames are tags around the answer; framed says that Render writes them.
	frames []frame
	framed bool
}

var _ Parser = (*Format)(nil)

// Name returns the name of the format, as in a configuration file.
func (f *Format) Name() string { return f.name }

// Aliases returns the other names that [Lookup] accepts for the format.
func (f *Format) Aliases() []string { return append([]string(nil), f.aliases...) }

// Description says in one line what calls look like.
func (f *Format) Description() string { return f.description }

// Models says which models write the format.
func (f *Format) Models() string { return f.models }

// WithRandom returns a copy of the format that takes its random ids from r
// instead of crypto/rand; r is read once per response.
func (f *Format) WithRandom(r io.Reader) *Format {
	c := *f
	c.random = r
	return &c
}

// Parse implements [Parser].
func (f *Format) Parse(text string, tools []Tool) Parsed {
	m := f.machine()
	p := f.pass(m, tools)
	p.text, p.final = text, true
	m.scan(&p)
	p.close()
	return p.result()
}

// Stream implements [Parser].
func (f *Format) Stream(tools []Tool) Stream {
	m := f.machine()
	s := &textStream{machine: m, pass: f.pass(m, tools)}
	s.pass.stream = true
	return s
}

func (f *Format) pass(m machine, tools []Tool) pass {
	return pass{tools: tools, tail: m.closers(), ids: ids{random: f.random, style: f.ids}}
}

// All returns every format, the ones most models use first.
func All() []*Format {
	return formats()
}

// Names returns the names and aliases that [Lookup] accepts, in the order of [All].
func Names() []string {
	var names []string
	for _, f := range formats() {
		names = append(append(names, f.name), f.aliases...)
	}
	return names
}

// Lookup returns the format registered under name or one of its aliases. The
// error for an unknown name lists all names and proposes the nearest.
func Lookup(name string) (*Format, error) {
	all := formats()
	for _, f := range all {
		if f.name == name {
			return f, nil
		}
		for _, alias := range f.aliases {
			if alias == name {
				return f, nil
			}
		}
	}
	return nil, unknownName("tool-call parser", name, Names(), Absent())
}

// Absent returns names of other servers for which there is no format, with the
// reason and what to do instead.
func Absent() map[string]string {
	return map[string]string{
		"hf":          "it reads the model's response template from its tokenizer; name the format of the model's calls instead",
		"minimax":     "the format of MiniMax-M1 is not supported; MiniMax-M2 and M3 are minimax_m2 and minimax_m3",
		"json":        "a bare JSON array of calls is xlam, bare JSON objects are llama3_json",
		"passthrough": "leave the tool-call parser out, or set env.parse_tool_calls to never",
	}
}

// UnknownError is the error of [Lookup] and [LookupReasoning] for a name that
// nothing has.
type UnknownError struct {
	// Name is what was looked up.
	Name    string
	message string
}

// Error lists the names there are and the one that was probably meant.
func (e *UnknownError) Error() string { return e.message }

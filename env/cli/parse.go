package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/parsers"
)

type parsersCommand struct{}

// Run lists the formats of calls and the ways to mark reasoning.
func (c *parsersCommand) Run(s *session) error {
	w := tabwriter.NewWriter(s.app.Stdout, 2, 4, 2, ' ', 0)
	fmt.Fprintln(w, "PARSER\tALSO\tFORMAT\tMODELS")
	for _, f := range parsers.All() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Name(), strings.Join(f.Aliases(), ", "), f.Description(), f.Models())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nREASONING\tALSO\tMARKS")
	for _, r := range parsers.AllReasoning() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.Name(), strings.Join(r.Aliases(), ", "), r.Description())
	}
	return w.Flush()
}

type parseCommand struct {
	Parser    string `name:"parser" required:"" placeholder:"NAME" help:"Format to read; the command parsers lists them."`
	Reasoning string `name:"reasoning" placeholder:"NAME" help:"Take the reasoning off first and print it too. auto: by the tags of all known models, as a run does. NAME: as the reasoning parser of that name in vLLM or SGLang does; the command parsers lists them."`
	Tools     string `name:"tools" placeholder:"FILE" help:"JSON file with the tool definitions, for formats whose arguments carry no types."`
	Stream    bool   `name:"stream" help:"Feed the text byte by byte through the streaming parser and put its events together."`
	Events    bool   `name:"events" help:"Print the events of the streaming parser, one per line, instead of the result."`
}

// autoReasoning takes reasoning off as a run does.
const autoReasoning = "auto"

// parsedText is what the command prints: a result, and the reasoning if that
// was asked for.
type parsedText struct {
	Reasoning *string `json:"reasoning,omitempty"`
	parsers.Parsed
}

// reasoningEvent precedes the events of a text whose reasoning was taken off.
type reasoningEvent struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// reasoningConfig says how reasoning is told from the rest, nil if it is to stay.
func (c *parseCommand) reasoningConfig() (*parsers.ReasoningConfig, error) {
	switch c.Reasoning {
	case "":
		return nil, nil
	case autoReasoning:
		return &parsers.ReasoningConfig{}, nil
	}
	how, err := parsers.LookupReasoning(c.Reasoning)
	if err != nil {
		return nil, fmt.Errorf("--reasoning: %w; or %s", err, autoReasoning)
	}
	return &parsers.ReasoningConfig{Format: how}, nil
}

// maxParseInput bounds the text read from standard input.
const maxParseInput = 256 << 20

// Run parses standard input.
func (c *parseCommand) Run(s *session) error {
	format, err := parsers.Lookup(c.Parser)
	if err != nil {
		return fail(ExitUsage, err)
	}
	how, err := c.reasoningConfig()
	if err != nil {
		return fail(ExitUsage, err)
	}
	definitions, err := readTools(c.Tools)
	if err != nil {
		return fail(ExitUsage, err)
	}
	input := s.app.Stdin
	if input == nil {
		input = strings.NewReader("")
	}
	raw, err := io.ReadAll(io.LimitReader(input, maxParseInput+1))
	if err != nil {
		return fail(ExitUsage, fmt.Errorf("read standard input: %w", err))
	}
	if len(raw) > maxParseInput {
		return fail(ExitUsage, fmt.Errorf("standard input holds more than %d MiB", maxParseInput>>20))
	}
	text, reasoning := string(raw), (*string)(nil)
	if how != nil {
		thought, rest := format.SplitReasoning(text, *how)
		text, reasoning = rest, &thought
	}
	if !c.Stream && !c.Events {
		return s.printJSON(parsedText{reasoning, format.Parse(text, definitions)})
	}
	stream := format.Stream(definitions)
	var events []parsers.Event
	for i := range len(text) {
		events = append(events, stream.Feed(text[i:i+1])...)
	}
	events = append(events, stream.Finish()...)
	if !c.Events {
		return s.printJSON(parsedText{reasoning, parsers.Assemble(events)})
	}
	if reasoning != nil {
		if err := s.printJSON(reasoningEvent{"reasoning", *reasoning}); err != nil {
			return err
		}
	}
	for _, e := range events {
		if err := s.printJSON(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) printJSON(v any) error {
	line, err := chat.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.app.Stdout, "%s\n", line)
	return err
}

// readTools reads tool definitions as requests hold them.
func readTools(path string) ([]parsers.Tool, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the tool definitions: %w", err)
	}
	tools, err := parsers.DecodeTools(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return tools, nil
}

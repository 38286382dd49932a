package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/convert"
	"github.com/hermes-env/hermes-env/trajectories/report"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

type convertCommand struct {
	Inputs       []string `arg:"" name:"input" help:"Run directory, folder of data files, or files: .jsonl (.gz, .zst), .parquet, ATIF .json."`
	To           string   `name:"to" placeholder:"FORMAT" help:"What to write: ${convertFormats}; parquet is messages with --encoding parquet."`
	For          string   `name:"for" placeholder:"NAME" help:"Write what this reads: trl, axolotl, llamafactory, verl, openrlhf, openai or together [trl without --to]."`
	From         string   `name:"from" placeholder:"FORMAT" help:"What the input is [told by each row]."`
	Out          string   `name:"out" short:"o" placeholder:"PATH" help:"New folder, or one file that ends in .jsonl or .parquet [the input's name and the format]."`
	Encoding     string   `name:"encoding" placeholder:"jsonl|parquet" help:"Form of the files [jsonl, or what --out ends in]."`
	Overwrite    bool     `name:"overwrite" help:"Replace what an earlier conversion wrote there."`
	ShardSize    string   `name:"shard-size" default:"500MB" placeholder:"SIZE" help:"Begin the next file after this size, for example 200MB or 1GB; 0 for one file."`
	Split        bool     `name:"split-completed" help:"Write rows the model did not finish into a split of their own: completed and failed."`
	Margin       float64  `name:"margin" help:"Preference pairs: the least difference of the two scores."`
	ChosenMin    *float64 `name:"chosen-min" placeholder:"SCORE" help:"Preference pairs: the least score of the chosen side. KTO: right from this score."`
	RejectedMax  *float64 `name:"rejected-max" placeholder:"SCORE" help:"Preference pairs: the highest score of the rejected side. KTO: wrong up to this score."`
	PairPassed   bool     `name:"pair-passed" help:"Preference pairs: the chosen side has passed, the rejected one has not."`
	PairsPerItem int      `name:"pairs-per-item" placeholder:"N" help:"Preference pairs: at most N of each prompt [1]."`

	InvalidArguments string `name:"invalid-arguments" placeholder:"exclude|apart|repair|keep" help:"Rows with a tool call whose arguments are not a JSON object: leave them out, write them into a split of their own, replace the arguments, or write them as they are [exclude; keep for rollouts, ATIF and groups]."`

	Parser   string   `name:"parser" placeholder:"NAME" help:"Text: the tool-call format, for example hermes, qwen3_coder or llama3_json."`
	Template string   `name:"chat-template" type:"path" placeholder:"FILE" help:"Text: a chat template, or a tokenizer_config.json with one."`
	Set      []string `name:"template-var" sep:"none" placeholder:"NAME=JSON" help:"Text: a variable of the template, for example enable_thinking=false."`

	convertFilters
	Removed string `name:"removed" type:"path" placeholder:"FILE" help:"Write a list of the rows that were left out: file, line and why, as JSON Lines."`
	Strict  bool   `name:"strict" help:"Refuse input with a line that can't be read, instead of counting it."`
	JSON    bool   `name:"json" help:"Print the report as JSON."`
	profileFlags
}

type convertFilters struct {
	Tampered          string   `name:"tampered" placeholder:"include|exclude|only|noted" help:"Rows whose agent tampered with the verification: keep them, leave them out, keep only them, or only those where it was noted without effect [exclude; include for rollouts and ATIF]."`
	IncludeUnanswered bool     `name:"include-unanswered" help:"Keep rows without an answer of the model and rows whose last answer is empty, which formats to train on leave out."`
	IncludeUnscored   bool     `name:"include-unscored" help:"Keep rollouts that failed, were cancelled or could not be verified, which formats to train on leave out."`
	MinScore          *float64 `name:"min-score" placeholder:"SCORE" help:"Keep rows with this score or a higher one."`
	MaxScore          *float64 `name:"max-score" placeholder:"SCORE" help:"Keep rows with this score or a lower one."`
	Outcome           []string `name:"outcome" placeholder:"OUTCOME" help:"Keep rows that ended so (several with commas)."`
	Passed            *bool    `name:"passed" negatable:"" help:"Keep rows that passed, or with --no-passed those that did not."`
	WithReasoning     bool     `name:"with-reasoning" help:"Keep rows in which the model reasoned."`
	FinishReason      []string `name:"finish-reason" placeholder:"REASON" help:"Keep rows whose last turn, or whose loop, ended so (stop, length, …)."`
	MaxTurns          int      `name:"max-turns" placeholder:"N" help:"Keep rows of at most N model calls."`
	MaxTokens         int64    `name:"max-tokens" placeholder:"N" help:"Keep rows of at most N tokens, as the server counted them, else one for four characters."`
	MaxChars          int64    `name:"max-chars" placeholder:"N" help:"Keep rows of at most N characters."`
	Dedupe            string   `name:"dedupe" placeholder:"conversation|prompt" help:"Keep the first of the rows with the same conversation or prompt."`
	DropHallucinated  bool     `name:"drop-hallucinated-tools" help:"Leave out rows that call a tool they were not offered."`
	convertTextFilters
	BestOfGroup bool  `name:"best-of-group" help:"Keep the best-scored row of each prompt."`
	Sample      int   `name:"sample" placeholder:"N" help:"Keep N of what is left (pairs or groups where those are written), chosen at random."`
	Seed        int64 `name:"seed" default:"0" help:"Seed of the choice."`
}

type convertTextFilters struct {
	NearDuplicates     float64  `name:"near-duplicates" placeholder:"SIMILARITY" help:"Leave out rows that have at least this share of their n-grams in common with an earlier row (MinHash), from 0.5 to 1, for example 0.8."`
	NearDuplicateWords int      `name:"near-duplicates-words" default:"5" placeholder:"N" help:"Near-duplicates: words of an n-gram."`
	NearDuplicatesIn   string   `name:"near-duplicates-in" default:"conversation" placeholder:"conversation|prompt|answers" help:"Near-duplicates: the messages compared; system messages don't count."`
	Decontaminate      []string `name:"decontaminate" sep:"none" placeholder:"PATH" help:"Leave out rows with words of this evaluation set: a file or a folder (can be repeated)."`
	DecontaminateField []string `name:"decontaminate-field" placeholder:"NAME" help:"Decontamination: members of evaluation rows that count [all texts; of conversations the user's messages]."`
	DecontaminateWords int      `name:"decontaminate-words" default:"13" placeholder:"N" help:"Decontamination: words of an n-gram."`
	DecontaminateShare float64  `name:"decontaminate-share" placeholder:"SHARE" help:"Decontamination: the share of the n-grams of an evaluation text that a row must have, for example 0.5 [one n-gram is enough]."`
	DecontaminateIn    string   `name:"decontaminate-in" default:"conversation" placeholder:"conversation|prompt|answers" help:"Decontamination: the messages searched."`
	MaxRepetition      float64  `name:"max-repetition" placeholder:"SHARE" help:"Leave out rows with an answer of which more than this share is repetition, for example 0.3."`
	Language           []string `name:"language" placeholder:"CODE" help:"Leave out rows whose answers or reasoning are in another language than these (en, zh, …; several with commas)."`
	DropRefusals       bool     `name:"drop-refusals" help:"Leave out rows in which an answer of the model begins with a refusal."`
	DropMatching       []string `name:"drop-matching" sep:"none" placeholder:"REGEXP" help:"Leave out rows in which a message matches (can be repeated)."`
	KeepMatching       []string `name:"keep-matching" sep:"none" placeholder:"REGEXP" help:"Leave out rows in which no message matches (can be repeated)."`
	MatchIn            string   `name:"match-in" default:"conversation" placeholder:"conversation|prompt|answers" help:"The messages that --drop-matching and --keep-matching look at."`
}

func (c *convertTextFilters) filter() convert.TextFilter {
	return convert.TextFilter{
		NearDuplicates: c.NearDuplicates, NearDuplicateWords: c.NearDuplicateWords, NearDuplicateIn: convert.Part(c.NearDuplicatesIn),
		Decontaminate: c.Decontaminate, DecontaminateFields: c.DecontaminateField, DecontaminateWords: c.DecontaminateWords, DecontaminateShare: c.DecontaminateShare, DecontaminateIn: convert.Part(c.DecontaminateIn),
		MaxRepetition: c.MaxRepetition, Languages: c.Language, DropRefusals: c.DropRefusals, DropMatching: c.DropMatching, KeepMatching: c.KeepMatching, MatchIn: convert.Part(c.MatchIn),
	}
}

// Run converts.
func (c *convertCommand) Run(s *session) error {
	options, err := c.options()
	if err != nil {
		return fail(ExitUsage, err)
	}
	options.Version = Version()
	progress := newConvertProgress(s, c.JSON)
	options.Progress = progress.tell
	ctx, release := s.untilSignal()
	result, err := convert.Run(ctx, options)
	stopped := ctx.Err() != nil
	release()
	progress.end()
	if err != nil {
		if result != nil {
			s.printBroken(result)
		}
		if errors.Is(err, convert.ErrUsage) {
			return fail(ExitUsage, err)
		}
		if stopped {
			return fail(ExitInterrupted, errors.New("interrupted: nothing was written"))
		}
		return fail(ExitStore, err)
	}
	if c.JSON {
		raw, err := chat.Marshal(result)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.app.Stdout, "%s\n", raw); err != nil {
			return err
		}
	} else if _, err := io.WriteString(s.app.Stdout, convertSummary(result)); err != nil {
		return err
	}
	if result.Broken > 0 {
		if c.JSON {
			s.printBroken(result)
		}
		return fail(ExitProblems, fmt.Errorf("%d lines could not be read and are missing in %s", result.Broken, result.Out))
	}
	return nil
}

// untilSignal returns a context that the first signal ends; release gives the
// signals back.
func (s *session) untilSignal() (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.app.Signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-ended
	}
}

func (c *convertCommand) options() (convert.Options, error) {
	o := convert.Options{
		Inputs: c.Inputs, Out: c.Out, Encoding: table.Encoding(c.Encoding), Overwrite: c.Overwrite, SplitCompleted: c.Split, Pairing: convert.Pairing{Margin: c.Margin, ChosenMin: c.ChosenMin, RejectedMax: c.RejectedMax, Passed: c.PairPassed, PerPrompt: c.PairsPerItem}, Strict: c.Strict, Removed: c.Removed,
		Filter: convert.Filter{
			Tampered:        trajectories.TamperedFilter(c.Tampered),
			IncludeUnscored: c.IncludeUnscored, IncludeUnanswered: c.IncludeUnanswered, MinScore: c.MinScore, MaxScore: c.MaxScore, Outcomes: c.Outcome, Passed: c.Passed, WithReasoning: c.WithReasoning, FinishReasons: c.FinishReason,
			MaxTurns: c.MaxTurns, MaxTokens: c.MaxTokens, MaxChars: c.MaxChars, Dedupe: c.Dedupe, DropHallucinated: c.DropHallucinated,
			BestOfGroup: c.BestOfGroup, Sample: c.Sample, Seed: c.Seed, Text: c.filter(),
		},
		For: convert.Consumer(c.For), InvalidArguments: convert.InvalidArguments(c.InvalidArguments),
		Text: convert.TextConfig{Parser: c.Parser, TemplateName: c.Template},
	}
	to := c.To
	if o.For == "" && to == "" {
		o.For = convert.TRL
	}
	if to == "" {
		to = string(convert.Messages)
	}
	if to == "parquet" {
		to = string(convert.Messages)
		if o.Encoding == "" {
			o.Encoding = table.Parquet
		}
	}
	var err error
	if o.To, err = convert.ParseFormat(to); err != nil {
		return o, fmt.Errorf("--to: %w, and parquet", err)
	}
	if c.From != "" {
		if o.From, err = convert.ParseFormat(c.From); err != nil {
			return o, fmt.Errorf("--from: %w", err)
		}
	}
	if o.ShardBytes, err = parseSize(c.ShardSize); err != nil {
		return o, fmt.Errorf("--shard-size: %w", err)
	}
	if o.ShardBytes == 0 {
		o.ShardBytes = -1
	}
	if o.Out == "" {
		o.Out = defaultOut(c.Inputs, outName(o.For, c.To))
	}
	if c.Template != "" {
		source, err := os.ReadFile(c.Template)
		if err != nil {
			return o, fmt.Errorf("--chat-template: %w", err)
		}
		o.Text.Template = string(source)
	}
	for _, pair := range c.Set {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return o, fmt.Errorf("--template-var %q: want NAME=JSON", pair)
		}
		if !chat.Valid([]byte(value)) {
			value = string(chat.AppendString(nil, value))
		}
		o.Text.Variables.Set(name, []byte(value))
	}
	return o, nil
}

// outName is what the name of the output ends in.
func outName(consumer convert.Consumer, to string) string {
	if consumer != "" && to != "" {
		return string(consumer) + "-" + to
	}
	return cmp.Or(string(consumer), to)
}

// defaultOut names the output after the input and the format.
func defaultOut(inputs []string, to string) string {
	base := filepath.Clean(inputs[0])
	for _, extension := range []string{".gz", ".zst", ".jsonl", ".ndjson", ".json", ".parquet"} {
		base = strings.TrimSuffix(base, extension)
	}
	return base + "-" + to
}

// parseSize reads a number of bytes with a unit: 500MB, 1.5GiB, 1000000.
func parseSize(text string) (int64, error) {
	text = strings.TrimSpace(text)
	unitAt := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsDigit(r) && r != '.' })
	if unitAt < 0 {
		unitAt = len(text)
	}
	number, err := strconv.ParseFloat(text[:unitAt], 64)
	units := map[string]float64{"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "k": 1e3, "m": 1e6, "g": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
	unit, known := units[strings.ToLower(strings.TrimSpace(text[unitAt:]))]
	if err != nil || !known || number*unit > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not a size: want for example 500MB or 1GiB", text)
	}
	return int64(number * unit), nil
}

func (s *session) printBroken(r *convert.Report) {
	for i := range r.Lines {
		fmt.Fprintf(s.app.Stderr, "%s\n", report.OneLine(r.Lines[i].String(), 300))
	}
	if more := r.Broken - int64(len(r.Lines)); more > 0 && len(r.Lines) > 0 {
		fmt.Fprintf(s.app.Stderr, "and %d more lines that could not be read\n", more)
	}
}

// convertFormatNames lists the formats for the help.
func convertFormatNames() string {
	var names []string
	for _, d := range convert.Formats() {
		names = append(names, string(d.Format))
	}
	return strings.Join(names, ", ")
}

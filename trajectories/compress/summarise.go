package compress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
)

// summaryPrefix begins every summary, exactly once.
const summaryPrefix = "[CONTEXT SUMMARY]:"

// A turn longer than maxTurnChars is shown to the summariser by its beginning and its end.
const (
	maxTurnChars  = 3000
	headTurnChars = 1500
	tailTurnChars = 500
)

// request asks for a summary of a region.
func (c *Config) request(turns []turn, r region) *model.Request {
	var b strings.Builder
	fmt.Fprintf(&b, `Below are turns %d to %d of a conversation between a user, an AI agent and its tools. They will be replaced by your summary, and the conversation goes on after it.

Say what the agent did, what the tools answered, what was found out or decided, and which names, paths, values and errors matter for what follows. Stay factual and neutral, judge nothing and invent nothing. Write in the language of the conversation, in about %d tokens, as one text without headings. Begin with %s

`, r.start, r.end-1, c.Compression.SummaryTargetTokens, summaryPrefix)
	for i, t := range turns[r.start:r.end] {
		fmt.Fprintf(&b, "[Turn %d - %s]:\n%s\n\n", r.start+i, strings.ToUpper(t.role), shorten(t.value))
	}
	b.WriteString("Now write the summary and nothing else.")
	temperature := c.Summarization.Temperature
	return &model.Request{
		Messages:    []chat.Message{chat.User(b.String())},
		Temperature: &temperature,
		MaxTokens:   2 * c.Compression.SummaryTargetTokens,
	}
}

func shorten(value string) string {
	runes := []rune(value)
	if len(runes) <= maxTurnChars {
		return value
	}
	return fmt.Sprintf("%s\n...[%d characters left out]...\n%s", string(runes[:headTurnChars]), len(runes)-headTurnChars-tailTurnChars, string(runes[len(runes)-tailTurnChars:]))
}

// withPrefix makes the prefix stand at the beginning of a summary once; an answer that
// says nothing gives "".
func withPrefix(text string) string {
	text = strings.TrimFunc(text, unicode.IsSpace)
	for {
		rest, ok := strings.CutPrefix(text, summaryPrefix)
		if !ok {
			break
		}
		text = strings.TrimLeftFunc(rest, unicode.IsSpace)
	}
	if text == "" {
		return ""
	}
	return summaryPrefix + " " + text
}

// calls counts requests for summaries.
type calls struct{ made, failed int }

// summarise asks until there is a summary of use. The error says why there is none.
func (c *Compressor) summarise(ctx context.Context, turns []turn, r region, tokens int) (summary string, n calls, err error) {
	req := c.config.request(turns, r)
	for try := 0; try < c.config.Summarization.MaxRetries; try++ {
		var resp *model.Response
		resp, err = c.client.Complete(ctx, req)
		if err != nil {
			made := 1
			var several *model.AttemptsError
			if errors.As(err, &several) {
				made = several.Attempts
			}
			n.made += made
			n.failed += made
			return "", n, fmt.Errorf("ask for a summary: %w", err)
		}
		made := max(1, resp.Attempts)
		n.made += made
		n.failed += made - 1
		summary = withPrefix(resp.Message.Text())
		switch {
		case resp.FinishReason == "length":
			err = fmt.Errorf("the summary was cut off at %d tokens", req.MaxTokens)
		case summary == "":
			err = errors.New("the model gave an empty summary")
		case c.counter.Count(summary) >= tokens:
			err = errors.New("the summary is no shorter than what it stands for")
		default:
			return summary, n, nil
		}
		n.failed++
	}
	return "", n, err
}

package modeltest

import (
	"encoding/json"
	"net/http"
	"time"
)

// TokenRequest is one request for an answer as a TokenScript sees it.
type TokenRequest struct {
	Number  int // requests for an answer before this one
	Path    string
	Header  http.Header
	Body    []byte
	Prompt  []int  // ids the model reads
	Weights string // version of the weights that answer

	decode func([]int) string
}

// Text returns what the model reads as text.
func (r *TokenRequest) Text() string { return r.decode(r.Prompt) }

// TokenScript says what the model samples. It is called from many goroutines at once.
type TokenScript func(*TokenRequest) TokenReply

// TokenReply is one answer of a token server, made by Sample or Fails and refined by
// its methods, each of which returns a changed copy.
type TokenReply struct {
	text   string
	tokens []int // instead of text
	finish string
	stop   string // "" or what ended the answer
	noEnd  bool
	delay  time.Duration
	http   *Reply

	withoutIDs, withoutLogprobs, shortIDs, shortLogprobs, cutPrompt, otherPrompt, badLogprob bool
}

// Sample answers with a text in the tokens of the tokenizer, and the token that ends
// an answer.
func Sample(text string) TokenReply { return TokenReply{text: text, finish: "stop"} }

// SampleIDs answers with given ids, to which the one that ends an answer is added.
func SampleIDs(ids ...int) TokenReply {
	return TokenReply{tokens: append([]int{}, ids...), finish: "stop"}
}

// Fails answers with a reply of the plain mock, for example Status(503) or Reset().
func Fails(reply Reply) TokenReply { return TokenReply{http: &reply} }

// Cut ends the answer for its length: the token that ends an answer is missing.
func (r TokenReply) Cut() TokenReply { r.finish, r.noEnd = "length", true; return r }

// StoppedBy ends the answer with a stop sequence in place of the end token.
func (r TokenReply) StoppedBy(sequence string) TokenReply {
	r.stop, r.noEnd = sequence, true
	r.text += sequence
	return r
}

// Aborted breaks the answer off, as servers do that load new weights.
func (r TokenReply) Aborted() TokenReply { r.finish, r.noEnd = "abort", true; return r }

// After waits before the headers are sent. A restart meanwhile breaks the answer off.
func (r TokenReply) After(delay time.Duration) TokenReply { r.delay = delay; return r }

// WithoutIDs leaves the ids of the answer out.
func (r TokenReply) WithoutIDs() TokenReply { r.withoutIDs = true; return r }

// WithoutLogprobs leaves the log-probabilities out.
func (r TokenReply) WithoutLogprobs() TokenReply { r.withoutLogprobs = true; return r }

// ShortIDs reports one id less than was sampled.
func (r TokenReply) ShortIDs() TokenReply { r.shortIDs = true; return r }

// ShortLogprobs reports one log-probability less than tokens were sampled.
func (r TokenReply) ShortLogprobs() TokenReply { r.shortLogprobs = true; return r }

// BadLogprob reports a log-probability above 0.
func (r TokenReply) BadLogprob() TokenReply { r.badLogprob = true; return r }

// CutPrompt generates from the second half of the prompt, as servers that truncate do.
func (r TokenReply) CutPrompt() TokenReply { r.cutPrompt = true; return r }

// OtherPrompt reports a prompt that differs in one id from the one that was sent.
func (r TokenReply) OtherPrompt() TokenReply { r.otherPrompt = true; return r }

// SampleInOrder gives the n-th request for an answer the n-th reply, and the last reply
// to all later ones.
func SampleInOrder(replies ...TokenReply) TokenScript {
	return func(r *TokenRequest) TokenReply { return replies[min(r.Number, len(replies)-1)] }
}

// fields of a request body that the token servers read.
type tokenBody struct {
	Model          string          `json:"model"`
	Prompt         json.RawMessage `json:"prompt"`
	InputIDs       json.RawMessage `json:"input_ids"`
	Text           string          `json:"text"`
	Messages       json.RawMessage `json:"messages"`
	Tools          json.RawMessage `json:"tools"`
	Kwargs         json.RawMessage `json:"chat_template_kwargs"`
	Tokens         json.RawMessage `json:"tokens"`
	MaxTokens      *int            `json:"max_tokens"`
	Logprobs       json.RawMessage `json:"logprobs"`
	ReturnTokenIDs bool            `json:"return_token_ids"`
	ReturnLogprob  bool            `json:"return_logprob"`
	AddGeneration  *bool           `json:"add_generation_prompt"`
	SkipSpecial    *bool           `json:"skip_special_tokens"`
	Stop           json.RawMessage `json:"stop"`
	IncludeStop    bool            `json:"include_stop_str_in_output"`
	IDsAsTokens    bool            `json:"return_tokens_as_token_ids"`
	NewVersion     string          `json:"new_version"`
	Sampling       *samplingBody   `json:"sampling_params"`
}

type samplingBody struct {
	MaxNewTokens *int  `json:"max_new_tokens"`
	SkipSpecial  *bool `json:"skip_special_tokens"`
	NoStopTrim   bool  `json:"no_stop_trim"`
	StopTokens   []int `json:"stop_token_ids"`
}

// As replaces the finish reason.
func (r TokenReply) As(finish string) TokenReply { r.finish = finish; return r }

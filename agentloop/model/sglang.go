package model

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// SGLang is a Client for the native /generate of an SGLang server, which takes and
// gives token ids (https://docs.sglang.io/basic_usage/native_api.html). It answers
// requests with a Prompt only and sends one request per Complete.
type SGLang struct{ http caller }

// NewSGLang checks the description and returns a client for it. A base URL that ends
// in /v1 stands for the server above it. Nothing is sent yet.
func NewSGLang(s Server) (*SGLang, error) {
	c, err := newCaller(s.root(), "/generate")
	if err != nil {
		return nil, err
	}
	c.target.server = displayURL(s.BaseURL) // answers name the server as it is configured, as those of others do
	return &SGLang{c}, nil
}

// root is the server without the /v1 at the end of its address, where the parts of
// the API that are not OpenAI's live.
func (s Server) root() Server {
	base, query, found := strings.Cut(s.BaseURL, "?")
	base = strings.TrimRight(base, "/")
	s.BaseURL = strings.TrimSuffix(base, "/v1")
	if found {
		s.BaseURL += "?" + query
	}
	return s
}

// String names the server and the model.
func (s *SGLang) String() string {
	return fmt.Sprintf("SGLang: model %q at %s", s.http.target.model, s.http.target.server)
}

// GoString is String, so that %#v does not show the key.
func (s *SGLang) GoString() string { return "*model.SGLang{" + s.String() + "}" }

// CloseIdleConnections closes connections that wait for another request.
func (s *SGLang) CloseIdleConnections() { s.http.CloseIdleConnections() }

// Complete sends one request. Every failure is an *Error. What the server did not
// report is missing from Response.Capture; it is no failure.
func (s *SGLang) Complete(ctx context.Context, req *Request) (*Response, error) {
	body, err := s.body(req)
	if err != nil {
		return nil, s.http.refuse(err)
	}
	resp, raw, failed := s.http.send(ctx, int64(len(body)), reader(body))
	if failed != nil {
		return nil, failed
	}
	root, failed := s.http.target.answer(resp, raw)
	if failed != nil {
		return nil, failed
	}
	meta := root.Get("meta_info")
	if !meta.IsObject() {
		return nil, s.http.target.without(resp, root, `"meta_info"`)
	}
	// The reason is an object with a type, or just its name in old versions.
	reason := meta.Get("finish_reason")
	finish := reason.String()
	if reason.IsObject() {
		finish = reason.Get("type").String()
	}
	switch finish {
	case "":
		return nil, s.http.target.without(resp, root, "a finish reason")
	case FinishAbort:
		return nil, s.http.target.aborted(resp, reason.Get("message").String())
	}
	answer := s.http.target.generated(root, finish)
	answer.ID = strings.Clone(meta.Get("id").String())
	capture := newCapture()
	answer.Capture = capture
	capture.Text = strings.Clone(root.Get("text").String())
	capture.Tokens, capture.Logprobs = pairs(meta.Get("output_token_logprobs"))
	if list, ok := ids(root.Get("output_ids")); ok {
		capture.Tokens = list
	}
	if id, ok := tokenID(reason.Get("matched")); ok {
		capture.StopToken = id
	}
	if matched := reason.Get("matched"); matched.Type == gjson.String {
		capture.StopText = strings.Clone(matched.Str)
	}
	capture.PromptTokens = count(meta.Get("prompt_tokens"))
	capture.SampledTokens = count(meta.Get("completion_tokens"))
	capture.WeightVersion = weightVersion(resp, root)
	answer.Usage.PromptTokens = meta.Get("prompt_tokens").Int()
	answer.Usage.CompletionTokens = meta.Get("completion_tokens").Int()
	answer.Usage.TotalTokens = answer.Usage.PromptTokens + answer.Usage.CompletionTokens
	answer.Usage.CachedTokens = meta.Get("cached_tokens").Int()
	return answer, nil
}

// pairs takes apart a list of [log-probability, id, …].
func pairs(list gjson.Result) (tokens []int, probabilities []float64) {
	if !list.IsArray() {
		return nil, nil
	}
	tokens, probabilities = []int{}, []float64{}
	whole := true
	list.ForEach(func(_, entry gjson.Result) bool {
		var part [2]gjson.Result
		n := 0
		entry.ForEach(func(_, v gjson.Result) bool {
			part[n] = v
			n++
			return n < 2
		})
		id, ok := tokenID(part[1])
		whole = ok && part[0].Type == gjson.Number
		tokens, probabilities = append(tokens, id), append(probabilities, part[0].Num)
		return whole
	})
	if !whole {
		return nil, nil
	}
	return tokens, probabilities
}

// besideSampling are the fields of /generate that stand beside sampling_params.
var besideSampling = [...]string{"lora_path", "session_params", "custom_logit_processor", "rid", "priority", "data_parallel_rank", "routed_dp_rank", "extra_key"}

func (s *SGLang) body(req *Request) ([]byte, error) {
	if len(req.Prompt) == 0 {
		return nil, errNoPrompt
	}
	if err := checkExtra(req, "input_ids", "text", "messages", "model", "return_logprob", "sampling_params"); err != nil {
		return nil, err
	}
	beside := func(key string) bool {
		for _, name := range besideSampling {
			if key == name {
				return true
			}
		}
		return false
	}
	o := newObject(len(req.Prompt)*7 + 512)
	o.ids("input_ids", req.Prompt)
	o.key("sampling_params")
	o.buf = append(o.buf, '{')
	o.sampling(req, "max_new_tokens", func(key string) bool {
		return !beside(key) && key != "skip_special_tokens" && key != "spaces_between_special_tokens" && key != "no_stop_trim"
	})
	o.raw("skip_special_tokens", "false")
	o.raw("spaces_between_special_tokens", "false")
	o.raw("no_stop_trim", "true")
	o.buf = append(o.buf, '}')
	for _, f := range req.Extra {
		if beside(f.Key) {
			o.raw(f.Key, string(f.Value))
		}
	}
	o.raw("return_logprob", "true")
	o.raw("return_text_in_logprobs", "false")
	o.raw("stream", "false")
	return o.close(), o.err
}

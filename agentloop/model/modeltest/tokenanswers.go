package modeltest

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/tidwall/gjson"
)

// completions is /v1/completions of vLLM.
func (s *TokenServer) completions(r *TokenRequest, body *tokenBody) Reply {
	prompt, ok := idsOf(body.Prompt)
	var text string
	if !ok && json.Unmarshal(body.Prompt, &text) == nil {
		prompt, _ = s.tokenizer.Encode(text, true)
	}
	if len(prompt) == 0 {
		return badRequest("prompt: a text or a list of ids is required")
	}
	limit := body.MaxTokens
	if limit == nil {
		limit = new(int)
		*limit = 16 // the default of the completions API
	}
	out, failure := s.sample(r, prompt, limit)
	if failure != nil {
		return *failure
	}
	tokens, logprobs := out.reported()
	shown := out.shown(body.SkipSpecial, s.settings.EOSToken, body.IncludeStop)
	raw := s.openAI(r, "text_completion")
	raw = chat.AppendString(append(raw, `[{"index":0,"text":`...), shown)
	raw = append(raw, `,"logprobs":`...)
	if len(body.Logprobs) == 0 || string(body.Logprobs) == "null" || out.reply.withoutLogprobs {
		raw = append(raw, "null"...)
	} else {
		raw = append(raw, `{"tokens":[`...)
		for i, id := range tokens {
			if i > 0 {
				raw = append(raw, ',')
			}
			name := s.tokenizer.Decode([]int{id}, false)
			if body.IDsAsTokens && !out.reply.withoutIDs {
				name = "token_id:" + strconv.Itoa(id)
			}
			raw = chat.AppendString(raw, name)
		}
		raw = numbers(append(raw, `],"token_logprobs":`...), logprobs)
		raw = append(raw, `,"top_logprobs":[],"text_offset":[]}`...)
	}
	raw = out.finished(raw)
	if body.ReturnTokenIDs && !out.reply.withoutIDs {
		raw = jsonIDs(append(raw, `,"token_ids":`...), tokens)
		raw = jsonIDs(append(raw, `,"prompt_token_ids":`...), out.prompt)
	} else {
		raw = append(raw, `,"token_ids":null,"prompt_token_ids":null`...)
	}
	raw = append(raw, `}],"usage":`...)
	return jsonReply(append(out.usage(raw), '}'))
}

// chatCompletions is /v1/chat/completions of vLLM without a parser of tool calls.
func (s *TokenServer) chatCompletions(r *TokenRequest, body *tokenBody) Reply {
	prompt, err := s.render("/v1/chat/completions", body)
	if err != nil {
		return badRequest(err.Error())
	}
	out, failure := s.sample(r, prompt, body.MaxTokens)
	if failure != nil {
		return *failure
	}
	tokens, logprobs := out.reported()
	raw := s.openAI(r, "chat.completion")
	raw = chat.AppendString(append(raw, `[{"index":0,"message":{"role":"assistant","reasoning_content":null,"content":`...), out.shown(body.SkipSpecial, s.settings.EOSToken, false))
	raw = append(raw, `,"tool_calls":[]},"logprobs":`...)
	if string(body.Logprobs) != "true" || out.reply.withoutLogprobs {
		raw = append(raw, "null"...)
	} else {
		raw = append(raw, `{"content":[`...)
		for i, p := range logprobs {
			if i > 0 {
				raw = append(raw, ',')
			}
			raw = chat.AppendString(append(raw, `{"token":`...), s.tokenizer.Decode([]int{out.tokens[i]}, false))
			raw = strconv.AppendFloat(append(raw, `,"logprob":`...), p, 'g', -1, 64)
			raw = append(raw, `,"bytes":null,"top_logprobs":[]}`...)
		}
		raw = append(raw, "]}"...)
	}
	raw = out.finished(raw)
	if body.ReturnTokenIDs && !out.reply.withoutIDs {
		raw = jsonIDs(append(raw, `,"token_ids":`...), tokens)
	}
	raw = append(out.usage(append(raw, `}],"usage":`...)), `,"prompt_token_ids":`...)
	if body.ReturnTokenIDs && !out.reply.withoutIDs {
		raw = jsonIDs(raw, out.prompt)
	} else {
		raw = append(raw, "null"...)
	}
	return jsonReply(append(raw, '}'))
}

func (s *TokenServer) openAI(r *TokenRequest, object string) []byte {
	raw := append([]byte(`{"id":"cmpl-`), strconv.Itoa(r.Number)...)
	raw = append(append(raw, `","object":"`...), object...)
	raw = append(append(raw, `","created":`...), strconv.FormatInt(time.Now().Unix(), 10)...)
	raw = append(raw, `,"model":`...)
	name := gjson.GetBytes(r.Body, "model").String()
	return append(chat.AppendString(raw, name), `,"choices":`...)
}

func (o *sampled) finished(raw []byte) []byte {
	raw = chat.AppendString(append(raw, `,"finish_reason":`...), o.finish)
	raw = append(raw, `,"stop_reason":`...)
	if o.stop == "" {
		return append(raw, "null"...)
	}
	return chat.AppendString(raw, o.stop)
}

func (o *sampled) usage(raw []byte) []byte {
	raw = append(append(raw, `{"prompt_tokens":`...), strconv.Itoa(len(o.prompt))...)
	raw = append(append(raw, `,"total_tokens":`...), strconv.Itoa(len(o.prompt)+len(o.tokens))...)
	raw = append(append(raw, `,"completion_tokens":`...), strconv.Itoa(len(o.tokens))...)
	return append(raw, `,"prompt_tokens_details":null}`...)
}

// generateSGLang is the native /generate of SGLang.
func (s *TokenServer) generateSGLang(r *TokenRequest, body *tokenBody) Reply {
	prompt, ok := idsOf(body.InputIDs)
	if !ok && body.Text != "" {
		prompt, _ = s.tokenizer.Encode(body.Text, true)
	}
	if len(prompt) == 0 {
		return Raw(400, "application/json", `{"error":{"message":"Either text, input_ids or input_embeds should be provided."}}`)
	}
	if body.Sampling == nil {
		body.Sampling = &samplingBody{}
	}
	limit := body.Sampling.MaxNewTokens
	if limit == nil {
		limit = new(int)
		*limit = 128 // the default of the sampling parameters
	}
	out, failure := s.sample(r, prompt, limit)
	if failure != nil {
		return *failure
	}
	tokens, logprobs := out.reported()
	special := body.Sampling.SkipSpecial != nil && !*body.Sampling.SkipSpecial
	shown := out.shown(body.Sampling.SkipSpecial, s.settings.EOSToken, body.Sampling.NoStopTrim && special)
	raw := chat.AppendString([]byte(`{"text":`), shown)
	if !out.reply.withoutIDs {
		raw = jsonIDs(append(raw, `,"output_ids":`...), tokens)
	}
	raw = append(append(raw, `,"meta_info":{"id":"`...), strconv.Itoa(r.Number)...)
	raw = append(raw, `","finish_reason":`...)
	switch {
	case out.finish == "length":
		raw = append(append(append(raw, `{"type":"length","length":`...), strconv.Itoa(len(out.tokens))...), '}')
	case out.finish == "abort":
		raw = append(raw, `{"type":"abort","message":"the weights are being updated","status_code":503}`...)
	case out.stop != "":
		raw = append(chat.AppendString(append(raw, `{"type":"stop","matched":`...), out.stop), '}')
	default:
		raw = append(append(append(raw, `{"type":"stop","matched":`...), strconv.Itoa(out.tokens[len(out.tokens)-1])...), '}')
	}
	raw = append(append(raw, `,"prompt_tokens":`...), strconv.Itoa(len(out.prompt))...)
	raw = chat.AppendString(append(raw, `,"weight_version":`...), out.weights)
	raw = append(append(raw, `,"completion_tokens":`...), strconv.Itoa(len(out.tokens))...)
	raw = append(raw, `,"cached_tokens":0,"e2e_latency":0.001`...)
	if body.ReturnLogprob && !out.reply.withoutLogprobs && !out.reply.withoutIDs {
		raw = append(raw, `,"input_token_logprobs":[],"output_token_logprobs":[`...)
		for i, p := range logprobs {
			if i > 0 {
				raw = append(raw, ',')
			}
			raw = strconv.AppendFloat(append(raw, '['), p, 'g', -1, 64)
			raw = append(strconv.AppendInt(append(raw, ','), int64(out.tokens[i]), 10), ",null]"...)
		}
		raw = append(raw, ']')
	}
	return jsonReply(append(raw, "}}"...))
}

// generateLists is the /generate of the servers that Atropos was used with.
func (s *TokenServer) generateLists(r *TokenRequest, body *tokenBody) Reply {
	prompt, ok := idsOf(json.RawMessage(gjson.GetBytes(body.Prompt, "prompt_token_ids").Raw))
	var text string
	if !ok && json.Unmarshal(body.Prompt, &text) == nil {
		prompt, _ = s.tokenizer.Encode(text, true)
	}
	if len(prompt) == 0 {
		return Raw(422, "application/json", `{"detail":[{"type":"missing","loc":["body","prompt"],"msg":"Field required"}]}`)
	}
	out, failure := s.sample(r, prompt, body.MaxTokens)
	if failure != nil {
		return *failure
	}
	tokens, logprobs := out.reported()
	raw := append(chat.AppendString([]byte(`{"text":[`), out.shown(nil, s.settings.EOSToken, false)), `],"prompt":`...)
	raw = chat.AppendString(raw, r.Text())
	raw = append(chat.AppendString(append(raw, `,"finish_reasons":[`...), out.finish), ']')
	if len(body.Logprobs) > 0 && !out.reply.withoutLogprobs {
		raw = append(raw, `,"logprobs":[[`...)
		for i, p := range logprobs {
			if i > 0 {
				raw = append(raw, ',')
			}
			raw = append(strconv.AppendInt(append(raw, `[{"`...), int64(out.tokens[i]), 10), `":`...)
			raw = append(strconv.AppendFloat(raw, p, 'g', -1, 64), "}]"...)
		}
		raw = append(raw, "]]"...)
	}
	raw = jsonIDs(append(raw, `,"prompt_token_ids":`...), out.prompt)
	if !out.reply.withoutIDs {
		raw = append(jsonIDs(append(raw, `,"token_ids":[`...), tokens), ']')
	}
	return jsonReply(append(raw, '}'))
}

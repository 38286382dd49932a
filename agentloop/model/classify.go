package model

import (
	"net/http"
	"strings"
)

// Wordings by which providers tell apart what one status code lumps together.
// All are lower case; those of one list mean the same.
var (
	contextWords = []string{
		"context_length", "context length", "context window", "context_window", "contextwindow", "exceed_context_size", "exceeds the available context",
		"maximum context", "model's maximum length", "maximum model length", "max_model_len", "maximum prompt length",
		"prompt is too long", "prompt too long", "input is too long", "input too long", "too many input tokens", "too many tokens",
		"input token count", "input tokens exceed", "exceeds the maximum number of tokens", "exceeds the max number of tokens",
		"maximum number of input tokens", "maximum allowed number of input tokens", "maximum input length",
		"reduce the length of the messages", "reduce the length of the prompt", "reduce your prompt", "string_above_max_length",
		"longer than the model", "exceeds the model's", "token limit exceeded", "tokens in request more than max tokens", "inputs tokens + `max_new_tokens`", "`inputs` tokens + `max_new_tokens`",
		"range of input length should be", "context size", "request_too_long", "超过最大长度",
	}
	parameterWords = []string{
		"unsupported parameter", "unsupported_parameter", "unknown parameter", "unknown_parameter", "unrecognized request argument",
		"unsupported value", "unsupported_value", "extra inputs are not permitted", "extra fields not permitted", "unexpected keyword argument",
		"unknown field", "unknown name", "is not supported with this model", "does not support parameters",
	}
	filterWords = []string{
		"content_filter", "content filter", "content_policy", "content policy", "responsibleaipolicyviolation", "content management policy",
		"safety system", "safety_violation", "flagged as potentially violating", "input was flagged", "requires moderation", "prohibited_content", "data_inspection_failed",
		"inappropriate content", "usage policies",
	}
	billingWords = []string{
		"insufficient_quota", "insufficient quota", "exceeded your current quota", "billing", "insufficient credits", "insufficient_credits", "insufficient balance",
		"insufficient_balance", "insufficient funds", "credit balance", "not enough credits", "out of credits", "requires more credits", "payment required",
		"account is in arrears", "arrearage", "spending limit", "spend limit", "add credits",
	}
	transientWords  = []string{"try again", "please wait", "retry after", "per minute", "per day", "resets at", "reset in"}
	overloadedWords = []string{"overloaded", "over capacity", "at capacity", "no capacity", "engine is currently", "server is busy", "temporarily unavailable", "no available channel", "queue is full", "too busy"}
	rateWords       = []string{"rate limit", "rate_limit", "ratelimit", "too many requests", "throttl", "requests per minute", "tokens per minute", "resource_exhausted", "resource exhausted"}
	tooLargeWords   = []string{"request too large", "payload too large", "body too large", "entity too large", "request_too_large"}
	authWords       = []string{"api key not valid", "invalid api key", "invalid_api_key", "incorrect api key", "api_key_invalid", "missing api key", "no api key", "authentication_error", "authentication failed", "invalid token", "unauthorized"}
	modelWords      = []string{
		"model_not_found", "model not found", "unknown model", "no such model", "invalid model", "not a valid model", "model does not exist", "model_not_supported", "no endpoints found for",
		"model is not available", "deploymentnotfound", "deployment does not exist", "model not exist", "unsupported model", "model_not_available",
	}
)

func mentions(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// mentionsModel says whether a lower-case error text is about the model's name.
func mentionsModel(text string) bool {
	if mentions(text, modelWords) {
		return true
	}
	// The name stands between the two halves: "The model `x` does not exist".
	i := strings.Index(text, "model")
	if i < 0 {
		return false
	}
	return mentions(text[i:], []string{"does not exist", "not found", "not exist", "is not served", "is not available", "is not supported", "not a valid"})
}

// classify gives the kind of an answer that is not a success. The text is the
// server's code, type and message in lower case; status may be 0 when an error
// came without one. The first rule that fits wins.
func classify(status int, text string) Kind {
	if status == http.StatusUnauthorized {
		return KindAuth
	}
	parameter := mentions(text, parameterWords)
	// A refused parameter is tested first: its name (max_tokens, …) often reads
	// like an overflow.
	overflow := !parameter && mentions(text, contextWords)
	filtered := !parameter && mentions(text, filterWords)
	switch {
	case status >= 300 && status < 400:
		return KindRedirect
	case status == http.StatusPaymentRequired:
		if mentions(text, []string{"usage limit", "rate limit"}) && mentions(text, transientWords) {
			return KindRateLimit
		}
		return KindBilling
	case status == http.StatusForbidden:
		switch {
		case filtered:
			return KindContentFilter
		case mentions(text, billingWords):
			return KindBilling
		}
		return KindPermission
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusGone, status == http.StatusNotImplemented:
		if mentions(text, billingWords) {
			return KindBilling
		}
		return KindNotFound
	case status == http.StatusRequestTimeout:
		return KindTimeout
	case status == http.StatusConflict:
		return KindServerError
	case status == http.StatusTooEarly:
		return KindOverloaded
	case status == http.StatusRequestEntityTooLarge:
		if overflow {
			return KindContextLength
		}
		return KindPayloadTooLarge
	case status == http.StatusTooManyRequests:
		switch {
		// More in one request than the tier allows per minute never succeeds.
		case mentions(text, tooLargeWords):
			return KindPayloadTooLarge
		case mentions(text, billingWords) && !mentions(text, []string{"per minute", "rate_limit_exceeded"}):
			return KindBilling
		case mentions(text, overloadedWords):
			return KindOverloaded
		}
		return KindRateLimit
	case status == http.StatusUnprocessableEntity && !overflow && !filtered:
		return KindBadRequest // validators quote what was sent, so other words prove nothing
	case status >= 400 && status < 500:
		return classifyRefusal(text, parameter, filtered, overflow)
	case status >= 500:
		switch {
		case parameter:
			return KindBadRequest
		case overflow:
			return KindContextLength
		case status == http.StatusServiceUnavailable, status == 529, mentions(text, overloadedWords):
			return KindOverloaded
		}
		return KindServerError
	}
	// An error object in a successful answer, without a status of its own.
	if kind := classifyRefusal(text, parameter, filtered, overflow); kind != KindBadRequest || parameter || strings.Contains(text, "invalid_request") {
		return kind
	}
	return KindServerError
}

func classifyRefusal(text string, parameter, filtered, overflow bool) Kind {
	switch {
	case parameter:
		return KindBadRequest
	case overflow:
		return KindContextLength
	case filtered:
		return KindContentFilter
	case mentions(text, tooLargeWords):
		return KindPayloadTooLarge
	case mentionsModel(text):
		return KindNotFound
	case mentions(text, authWords):
		return KindAuth
	case mentions(text, billingWords):
		return KindBilling
	case mentions(text, rateWords):
		return KindRateLimit
	case mentions(text, overloadedWords):
		return KindOverloaded
	}
	return KindBadRequest
}

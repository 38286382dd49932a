package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWordingsOfManyProvidersAreToldApart(t *testing.T) {
	for _, test := range []struct {
		status int
		text   string
		want   Kind
	}{
		{400, "This endpoint's maximum context length is 131072 tokens. However, you requested about 200000 tokens", KindContextLength},
		{400, "Input is too long for requested model.", KindContextLength},
		{400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000; exceeds the model's limit", KindContextLength},
		{400, "Requested token count exceeds the model's maximum context length", KindContextLength},
		{400, "The prompt is too long: 140000, model maximum context length: 131072", KindContextLength},
		{422, "`inputs` tokens + `max_new_tokens` must be <= 4096", KindContextLength},
		{400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", KindContextLength},
		{400, "Please reduce the length of the messages or completion. context_length_exceeded", KindContextLength},
		{413, "request_too_large", KindPayloadTooLarge},
		{400, "max_tokens is too large: 40000. This model supports at most 16384 completion tokens", KindBadRequest},
		{400, "Unrecognized request argument supplied: top_k", KindBadRequest},
		{400, "Extra inputs are not permitted: context_window", KindBadRequest},
		{500, "unexpected keyword argument 'min_p'", KindBadRequest},
		{400, "Your credit balance is too low to access the API.", KindBilling},
		{403, "Key limit exceeded (total limit). Add credits to go on", KindBilling},
		{429, "You exceeded your current quota, please check your plan and billing details. insufficient_quota", KindBilling},
		{429, "Rate limit reached for requests per minute; add a payment method under billing to raise it. rate_limit_exceeded", KindRateLimit},
		{429, "Resource has been exhausted (e.g. check quota). RESOURCE_EXHAUSTED", KindRateLimit},
		{400, "ThrottlingException: Too many requests, please wait before trying again.", KindRateLimit},
		{500, "The model is overloaded. Please try again later.", KindOverloaded},
		{502, "bad gateway", KindServerError},
		{504, "upstream request timeout", KindServerError},
		{524, "a timeout occurred", KindServerError},
		{409, "conflict", KindServerError},
		{425, "too early", KindOverloaded},
		{501, "unsupported method ('POST')", KindNotFound},
		{410, "this model was retired", KindNotFound},
		{404, "no endpoints found for org/model", KindNotFound},
		{404, "insufficient credits", KindBilling},
		{400, "The model `gpt-99` does not exist", KindNotFound},
		{422, "prompt: the model config was not found in the file", KindBadRequest},
		{400, "Invalid value for 'messages[1].content'", KindBadRequest},
		{400, "Your request was rejected as a result of our safety system.", KindContentFilter},
		{403, "Your chosen model requires moderation and your input was flagged for \"x\"", KindContentFilter},
		{451, "not available for legal reasons", KindBadRequest},
		{401, "You exceeded your current quota", KindAuth},
		{301, "", KindRedirect},
		{0, "provider returned error", KindServerError},
		{0, "rate limit exceeded", KindRateLimit},
		{0, "the model is overloaded", KindOverloaded},
		{0, "invalid_request_error: messages must alternate", KindBadRequest},
		{0, "maximum context length", KindContextLength},
	} {
		require.Equal(t, test.want, classify(test.status, strings.ToLower(test.text)), "%d %s", test.status, test.text)
	}
}

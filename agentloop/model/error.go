package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Kind says why a model request failed.
type Kind string

// The kinds of failure. Retryable and Fatal of Error say what follows from them.
const (
	KindRateLimit       Kind = "rate_limit"        // 429: too many requests or tokens for now
	KindOverloaded      Kind = "overloaded"        // 503, 529: the server has no room for now
	KindServerError     Kind = "server_error"      // other 5xx
	KindNetwork         Kind = "network"           // refused, reset, DNS, TLS
	KindTimeout         Kind = "timeout"           // no whole answer within Server.Timeout
	KindStalled         Kind = "stalled"           // the answer began and then paused for Server.StallTimeout
	KindInvalidResponse Kind = "invalid_response"  // truncated or invalid JSON, HTML, a foreign shape
	KindEmptyResponse   Kind = "empty_response"    // no choices, or a choice without a message
	KindAuth            Kind = "auth"              // 401: the key is missing or wrong
	KindPermission      Kind = "permission"        // 403: the key is good but may not do this
	KindBilling         Kind = "billing"           // 402, exhausted credit or quota
	KindNotFound        Kind = "not_found"         // 404: no such path, or no such model
	KindRedirect        Kind = "redirect"          // 3xx: the server wants another address, which is not followed
	KindBadRequest      Kind = "bad_request"       // 400, 422: the server refuses what was asked
	KindContextLength   Kind = "context_length"    // the conversation does not fit the model
	KindContentFilter   Kind = "content_filter"    // a safety filter refused the request
	KindPayloadTooLarge Kind = "payload_too_large" // the request is larger than the server or its rate tier takes
	KindCancelled       Kind = "cancelled"         // the caller's context ended
)

// Summary says the kind in a few words for people, for example "rate limited".
func (k Kind) Summary() string {
	switch k {
	case KindRateLimit:
		return "rate limited"
	case KindOverloaded:
		return "the server is overloaded"
	case KindServerError:
		return "the server failed"
	case KindNetwork:
		return "the connection failed"
	case KindTimeout:
		return "no answer in time"
	case KindStalled:
		return "the answer stalled"
	case KindInvalidResponse:
		return "the answer can't be read"
	case KindEmptyResponse:
		return "the answer is empty"
	case KindAuth:
		return "the key was not accepted"
	case KindPermission:
		return "access denied"
	case KindBilling:
		return "credit or quota is used up"
	case KindNotFound:
		return "not found"
	case KindRedirect:
		return "the server redirects elsewhere"
	case KindBadRequest:
		return "the request was refused"
	case KindContextLength:
		return "the conversation is too long for the model"
	case KindContentFilter:
		return "a content filter refused the request"
	case KindPayloadTooLarge:
		return "the request is too large"
	case KindCancelled:
		return "cancelled"
	}
	return string(k)
}

// Error is a failed model request. Its text never holds a key, a URL query or
// more than a short excerpt of what the server sent.
type Error struct {
	Kind       Kind
	Status     int           // HTTP status, 0 when no answer came
	Request    string        // method and URL without query, for example "POST https://host/v1/chat/completions"
	Server     string        // base URL without query
	Model      string        // model that was asked for
	Code       string        // the server's own error code or type, "" when it gave none
	Message    string        // what the server or the network said, shortened
	Hint       string        // what the user can check, "" when there is nothing to say
	RetryAfter time.Duration // how long the server asked to wait, 0 when it did not
	RequestID  string        // the server's id of the request, for its support, "" when it gave none
	Err        error         // cause for errors.Is, nil when the server itself answered
	Usage      chat.Usage    // what the server reported for an answer that can't be used; zero when it gave none

	permanent bool // trying again can't help although the kind usually heals
}

// Error says what was sent where, what came back and what to check.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Request)
	if e.Model != "" {
		fmt.Fprintf(&b, " (model %q)", e.Model)
	}
	b.WriteString(": ")
	b.WriteString(e.Kind.Summary())
	if e.Status != 0 {
		fmt.Fprintf(&b, " (HTTP %d", e.Status)
		if text := http.StatusText(e.Status); text != "" {
			b.WriteString(" " + text)
		}
		b.WriteString(")")
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.RequestID != "" {
		b.WriteString(" [request " + e.RequestID + "]")
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause, if any.
func (e *Error) Unwrap() error { return e.Err }

// Retryable says whether the same request may succeed later.
func (e *Error) Retryable() bool {
	if e.permanent {
		return false
	}
	switch e.Kind {
	case KindRateLimit, KindOverloaded, KindServerError, KindNetwork, KindTimeout, KindStalled,
		KindInvalidResponse, KindEmptyResponse:
		return true
	}
	return false
}

// limits says that the server refused the request for its rate: it wants fewer of them
// for now, and took nothing of this one.
func (e *Error) limits() bool {
	if e.permanent {
		return false
	}
	return e.Kind == KindRateLimit || e.Kind == KindOverloaded && (e.Status == http.StatusTooManyRequests || e.RetryAfter > 0)
}

// Fatal says that no request to this server can succeed until a person changes
// the configuration, the key or the account.
func (e *Error) Fatal() bool {
	switch e.Kind {
	case KindAuth, KindPermission, KindBilling, KindNotFound, KindRedirect:
		return true
	case KindNetwork:
		return e.permanent
	}
	return false
}

// KindOf returns the kind of the Error that err wraps; a bare context error is
// KindCancelled and any other error "".
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return KindCancelled
	}
	return ""
}

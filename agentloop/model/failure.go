package model

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/tidwall/gjson"
)

// failure returns an error about this server; message must be redacted already.
func (t *target) failure(kind Kind, message, hint string) *Error {
	return &Error{Kind: kind, Request: t.request, Server: t.server, Model: t.model, Message: message, Hint: hint}
}

// cancelled reports that the caller's context ended.
func (t *target) cancelled(ctx context.Context) *Error {
	e := t.failure(KindCancelled, "", "")
	e.Err = ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, e.Err) {
		e.Err = fmt.Errorf("%w: %w", e.Err, cause)
	}
	e.Message = t.redact(e.Err.Error())
	return e
}

// transportFailure classifies the failure of a round trip: ctx is the caller's
// context, cause what our own timers ended it with, if they did.
func (t *target) transportFailure(ctx context.Context, cause, err error) *Error {
	if ctx.Err() != nil {
		return t.cancelled(ctx)
	}
	switch {
	case errors.Is(cause, errTimeout):
		e := t.failure(KindTimeout, "waited "+t.timeout.String(), "raise the server's timeout if the model needs longer")
		e.Err = errTimeout
		return e
	case errors.Is(cause, errStalled):
		e := t.failure(KindStalled, "no byte for "+t.stall.String(), "")
		e.Err = errStalled
		return e
	}
	e := t.failure(KindNetwork, "", "")
	e.Err = err
	host := t.server
	if u, parseErr := url.Parse(t.server); parseErr == nil {
		host = u.Host
	}
	var (
		dns       *net.DNSError
		record    tls.RecordHeaderError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &dns):
		e.Message = "the host name " + strconv.Quote(dns.Name) + " can't be resolved: " + dns.Err
		e.Hint = "check the host in base_url and this machine's network"
	case errors.As(err, &record):
		e.Message = "the server does not speak TLS on this port"
		e.Hint = "use http:// in base_url if this is a local server"
		e.permanent = true
	case errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &invalid), errors.As(err, &verify):
		e.Message = "the server's certificate is not trusted: " + err.Error()
		e.Hint = "check base_url, the machine's clock and its certificates"
		e.permanent = true
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Message = "connection refused"
		e.Hint = "is the server running at " + host + "? Check base_url"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.Message = "the server reset the connection"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Message = "the server closed the connection without an answer"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		e.Message = "too many open files"
		e.Hint = "raise the limit (ulimit -n) or lower num_max_requests_at_once"
	case strings.Contains(err.Error(), "malformed HTTP"):
		// net/http quotes the foreign bytes: keep a short excerpt.
		e.Message = "the server does not speak HTTP on this port: " + t.excerpt(err.Error())
		e.Hint = "use https:// in base_url if the server wants TLS"
	default:
		e.Message = t.excerpt(err.Error())
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			e.Hint = "is " + host + " reachable from this machine?"
		}
	}
	e.Message = t.redact(e.Message)
	return e
}

// bodyFailure classifies a failure after the headers of a successful answer.
func (t *target) bodyFailure(ctx context.Context, cause error, resp *http.Response, raw []byte, err error) *Error {
	var e *Error
	switch {
	case errors.Is(err, errTooLarge):
		e = t.failure(KindInvalidResponse, fmt.Sprintf("the answer is larger than %d bytes", len(raw)), "")
	case errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil && cause == nil:
		e = t.failure(KindInvalidResponse, fmt.Sprintf("the answer was cut off after %d bytes", len(raw)), "")
		e.Err = err
	default:
		e = t.transportFailure(ctx, cause, err)
		if e.Kind == KindNetwork {
			e.Message += fmt.Sprintf(", %d bytes into the answer", len(raw))
		}
	}
	if e.Kind != KindCancelled {
		e.Status = resp.StatusCode
		e.RequestID = t.requestID(resp)
	}
	return e
}

// statusFailure describes an answer whose status is not a success.
func (t *target) statusFailure(resp *http.Response, raw []byte) *Error {
	e := t.failure("", "", "")
	e.Status = resp.StatusCode
	e.RequestID = t.requestID(resp)
	e.RetryAfter = retryAfter(resp.Header, resp.StatusCode, time.Now())
	text := bytes.TrimSpace(raw)
	isJSON := len(text) > 0 && chat.Valid(text)
	switch {
	case isJSON:
		t.describe(e, gjson.ParseBytes(text), resp.StatusCode)
	case looksLikeHTML(resp, text):
		e.Message = t.excerpt(pageText(text))
		e.Kind = classify(e.Status, strings.ToLower(e.Message))
	default:
		e.Message = t.excerpt(string(text))
		e.Kind = classify(e.Status, strings.ToLower(e.Message))
	}
	if e.Kind == KindRedirect {
		to := resp.Header.Get("Location")
		if u, err := url.Parse(to); err == nil && u.Host != "" {
			to = displayURL(to)
		} else if before, _, ok := strings.Cut(to, "?"); ok {
			to = before
		}
		e.Message = "to " + t.excerpt(to)
		e.Hint = "redirects are not followed, so that keys stay with the configured server; put the new address into base_url if you trust it"
		return e
	}
	t.advise(e, isJSON)
	return e
}

// embeddedFailure describes an error object inside a successful answer.
func (t *target) embeddedFailure(resp *http.Response, failure gjson.Result) *Error {
	e := t.failure("", "", "")
	e.Status = resp.StatusCode
	e.RequestID = t.requestID(resp)
	e.RetryAfter = retryAfter(resp.Header, 0, time.Now())
	status := 0
	if code := failure.Get("code").Int(); code >= 300 && code < 600 {
		status = int(code)
		e.Status = status
	}
	t.describe(e, failure, status)
	t.advise(e, true)
	return e
}

// describe fills code, message and kind from a JSON error in any common shape.
func (t *target) describe(e *Error, body gjson.Result, status int) {
	inner := body
	if v := body.Get("error"); v.IsObject() {
		inner = v
	} else if v := body.Get("0.error"); v.IsObject() { // a list of one, as some gateways send
		inner = v
	}
	for _, key := range []string{"code", "type", "status"} {
		if v := inner.Get(key); v.Type == gjson.String && v.Str != "" {
			e.Code = textutil.Shorten(t.redact(v.Str), 80)
			break
		}
	}
	message := errorText(body)
	if upstream := inner.Get("metadata.raw"); upstream.Type == gjson.String && upstream.Str != "" {
		message += ": " + upstream.Str // what the provider behind a gateway said
	}
	if message == "" {
		message = body.Raw
	}
	e.Message = t.excerpt(message)
	if e.Code != "" && !strings.Contains(e.Message, e.Code) {
		e.Message += " (" + e.Code + ")"
	}
	// The whole text decides, not the excerpt: the telling words may come late.
	words := strings.ToLower(textutil.Shorten(message, 8<<10) + " " + inner.Get("code").String() + " " + inner.Get("type").String() + " " + inner.Get("status").String())
	e.Kind = classify(status, words)
}

// errorText finds the message of a JSON error in the shapes servers use.
func errorText(body gjson.Result) string {
	for _, path := range []string{"error.message", "message", "error", "detail", "0.error.message", "errors.0.message", "errors.0", "error_description", "msg", "title"} {
		v := body.Get(path)
		switch {
		case v.Type == gjson.String && strings.TrimSpace(v.Str) != "":
			return v.Str
		case path == "detail" && v.IsArray(): // FastAPI's validation errors
			var parts []string
			for _, item := range v.Array() {
				var location []string
				for _, step := range item.Get("loc").Array() {
					location = append(location, step.String())
				}
				parts = append(parts, strings.TrimPrefix(strings.Join(location, ".")+": "+item.Get("msg").String(), ": "))
			}
			return strings.Join(parts, "; ")
		case path == "detail" && v.IsObject():
			return errorText(v)
		}
	}
	return ""
}

// advise adds what the user can check, per kind.
func (t *target) advise(e *Error, isJSON bool) {
	if e.Kind == KindPayloadTooLarge && e.Hint == "" {
		e.Hint = "shorten what is sent, or raise the server's limit"
	}
	key := "the key"
	if t.keySource != "" {
		key += " from " + t.keySource
	}
	switch e.Kind {
	case KindAuth:
		if !t.hasKey {
			e.Hint = "no key was sent: set one for this server"
			if t.keySource != "" {
				e.Hint = "no key was sent: set " + t.keySource
			}
			return
		}
		e.Hint = "check " + key + " and that it belongs to this server"
	case KindPermission:
		e.Hint = "check what " + key + " may use, and whether this network or region is allowed"
		if !t.hasKey {
			e.Hint = "no key was sent: the server may want one"
		}
	case KindBilling:
		e.Hint = "check the credit, quota or spending limit of the account behind " + key
	case KindNotFound:
		lower := strings.ToLower(e.Message)
		switch {
		case mentionsModel(lower) || t.model != "" && isJSON && strings.Contains(lower, strings.ToLower(t.model)):
			e.Hint = "the server does not offer this model: check model_name"
		default:
			e.Hint = t.pathHint("nothing answers at this path")
		}
	case KindContextLength:
		e.Hint = "lower max_token_length or the turns, or use a model with a larger window"
	}
}

// pathHint says how the URL was made and what about it may be wrong.
func (t *target) pathHint(seen string) string {
	hint := seen + ": check base_url, which is used as it is"
	if !t.versioned {
		hint += "; most servers want it to end in /v1"
	}
	return hint
}

// requestID returns the id under which the server's operator finds the request.
func (t *target) requestID(resp *http.Response) string {
	for _, name := range []string{"X-Request-Id", "Request-Id", "Cf-Ray"} {
		v := resp.Header.Get(name)
		if v != "" && len(v) <= 100 && strings.IndexFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) < 0 {
			return t.redact(v)
		}
	}
	return ""
}
